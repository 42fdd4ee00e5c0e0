"""Find personal data in short texts: addresses, phone and social security numbers, keys."""

from __future__ import annotations

import re
from collections.abc import Iterable

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

_SEPARATORS = b" ().-+"
_HIGH = bytes(range(128, 256))
_DIGITS = bytes(ord("0") if chr(code).isdecimal() else code for code in range(128)) + _HIGH
_WORDS = (
    bytes(ord("w") if chr(code).isalnum() or chr(code) in "_-" else code for code in range(128))
    + _HIGH
)
_DIGIT_RUN = b"0" * 9
_LONG_WORD = b"w" * 18


def suspicious(reasons: Iterable[str]) -> bool:
    """Return whether any reason may contain personal data; never misses any."""
    return suspicious_bytes("\n".join(reasons).encode("utf-8", "replace"))


def suspicious_bytes(joined: bytes) -> bool:
    """Return the same of texts with something between them that belongs to none."""
    if b"@" in joined or b"-----BEGIN" in joined:
        return True
    if _DIGIT_RUN in joined.translate(_DIGITS, _SEPARATORS):
        return True
    return _LONG_WORD in joined.translate(_WORDS)


def personal_data(reason: str) -> tuple[str, ...]:
    """Return the kinds of personal data in a reason."""
    # A date and an hour have as many digits as a phone number.
    read = _MOMENT.sub(" ", reason)
    # A social security number has as many digits as a short phone number.
    numberless = _SSN.sub(" ", read)
    ssn = () if numberless == read else ("ssn",)
    return (*(kind for kind, pattern in _KINDS if pattern.search(numberless)), *ssn)
