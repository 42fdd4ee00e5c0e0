"""Find private content in short texts: paths, secrets, addresses, numbers, payloads.

The rules are many and slow, and nearly every text of a large file is clean. So two patterns of
linear time look at all texts of a batch at once; only a text that they cannot clear meets the
rules themselves. ``make bench`` (``advisory``) shows the gain.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
import string
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cache
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

import msgspec

from gatemark.core.errors import InvalidValueError
from gatemark.evidence.inputs import LATIN_LOOKS

_EMAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_PHONE = re.compile(r"(?<![\w.#-])\+?\(?\d(?:[ ().-]{0,2}\d){8,14}(?![\w#-])")
_MOMENT = re.compile(
    r"(?<!\d)\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d)?)?(?!\d)"
)
_KEY = re.compile(
    r"(?<![\w-])(?:sk|pk|ghp|gho|xox[abp]|AKIA|AIza|eyJ)[\w-]{16,}"
    r"|(?<![\w-])(?=[\w-]*\d)(?=[\w-]*[a-z])(?=[\w-]*[A-Z])[\w-]{24,}"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----"
    r"|(?<![0-9a-f])[0-9a-f]{32,}(?![0-9a-f])"
)
_SSN = re.compile(r"(?<![\w.#-])(?!000|666|9)\d{3}([- ])(?!00)\d\d\1(?!0000)\d{4}(?![\w#-])")
_KINDS = (("email", _EMAIL), ("phone", _PHONE), ("key", _KEY))

_WORD_SIGN: Final = r"(?:[0-9A-Za-z_-]|[^\x00-\x7f])"
_MAYBE_PERSONAL: Final = (
    r"@|-----BEGIN|\p{Nd}(?:[ ().-]{0,2}\p{Nd}){8}"
    rf"|(?:sk|pk|ghp|gho|xox[abp]|AKIA|AIza|eyJ){_WORD_SIGN}{{16}}|{_WORD_SIGN}{{24}}"
)
"""What a text must have to contain personal data. No match reaches over a line break."""


@cache
def _compile_maybe_personal() -> Any:
    return importlib.import_module("re2").compile(_MAYBE_PERSONAL.encode())


def find_suspects(texts: Sequence[str]) -> list[int]:
    """Return the places of texts that may contain personal data; never misses any.

    All texts are read at once in linear time, by RE2. ``personal_data`` takes eighty times as long
    (``make bench``, ``agreement``).
    """
    lines = "\n".join(texts)
    if lines.count("\n") >= len(texts):
        # Some texts have lines of their own; to the rules, a carriage return is the same.
        lines = "\n".join(text.replace("\n", "\r") for text in texts)
    data, pattern = lines.encode("utf-8", "replace"), _compile_maybe_personal()
    places, place, end = [], 0, 0
    while (found := pattern.search(data, end)) is not None:
        place += data.count(b"\n", end, found.start())
        places.append(place)
        end = data.find(b"\n", found.end())
        if end < 0:
            break
    return places


def personal_data(reason: str) -> tuple[str, ...]:
    """Return the kinds of personal data in a reason."""
    # A date and an hour have as many digits as a phone number.
    read = _MOMENT.sub(" ", reason)
    # A social security number has as many digits as a short phone number.
    numberless = _SSN.sub(" ", read)
    ssn = () if numberless == read else ("ssn",)
    return (*(kind for kind, pattern in _KINDS if pattern.search(numberless)), *ssn)


_COUNTED: Final = re.compile(r"(\w*)[:=]\d{9,15}(?![\w#.-])")
_CALLED: Final = re.compile(r"phone|tel|mobile|cell|call|sms|fax|contact|whatsapp", re.IGNORECASE)
_CLOCK_OR_ROUND: Final = re.compile(r"(?<!\d)(?:1[5-9]\d{8}(?:\d{3})?|[1-9]\d{0,8}0{6,})(?!\d)")
_IBAN: Final = re.compile(
    r"(?<![0-9A-Za-z])[A-Za-z]{2}\d{2}(?:[ _-]?[0-9A-Za-z]{4}){2,7}(?:[ _-]?[0-9A-Za-z]{1,3})?"
    r"(?![0-9A-Za-z])"
)
_IBAN_SIZES: Final = {
    **dict.fromkeys(("NO",), 15),
    **dict.fromkeys(("BE",), 16),
    **dict.fromkeys(("DK", "FI", "FO", "GL", "NL"), 18),
    **dict.fromkeys(("MK", "SI"), 19),
    **dict.fromkeys(("AT", "BA", "EE", "KZ", "LT", "LU", "XK"), 20),
    **dict.fromkeys(("CH", "HR", "LI", "LV"), 21),
    **dict.fromkeys(("BG", "BH", "CR", "DE", "GB", "GE", "IE", "ME", "RS", "VA"), 22),
    **dict.fromkeys(("AE", "GI", "IL", "IQ", "TL"), 23),
    **dict.fromkeys(("AD", "CZ", "ES", "MD", "PK", "RO", "SA", "SE", "SK", "TN", "VG"), 24),
    **dict.fromkeys(("LY", "PT", "ST"), 25),
    **dict.fromkeys(("IS", "TR"), 26),
    **dict.fromkeys(("FR", "GR", "IT", "MC", "MR", "SM"), 27),
    **dict.fromkeys(("AL", "AZ", "BY", "CY", "DO", "GT", "HU", "LB", "NI", "PL", "SV"), 28),
    **dict.fromkeys(("BR", "EG", "PS", "QA", "UA"), 29),
    **dict.fromkeys(("JO", "KW", "MU"), 30),
    **dict.fromkeys(("MT", "SC"), 31),
    "LC": 32,
}
_IBAN_DIGITS: Final = {"AD": 12, "AE": 23, "BA": 20, "BE": 16, "DE": 22, "EE": 20}
"""Up to which place an account number has digits only, where a hexadecimal id can begin like it."""
_CREDENTIAL: Final = re.compile(
    r"(?:bearer|basic)[ :=]+[\w.~+/=-]{8,}|authorization['\"]?[ :=]+\S{4,}"
    r"|[?&;#][\w.-]*(?:token|key|secret|sig|signature|passw|auth|session|credential)[\w.-]*="
    r"[^&\s]{4,}",
    re.IGNORECASE,
)


def _is_iban(text: str) -> bool:
    """Return whether a word is an account number: the length of its country, and the checksum."""
    word = re.sub(r"[ _-]", "", text).upper()
    if len(word) != _IBAN_SIZES.get(word[:2]):
        return False
    if not word[2 : _IBAN_DIGITS.get(word[:2], 4)].isdigit():
        return False
    digits = "".join(str(int(sign, 36)) for sign in word[4:] + word[:4])
    return int(digits) % 97 == 1


def _strip_counts(text: str) -> str:
    """Return a text without numbers that are ids, counts or times and no phone numbers."""
    named = _COUNTED.sub(
        lambda found: found[0] if _CALLED.search(found[1]) else found[1] + " ", text
    )
    return _CLOCK_OR_ROUND.sub(" ", named)


# Every dotted address would count as one; addresses are no secrets.
_NOT_SECRET: Final = frozenset(("IPPublicDetector",))
_EXPLAINED: Final = re.compile(
    r"sha256:[0-9a-f]{64}(?![0-9A-Za-z])"
    r"|(?<![0-9A-Za-z])[0-7][0-9A-HJKMNP-TV-Z]{25}(?![0-9A-Za-z])"
    r"|(?<![0-9A-Za-z])[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}(?![0-9A-Za-z])"
)
_WORD: Final = re.compile(r"[A-Za-z0-9+/_=-]{11,}")
_HEX: Final = re.compile(r"[0-9a-fA-F]{32,}")
_LONG: Final = 32
_MIXED: Final = 20
# Names made of words, such as paths, models and codes: nobody's secret is spelled like this.
_ORDINARY: Final = re.compile(
    r"[+/_=-]*(?:(?:[A-Z]?[a-z]{1,20}[0-9]{0,6}[a-z]{0,3}|[A-Z]{1,12}[0-9]{0,6}[a-z]{0,3}"
    r"|[0-9]{1,8}(?:[A-Za-z]{1,3}[0-9]{0,4})?)(?![A-Za-z0-9])[+/_=-]*)+"
)
_MARKS: Final = re.compile(
    r"://[^/\s]*@|eyJ|xox|k_live_|-us[0-9]|gl[a-z]{2,5}-|gh[pousr]_|hooks\.slack|SG\.|sq0csp|T3BlbkFJ"
    r"|pypi-Ag|authToken|PRIVATE KEY|PuTTY|[0-9]{8}:|\.[\w-]{6}\.[\w-]{27}"
)
_NAMED: Final = re.compile(r"key|pass|pwd|pw|secret|token|contrase", re.IGNORECASE)
_GIVEN: Final = re.compile(r"[:='\"(`]|[A-Za-z0-9_+/-]{24}")
_KEY_BLOCK: Final = re.compile(r"BEGIN [A-Z0-9 ]*PRIVATE KEY")


def may_hold_secret(text: str) -> bool:
    """Return whether a text may contain a secret; never misses any."""
    if not text.isascii() or _MARKS.search(text):
        return True
    if _NAMED.search(text) and _GIVEN.search(text):
        return True
    return any(_find_odd_words(text))


def secret_kinds(text: str) -> tuple[str, ...]:
    """Return the kinds of secrets that a text seems to contain."""
    regexes, keyword, (base64, hexadecimal) = _load_detectors()
    found = [
        detector.secret_type
        for detector in regexes
        if any(pattern.search(text) for pattern in detector.denylist)
    ]
    if any(keyword.analyze_string(text, _load_keyword_patterns())):
        found.append(keyword.secret_type)
    if _KEY_BLOCK.search(text):
        found.append("Private Key")
    for word in _find_odd_words(text):
        mixed = word not in (word.lower(), word.upper())
        if (len(word) >= _LONG or (mixed and len(word) >= _MIXED)) and _is_random(word, base64):
            found.append(base64.secret_type)
        if any(_is_random(digits, hexadecimal) for digits in _HEX.findall(word)):
            found.append(hexadecimal.secret_type)
    return tuple(dict.fromkeys(found))


def _find_odd_words(text: str) -> Iterator[str]:
    """Yield long or capitalised words that are neither ids nor made of names."""
    for word in _WORD.findall(_EXPLAINED.sub(" ", text)):
        if (len(word) >= _LONG or word != word.lower()) and not _ORDINARY.fullmatch(word):
            yield word


def _is_random(word: str, detector: Any) -> bool:
    return bool(detector.calculate_shannon_entropy(word) > detector.entropy_limit)


@cache
def _load_detectors() -> tuple[tuple[Any, ...], Any, tuple[Any, Any]]:
    """Return the detectors. They import an HTTP client, so they are loaded when first needed."""
    plugins = importlib.import_module("detect_secrets.plugins")
    base = importlib.import_module("detect_secrets.plugins.base").RegexBasedDetector
    regexes = []
    for found in pkgutil.iter_modules(plugins.__path__):
        module = importlib.import_module(f"detect_secrets.plugins.{found.name}")
        regexes += [
            value()
            for name, value in sorted(vars(module).items())
            if isinstance(value, type)
            and issubclass(value, base)
            and value is not base
            and value.__module__ == module.__name__
            and name not in _NOT_SECRET
        ]
    entropy = importlib.import_module("detect_secrets.plugins.high_entropy_strings")
    keyword = importlib.import_module("detect_secrets.plugins.keyword")
    return (
        tuple(regexes),
        keyword.KeywordDetector(),
        (entropy.Base64HighEntropyString(), entropy.HexHighEntropyString()),
    )


@cache
def _load_keyword_patterns() -> object:
    """Return the patterns for settings files, which find passwords without quotes."""
    keyword = importlib.import_module("detect_secrets.plugins.keyword")
    return keyword.CONFIG_DENYLIST_REGEX_TO_GROUP


REMEMBERED: Final = 50_000
_SAMPLE: Final = 64
_JSON: Final = re.compile(r"\{\s*\\*[\"'][^\"'{}]{0,200}\\*[\"']\s*:")
_PERSONAL: Final = re.compile(r"@|\d(?:[ ().+-]{0,2}\d){8}")


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
_OTHER_IBANS: Final = "|".join(code for code in _IBAN_SIZES if code not in _IBAN_DIGITS)
_MAYBE_IBAN: Final = (
    rf"(?i:(?:^|[^0-9a-z\n])(?:(?:{_OTHER_IBANS})[0-9]{{2}}(?:[ _-]?[0-9a-z]{{4}}){{2}}"
    rf"|(?:{'|'.join(_IBAN_DIGITS)})[0-9]{{2}}(?:[ _-]?[0-9]{{4}}){{2}}))"
)
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
    suspect = "|".join((*_SUSPECT, _MAYBE_IBAN, *words, *([f"(?i:{roots})"] if roots else [])))
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


@cache
def _compile_lines(pattern: str) -> Any:
    re2 = importlib.import_module("re2")
    return re2.compile(rf"(?:(?:{pattern.strip('^$')})\n)*".encode())


def lines_match(pattern: str, lines: str) -> bool:
    """Whether each line matches a pattern; RE2 takes a third of the time of ``re`` for many."""
    return _compile_lines(pattern).fullmatch(lines.encode("utf-8", "replace")) is not None


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
        if not found and too_much is None and len(self._clean) < REMEMBERED:
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
        if not text.isascii() and any(map(_is_hidden, text)):
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
        if any(map(_is_iban, _IBAN.findall(_EXPLAINED.sub(" ", text)))):
            found.append("iban")
        return tuple(found)

    @staticmethod
    def _is_under(root: str, text: str) -> bool:
        if root in text:
            return True
        if "\\" in root:
            return root.lower() in text.replace("/", "\\").lower()
        return root == root.lower() and root in text.lower()


_ENCODED: Final = re.compile(r"%[0-9A-Fa-f]{2}")
_ROUNDS: Final = 3
# Signs that look like those of paths.
_LOOK_ALIKES: Final = {
    **LATIN_LOOKS,
    **str.maketrans("\u2215\u2571\u29f8\u2216\u2024", "///\\."),
}
_INVISIBLE: Final = frozenset(("Cf", "Mn", "Me"))


def _is_hidden(sign: str) -> bool:
    """Return whether a sign takes no place on the screen; it can carry what nobody sees."""
    return unicodedata.category(sign) in ("Cf", "Co", "Cn")


def unmasked(text: str) -> str:
    """Return a text with compatible forms, look-alike letters and escapes normalised."""
    for _ in range(_ROUNDS):
        if not _ENCODED.search(text):
            break
        text = unquote(text, errors="replace")
    if text.isascii():
        return text
    plain = unicodedata.normalize("NFKD", text)
    seen = "".join(sign for sign in plain if unicodedata.category(sign) not in _INVISIBLE)
    return seen.translate(_LOOK_ALIKES)


FIRST_SIGNS: Final = {sign: sign.lower() for sign in string.ascii_letters + string.digits}
_SMALL: Final = bytes(range(256)).lower()
_NO_LETTERS: Final = bytes(code for code in range(128) if not chr(code).isalnum())


_FOLDED: Final = {
    **LATIN_LOOKS,
    **str.maketrans(
        "\u04bb\u04ba\u044c\u04af\u04ae\u03c2\u03c3\u03c9"
        "\u0131\u0251\u0261\u0269\u0142\u0141\u00f8\u00d8\u0111\u0110\u0127\u0126\u0167\u0166",
        "hHbyYcowiagilLoOdDhHtT",
    ),
}
"""With letters that differ in a stroke or a dot: in a sentence, that is as good as an accent."""


def bare_text(text: str, *, folds: bool) -> str:
    """Return a text's letters and digits in one case, without marks and blanks.

    With ``folds``, letters with accents and letters of other alphabets are the Latin ones that they
    look like.
    """
    if text.isascii():
        return text.encode().translate(_SMALL, _NO_LETTERS).decode()
    if folds:
        plain = unicodedata.normalize("NFKD", text).translate(_FOLDED)
    else:
        plain = unicodedata.normalize("NFKC", text)
    return "".join(filter(str.isalnum, plain.casefold()))
