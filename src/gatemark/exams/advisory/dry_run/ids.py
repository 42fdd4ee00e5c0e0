"""Decision ids: ULIDs, which say when they were made and nothing about what they name."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Final

_ALPHABET: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_RANDOM_BYTES: Final = 10
ULID_CHARS: Final = 26

RandomBytes = Callable[[int], bytes]
"""Gives that many bytes; ``secrets.token_bytes`` where nobody replays."""


def new_ulid(at: datetime, random_bytes: RandomBytes) -> str:
    """48 bits of time in milliseconds and 80 of chance, in Crockford's base 32."""
    moment_ms = int(at.timestamp() * 1000)
    number = moment_ms << 80 | int.from_bytes(random_bytes(_RANDOM_BYTES), "big")
    digits = [_ALPHABET[number >> 5 * place & 31] for place in range(ULID_CHARS)]
    return "".join(reversed(digits))
