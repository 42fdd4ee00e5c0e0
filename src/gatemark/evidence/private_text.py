"""Find private content in short texts: paths, secrets, addresses, numbers, payloads.

The rules are many and slow, and nearly every text of a large file is clean. So two patterns of
linear time look at all texts of a batch at once; only a text that they cannot clear meets the
rules themselves. ``make bench`` (``advisory``) shows the gain.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Collection, Iterator
from functools import cache
from typing import Any, Final, NamedTuple

import msgspec

from gatemark.core.errors import InvalidValueError
from gatemark.evidence.account_numbers import (
    ACCOUNT_NUMBER,
    MAY_BE_ACCOUNT_NUMBER,
    is_account_number,
)
from gatemark.evidence.look_alikes import is_hidden, unmasked
from gatemark.evidence.personal_data import personal_data
from gatemark.evidence.secrets_in_text import (
    GIVEN_VALUE,
    ID_OR_DIGEST,
    KEY_MARKS,
    NAMES_OF_SECRETS,
    ORDINARY,
    may_hold_secret,
    secret_kinds,
)

_PRIVATE_FOLDERS: Final = (
    *("home", "root", "Users", "private"),
    *("mnt", "media", "Volumes", "var/mail"),
)


class PrivateTextRules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What counts as private, and how long a text may be before it counts as content.

    A code has few words; more words count as an excerpt. Roots match whatever their case.
    """

    private_roots: tuple[str, ...] = (
        *(f"/{name}/" for name in _PRIVATE_FOLDERS),
        "/.ssh/",
        "/.gnupg/",
        "/.aws/",
        "~/",
        "$HOME",
        "${HOME}",
        "%USERPROFILE%",
        ":\\Users\\",
        "file://",
    )
    code_chars_max: int = 160
    note_chars_max: int = 280
    code_words_max: int = 8

    def __post_init__(self) -> None:
        if any(not root.strip() for root in self.private_roots):
            raise InvalidValueError("a private root must not be blank")
        if not 1 <= self.code_chars_max <= self.note_chars_max:
            raise InvalidValueError("need 1 <= code_chars_max <= note_chars_max")
        if self.code_words_max < 1:
            raise InvalidValueError("code_words_max must be >= 1")


_COUNTED: Final = re.compile(r"(\w*)[:=]\d{9,15}(?![\w#.-])")
_CALLED: Final = re.compile(r"phone|tel|mobile|cell|call|sms|fax|contact|whatsapp", re.IGNORECASE)
_CLOCK_OR_ROUND: Final = re.compile(r"(?<!\d)(?:1[5-9]\d{8}(?:\d{3})?|[1-9]\d{0,8}0{6,})(?!\d)")
_CREDENTIALS: Final = (
    r"(?i:(?:bearer|basic)[ :=]+[\w.~+/=-]{8,}|authorization['\"]?[ :=]+\S{4,}"
    r"|[?&;#][\w.-]*(?:token|key|secret|sig|signature|passw|auth|session|credential)[\w.-]*="
    r"[^&\s]{4,})"
)
_CREDENTIAL: Final = re.compile(_CREDENTIALS)


def _strip_counts(text: str) -> str:
    """Return a text without numbers that are ids, counts or times and no phone numbers."""
    named = _COUNTED.sub(
        lambda found: found[0] if _CALLED.search(found[1]) else found[1] + " ", text
    )
    return _CLOCK_OR_ROUND.sub(" ", named)


_JSON: Final = re.compile(r"\{\s*\\*[\"'][^\"'{}]{0,200}\\*[\"']\s*:")
_PERSONAL: Final = re.compile(r"@|\d(?:[ ().+-]{0,2}\d){8}")


_PLAIN_WORD: Final = (
    rf"[a-z0-9+/_=-]{{1,31}}|[A-Za-z0-9+/_=-]{{1,10}}|{ORDINARY}"
    r"|(?:[a-z0-9]{1,12}[+/_=-]){0,2}"
    r"(?:[0-7][0-9A-HJKMNP-TV-Z]{25}|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})"
    r"|sha256:[0-9a-f]{64}"
)
_BETWEEN_WORDS: Final = r"[^A-Za-z0-9+/_=\n-]"
_PLAIN_LINE: Final = (
    rf"{_BETWEEN_WORDS}*(?:(?:{_PLAIN_WORD}){_BETWEEN_WORDS}+)*(?:{_PLAIN_WORD})?\n"
)
"""A text without a word that could be a secret: only short words, names, ids and digests."""
_SUSPECT: Final = (
    r"[^ -~\n]|[@{]|%[0-9A-Fa-f]{2}",
    KEY_MARKS,
    rf"{NAMES_OF_SECRETS}[^\n]*{GIVEN_VALUE}|{GIVEN_VALUE}[^\n]*{NAMES_OF_SECRETS}",
    _CREDENTIALS,
    r"(?:^|[^\w.#\n-])\+?\(?\d(?:[ ().-]{0,2}\d){8,14}(?:$|[^\w#\n-])",
)
"""What a text must have to break a rule, besides what looks like an account number or a secret."""
_MANY_WORDS: Final = r"(?:[^ \n]+ +){%d}[^ \n]"


