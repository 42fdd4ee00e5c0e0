"""How strictly an input is read: its limits, and what to do with bad lines and duplicates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

from gatemark.core.errors import InvalidValueError

MAX_FILE_BYTES: Final = 16 * 1024**3


class Limits(msgspec.Struct, frozen=True):
    """Limits of one input. Exceeding one is an error, never a truncation."""

    line_bytes: int = 4 * 1024 * 1024
    total_bytes: int = MAX_FILE_BYTES
    depth: int = 64

    def __post_init__(self) -> None:
        if min(self.line_bytes, self.total_bytes, self.depth) < 1:
            raise InvalidValueError("limits must be at least 1")


OnBadLine = Literal["error", "exclude"]
OnDuplicate = Literal["error", "first", "last"]
OnUnpaired = Literal["error", "exclude"]


class ReadingChoices(msgspec.Struct, frozen=True):
    """How strictly to read: refuse bad lines and duplicates, or exclude and count them."""

    on_bad_line: OnBadLine = "error"
    on_duplicate: OnDuplicate = "error"
    on_unpaired: OnUnpaired = "error"
    check_duplicate_keys: bool = True
    max_errors: int = 20
    limits: Limits = Limits()

    def checks(self) -> dict[str, str]:
        """Return how strictly evidence was read, for its account."""
        return {
            "duplicate_keys": "checked" if self.check_duplicate_keys else "not checked",
            "on_bad_line": self.on_bad_line,
            "on_duplicate": self.on_duplicate,
            "on_unpaired": self.on_unpaired,
        }


def parse_reading_options(flags: Mapping[str, Any]) -> ReadingChoices:
    """Return the choices of a command's reading options."""
    return ReadingChoices(
        on_bad_line=flags["on_bad_line"],
        on_duplicate=flags["on_duplicate"],
        on_unpaired=flags.get("on_unpaired", "error"),
        check_duplicate_keys=flags["duplicate_key_check"],
        max_errors=flags["max_errors"],
        limits=Limits(line_bytes=flags["max_line_bytes"]),
    )
