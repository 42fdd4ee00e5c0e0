"""Find private content in short texts: paths, secrets, addresses, numbers, payloads.

The rules are many and slow, and nearly every text of a large file is clean. So two patterns of
linear time look at all texts of a batch at once; only a text that they cannot clear meets the
rules themselves. ``make bench`` (``advisory``) shows the gain.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Collection, Iterable, Iterator
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
from gatemark.evidence.secrets_in_text import ID_OR_DIGEST, may_hold_secret, secret_kinds

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
_CREDENTIAL: Final = re.compile(
    r"(?:bearer|basic)[ :=]+[\w.~+/=-]{8,}|authorization['\"]?[ :=]+\S{4,}"
    r"|[?&;#][\w.-]*(?:token|key|secret|sig|signature|passw|auth|session|credential)[\w.-]*="
    r"[^&\s]{4,}",
    re.IGNORECASE,
)


def _strip_counts(text: str) -> str:
    """Return a text without numbers that are ids, counts or times and no phone numbers."""
    named = _COUNTED.sub(
        lambda found: found[0] if _CALLED.search(found[1]) else found[1] + " ", text
    )
    return _CLOCK_OR_ROUND.sub(" ", named)


_REMEMBERED: Final = 50_000
_SAMPLE: Final = 64
_JSON: Final = re.compile(r"\{\s*\\*[\"'][^\"'{}]{0,200}\\*[\"']\s*:")
_PERSONAL: Final = re.compile(r"@|\d(?:[ ().+-]{0,2}\d){8}")


_ID_WORD: Final = (
    r"(?:[a-z0-9]{1,12}[+/_=-]){0,2}"
    r"(?:[0-7][0-9A-HJKMNP-TV-Z]{25}"
    r"|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})"
)
_PLAIN_WORD: Final = rf"[a-z0-9+/_=-]{{1,31}}|[A-Za-z0-9+/_=-]{{1,10}}|{_ID_WORD}"
_PLAIN_TEXT: Final = (
    rf"[^A-Za-z0-9+/_=-]*(?:(?:{_PLAIN_WORD}|sha256:[0-9a-f]{{64}})[^A-Za-z0-9+/_=-]+)*"
    rf"(?:{_PLAIN_WORD}|sha256:[0-9a-f]{{64}})?"
)
"""Texts without a word that could be a secret: only short words, lower-case ones, ids, digests."""
_SUSPECT: Final = (
    r"[^ -~\n]|[@{?&;#]|%[0-9A-Fa-f]{2}",
    r"eyJ|xox|k_live_|-us[0-9]|gl[a-z]{2,5}-|gh[pousr]_|SG\.|sq0csp|T3BlbkFJ|pypi-Ag|[0-9]{8}:"
    r"|\.[\w-]{6}\.[\w-]{27}",
    r"(?i:key|pass|pwd|pw|secret|token|contrase|bearer|basic|authorization|putty|slack)",
    r"(?:^|[^\w.#\n-])\+?\(?\d(?:[ ().-]{0,2}\d){8,14}(?:$|[^\w#\n-])",
)
"""What a text must have to break a rule, besides what looks like an account number or a secret."""
_MANY_WORDS: Final = r"(?:[^ \n]+ +){%d}[^ \n]"


class _Filters(NamedTuple):
    """Patterns over the lines of many texts: those to look at, and texts of plain words only."""

    suspect: Any
    plain: Any


@cache
def _make_filters(rules: PrivateTextRules, *, note: bool) -> _Filters:
    """Return the patterns that clear texts.

    ``PrivateTextScan.kinds`` finds nothing in a text that ``plain`` matches and the others do not.
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
    patterns = (f"(?m){suspect}", _PLAIN_TEXT)
    return _Filters(*(re2.compile(pattern.encode(), options) for pattern in patterns))


def _find_matching_lines(pattern: Any, data: bytes) -> Iterator[bytes]:
    """Yield the lines in which a pattern is found; no match may reach over two lines."""
    end = 0
    while (found := pattern.search(data, end)) is not None:
        place = found.start()
        end = data.find(b"\n", found.end())
        end = len(data) if end < 0 else end
        yield data[data.rfind(b"\n", 0, place) + 1 : end]


def _comes_again(texts: list[str]) -> bool:
    """Return whether about half of some texts, or more, are there more than once."""
    sample = texts[:: len(texts) // _SAMPLE + 1]
    return len(set(sample)) * 2 <= len(sample)


class PrivateTextScan:
    """Finds private content in texts, and remembers clean texts that took a closer look."""

    def __init__(self, rules: PrivateTextRules) -> None:
        self._rules = rules
        self._clean: set[str] = set()

    def private(self, texts: Iterable[str], *, note: bool = False) -> set[str]:
        """Return the texts that have private content; the same as ``kinds``, for many at once."""
        listed = texts if isinstance(texts, list) else list(texts)
        # Where hardly a text comes again, leaving out the known ones costs more than it saves.
        unknown = set(listed) - self._clean if _comes_again(listed) else listed
        if not unknown:
            return set()
        return {text for text in self._find_suspects(unknown, note) if self.kinds(text, note=note)}

    def _find_suspects(self, texts: Collection[str], note: bool) -> set[str]:
        """Return the texts that may have private content; never misses any."""
        rules = self._rules
        longest = rules.note_chars_max if note else rules.code_chars_max
        joined = "\n".join(texts)
        if joined.count("\n") >= len(texts):
            return set(texts)
        filters = _make_filters(rules, note=note)
        data = joined.encode("utf-8", "replace")
        found = set(map(bytes.decode, _find_matching_lines(filters.suspect, data)))
        if max(map(len, texts)) > longest:
            found.update(text for text in texts if len(text) > longest)
        if filters.plain.fullmatch(data) is None:
            found.update(text for text in texts if filters.plain.fullmatch(text.encode()) is None)
        return found

    def kinds(self, text: str, *, note: bool = False) -> tuple[str, ...]:
        """Return the kinds of private content in a text; none if it is clean."""
        if text in self._clean:
            return ()
        found = self._examine_text(text)
        too_much = self._check_code(text)
        if not found and too_much is None and len(self._clean) < _REMEMBERED:
            self._clean.add(text)
        if note:
            too_much = "over_long" if len(text) > self._rules.note_chars_max else None
        return found if too_much is None else (*found, too_much)

    def _check_code(self, text: str) -> str | None:
        if len(text) > self._rules.code_chars_max:
            return "over_long"
        return "excerpt" if len(text.split()) > self._rules.code_words_max else None

    def _examine_text(self, text: str) -> tuple[str, ...]:
        read = unmasked(text)
        found = self._find_kinds(text)
        if not text.isascii() and any(map(is_hidden, text)):
            found = (*found, "invisible")
        return found if read == text else tuple(dict.fromkeys((*found, *self._find_kinds(read))))

    def _find_kinds(self, text: str) -> tuple[str, ...]:
        found = []
        if any(self._is_under(root, text) for root in self._rules.private_roots):
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
        return tuple(found)

    @staticmethod
    def _is_under(root: str, text: str) -> bool:
        if root in text:
            return True
        if "\\" in root:
            return root.lower() in text.replace("/", "\\").lower()
        return root == root.lower() and root in text.lower()