class _Screen(NamedTuple):
    """Patterns over the lines of many texts: suspect ones, and lines of plain words only."""

    suspect: Any
    plain: Any

    def find_suspects(self, data: bytes) -> Iterator[bytes]:
        """Yield the lines that may be private: with something suspect, or a word that is not plain.

        No match reaches over two lines.
        """
        end = 0
        while (found := self.suspect.search(data, end)) is not None:
            end = data.index(b"\n", found.end())
            yield data[data.rfind(b"\n", 0, found.start()) + 1 : end]
        start = self.plain.match(data).end()
        while start < len(data):
            end = data.index(b"\n", start)
            yield data[start:end]
            start = self.plain.match(data, end + 1).end()


@cache
def _compile_screen(rules: PrivateTextRules, *, note: bool) -> _Screen:
    """Return the patterns that clear texts: ``PrivateTextScan.kinds`` finds nothing in the others.

    They are read in linear time by RE2; with ``re``, a record took about five times as long.
    """
    re2 = importlib.import_module("re2")
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    roots = "|".join(
        "".join(r"[/\\]" if sign in "/\\" else re.escape(sign) for sign in root)
        for root in rules.private_roots
        if root.isascii()
    )
    words = () if note else (_MANY_WORDS % min(rules.code_words_max, 500),)
    suspect = "|".join(
        (*_SUSPECT, MAY_BE_ACCOUNT_NUMBER, *words, *([f"(?i:{roots})"] if roots else []))
    )
    patterns = (f"(?m){suspect}", f"(?:{_PLAIN_LINE})*")
    return _Screen(*(re2.compile(pattern.encode(), options) for pattern in patterns))


class PrivateTextScan:
    """Finds private content in texts."""

    def __init__(self, rules: PrivateTextRules) -> None:
        self._rules = rules
        self._roots = rules.private_roots
        self._lower_roots = [root for root in self._roots if root == root.lower()]
        self._windows_roots = [root.lower() for root in self._roots if "\\" in root]

    def private(self, texts: Collection[str], *, note: bool = False) -> set[str]:
        """Return the texts that have private content; the same as ``kinds``, for many at once."""
        return {text for text in self._find_suspects(texts, note) if self.kinds(text, note=note)}

    def _find_suspects(self, texts: Collection[str], note: bool) -> set[str]:
        """Return the texts that may have private content; never misses any."""
        lines = "\n".join([*texts, ""])
        if lines.count("\n") > len(texts):
            return set(texts)
        screen = _compile_screen(self._rules, note=note)
        found = set(map(bytes.decode, screen.find_suspects(lines.encode("utf-8", "replace"))))
        longest = self._rules.note_chars_max if note else self._rules.code_chars_max
        if max(map(len, texts), default=0) > longest:
            found.update(text for text in texts if len(text) > longest)
        return found

    def kinds(self, text: str, *, note: bool = False) -> tuple[str, ...]:
        """Return the kinds of private content in a text; none if it is clean."""
        read = unmasked(text)
        found = self._find_kinds(text)
        if not text.isascii() and any(map(is_hidden, text)):
            found.append("invisible")
        if read != text:
            found += self._find_kinds(read)
        if len(text) > (self._rules.note_chars_max if note else self._rules.code_chars_max):
            found.append("over_long")
        elif not note and len(text.split()) > self._rules.code_words_max:
            found.append("excerpt")
        return tuple(dict.fromkeys(found))

    def _find_kinds(self, text: str) -> list[str]:
        found = []
        if self._is_under_root(text):
            found.append("private_root")
        if _JSON.search(text):
            found.append("embedded_json")
        if _PERSONAL.search(text):
            kinds = personal_data(_strip_counts(text))
            found.extend(kind for kind in kinds if kind != "key")
        if (may_hold_secret(text) and secret_kinds(text)) or _CREDENTIAL.search(text):
            found.append("secret")
        if any(map(is_account_number, ACCOUNT_NUMBER.findall(ID_OR_DIGEST.sub(" ", text)))):
            found.append("iban")
        return found

    def _is_under_root(self, text: str) -> bool:
        """Whether a text has a private root; one of Windows has slashes of both kinds."""
        lower = text.lower()
        windows = lower.replace("/", "\\")
        return (
            any(root in text for root in self._roots)
            or any(root in lower for root in self._lower_roots)
            or any(root in windows for root in self._windows_roots)
        )
