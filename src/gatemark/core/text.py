"""Rules for texts that people write, and for texts that people are shown."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import Final

from gatemark.core.errors import InvalidValueError

MAX_REASON: Final = 2_000
_TRICKS: Final = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff"
)
"""Controls and escapes, marks that reorder a line, and halves of pairs that cannot be encoded."""
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\uff1d", "\uff0b", "\uff0d", "\uff20")
_HIDDEN: Final = re.compile(f"[{_TRICKS}]")
_HIDDEN_IN_A_LINE: Final = re.compile(f"[{_TRICKS}\n]")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ``; did you mean 'x'?`` for a name close to a known one, else nothing."""
    close = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def check_words(text: str, what: str) -> None:
    """Refuse a text that is too long or contains control characters."""
    if len(text) > MAX_REASON:
        raise InvalidValueError(f"{what} has at most {MAX_REASON} characters, got {len(text)}")
    if any(sign < " " and sign not in "\n\t" for sign in text):
        raise InvalidValueError(f"{what} must not contain control characters")


def visible(text: str) -> str:
    r"""Return the text with ``\x1b`` in place of an escape, and so on; it can drive no terminal."""
    return text if text.isprintable() else _HIDDEN.sub(_escape, text)


def visible_line(text: str) -> str:
    r"""Return the same on one line, with ``\n`` for a line break: no name can forge a line."""
    return text if text.isprintable() else _HIDDEN_IN_A_LINE.sub(_escape, text)


def visible_json(text: str) -> str:
    r"""Return JSON that says the same, with ``\u001b`` in place of an escape, and so on."""
    return text if text.isprintable() else _HIDDEN.sub(lambda one: f"\\u{ord(one[0]):04x}", text)


def inert_cell(text: str) -> str:
    """Return the cell of a table with a backslash before what a spreadsheet would run."""
    return "\\" + text if text.startswith(_FORMULA) else text


def _escape(found: re.Match[str]) -> str:
    sign = found[0]
    if sign == "\n":
        return "\\n"
    if "\udc80" <= sign <= "\udcff":
        # A byte of a file name that is not UTF-8.
        return f"\\x{ord(sign) - 0xDC00:02x}"
    return f"\\x{ord(sign):02x}" if sign < "\u0100" else f"\\u{ord(sign):04x}"


_CONTROL: Final = re.compile("[\x00-\x1f\x7f]")


def is_one_line(text: str) -> bool:
    """Return whether a text has no control characters."""
    return text.isprintable() or _CONTROL.search(text) is None
