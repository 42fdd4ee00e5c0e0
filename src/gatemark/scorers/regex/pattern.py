r"""Patterns that are matched in time proportional to the text, whatever the pattern.

The standard ``re`` backtracks: ``(a+)+$`` takes years on forty letters. RE2 reads the text once.
Patterns are written for ``re`` and translated: ``\d``, ``\w`` and ``\s`` match the same
characters as there, and ``$`` matches before a final newline. Two things differ: ``\b`` knows
only ASCII word characters, and nothing can follow ``$``. RE2 cannot match backreferences,
lookaround, atomic groups and possessive repeats, so a pattern that uses one is refused.
"""

from __future__ import annotations

import re
import unicodedata
import warnings
from functools import cache, lru_cache
from typing import Final, NoReturn

import re2

from gatemark.core.errors import BadInputError
from gatemark.scorers.scorer import truncate

MAX_PATTERN_LENGTH: Final = 1_000
MAX_MEMORY: Final = 4 << 20
"""Bytes that RE2 may use for one pattern; a larger pattern is refused."""

_LAST_CHARACTER: Final = 0x10FFFF
_SURROGATES: Final = range(0xD800, 0xE000)
_CLASS: Final = re.compile(r"\[\^?\]?(?:[^\]\\]|\\.)*\]", re.DOTALL)
_OPEN_REPEAT: Final = re.compile(r"\{,(\d*)\}")
_ESCAPE: Final = re.compile(
    r"\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|N\{[^}]*\}|[0-7]{1,3}|.)", re.DOTALL
)
_GROUP: Final = re.compile(r"\(\?(?:P<\w+>|:)")
_REPEAT_END: Final = re.compile(r"[*+?}]\+")


class LinearPattern:
    """A compiled pattern. Use ``compile_pattern`` to make one."""

    def __init__(self, pattern: str, flags: str) -> None:
        self.pattern = pattern
        _check(pattern)
        begin = f"(?{flags})" if flags else ""
        ends = ("$", "$") if "m" in flags else (r"(?:\n?\z)", r"\z")
        search, full = (begin + _translate_pattern(pattern, end=end) for end in ends)
        options = re2.Options()
        options.max_mem = MAX_MEMORY
        options.log_errors = False
        options.never_capture = True
        try:
            self._search = re2.compile(search.encode(), options)
            self._full = re2.compile(full.encode(), options)
        except re2.error as error:
            reason = error.args[0]
            text = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
            raise BadInputError(
                f"pattern {truncate(pattern, 60)!r} is not valid for RE2: {text}"
            ) from error

    def search(self, text: str) -> bool:
        """Return whether the pattern matches anywhere in the text."""
        return self._search.search(_encode_text(text)) is not None

    def fullmatch(self, text: str) -> bool:
        """Return whether the pattern matches the whole text."""
        return self._full.fullmatch(_encode_text(text)) is not None


def _translate_pattern(pattern: str, *, end: str) -> str:
    """Return a valid pattern in the syntax of RE2; ``end`` stands for ``$``."""
    parts: list[str] = []
    position = 0
    while position < len(pattern):
        rest = pattern[position]
        taken = 1
        if rest == "\\":
            escape = _ESCAPE.match(pattern, position)
            text = escape.group() if escape else rest
            taken = len(text)
            rest = _escape(text, pattern, in_class=False)
        elif rest == "[" and (found := _CLASS.match(pattern, position)):
            taken = len(found.group())
            rest = _translate_class(found.group(), pattern)
        elif rest == "{" and (found := _OPEN_REPEAT.match(pattern, position)):
            taken = len(found.group())
            rest = f"{{0,{found.group(1)}}}"
        elif rest == "(" and pattern.startswith("(?", position):
            if _GROUP.match(pattern, position) is None:
                _refuse(
                    pattern,
                    "lookaround, inline flags, atomic groups or named backreferences; use plain "
                    "groups, and set ignore_case, multiline or dotall as options",
                )
        elif rest == "$":
            rest = end
        elif _REPEAT_END.match(pattern, position) and position:
            _refuse(pattern, "possessive repeats")
        parts.append(rest)
        position += taken
    return "".join(parts)


def _check(pattern: str) -> None:
    if len(pattern) > MAX_PATTERN_LENGTH:
        raise BadInputError(
            f"pattern must have at most {MAX_PATTERN_LENGTH} characters, got {len(pattern)}"
        )
    try:
        with warnings.catch_warnings(action="error", category=FutureWarning):
            re.compile(pattern)
        pattern.encode()
    except (re.error, FutureWarning, OverflowError, RecursionError, UnicodeError) as error:
        raise BadInputError(f"pattern {truncate(pattern, 60)!r} is not valid: {error}") from error


def _translate_class(text: str, pattern: str) -> str:
    inner = _ESCAPE.sub(lambda found: _escape(found.group(), pattern, in_class=True), text)
    # RE2 reads [: as the start of a named class such as [:alpha:], and re does not.
    return inner[0] + inner[1:].replace("[", r"\[")


def _escape(text: str, pattern: str, *, in_class: bool) -> str:
    """Return an escape sequence of ``re`` in the syntax of RE2."""
    kind = text[1]
    if kind in "dDwWsS":
        ranges = _find_ranges(text)
        return ranges if in_class else f"[{ranges}]"
    if kind in "xuU" or (kind == "0" or (kind.isdigit() and in_class) or len(text) == 4):
        base = 16 if kind in "xuU" else 8
        return f"\\x{{{int(text[2 if base == 16 else 1 :], base):x}}}"
    if kind == "N":
        return f"\\x{{{ord(unicodedata.lookup(text[3:-1])):x}}}"
    if kind.isdigit():
        _refuse(pattern, "backreferences")
    if kind == "b" and in_class:
        return r"\x08"
    if kind == "Z":
        return r"\z"
    return text if kind in "AbBafnrtv" else re.escape(kind)


@cache
def _find_ranges(escape: str) -> str:
    """Return the characters that ``re`` matches with an escape, as ranges of a class."""
    everything = (
        "".join(map(chr, range(_SURROGATES.start)))
        + "\ufffd" * len(_SURROGATES)
        + "".join(map(chr, range(_SURROGATES.stop, _LAST_CHARACTER + 1)))
    )
    spans = (found.span() for found in re.finditer(f"{escape}+", everything))
    return "".join(f"\\x{{{start:x}}}-\\x{{{end - 1:x}}}" for start, end in spans)


def _encode_text(text: str) -> bytes:
    """Return the text in UTF-8, which has no lone surrogates: they become U+FFFD."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


def _refuse(pattern: str, what: str) -> NoReturn:
    raise BadInputError(
        f"pattern {truncate(pattern, 60)!r} must not use {what} "
        "(patterns are matched in linear time)"
    )


@lru_cache(maxsize=256)
def compile_pattern(
    pattern: str, *, ignore_case: bool = False, multiline: bool = False, dotall: bool = False
) -> LinearPattern:
    """Return the pattern ready to use, or raise BadInputError that says what it must not use."""
    chosen = {"i": ignore_case, "m": multiline, "s": dotall}
    return LinearPattern(pattern, "".join(flag for flag, is_set in chosen.items() if is_set))
