"""Durations as people write them: ``15m``, ``1d``, ``2w``."""

from __future__ import annotations

import re
from typing import Final

from gatemark.core.errors import InvalidValueError

SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_DURATION: Final = re.compile(r"([1-9]\d{0,8})([smhdw])\Z")


def seconds_of(text: str) -> int:
    """Return a duration in seconds."""
    found = _DURATION.match(text)
    if not found:
        raise InvalidValueError(f"{text!r} is not a duration (such as 15m, 1d or 2w)")
    return int(found[1]) * SECONDS[found[2]]


def words_of(seconds: int) -> str:
    """Return seconds in the largest unit that fits."""
    for unit, size in sorted(SECONDS.items(), key=lambda item: -item[1]):
        if seconds and seconds % size == 0:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"
