"""Rules for texts that people write."""

from __future__ import annotations

from typing import Final

from gatemark.core.errors import InvalidValueError

MAX_REASON: Final = 2_000


def check_words(text: str, what: str) -> None:
    """Refuse a text that is too long or contains control characters."""
    if len(text) > MAX_REASON:
        raise InvalidValueError(f"{what} has at most {MAX_REASON} characters, got {len(text)}")
    if any(sign < " " and sign not in "\n\t" for sign in text):
        raise InvalidValueError(f"{what} must not contain control characters")
