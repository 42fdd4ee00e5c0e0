"""How much a reader is willing to swallow."""

from __future__ import annotations

import msgspec

from gatemark.core.errors import InvalidValueError


class Limits(msgspec.Struct, frozen=True):
    """Bounds on one input; crossing one is an error with a place, never a truncation."""

    line_bytes: int = 4 * 1024 * 1024
    total_bytes: int = 16 * 1024**3
    depth: int = 64

    def __post_init__(self) -> None:
        if min(self.line_bytes, self.total_bytes, self.depth) < 1:
            raise InvalidValueError("limits must be at least 1")
