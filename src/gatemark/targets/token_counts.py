"""Token counts in the usage that a reply reports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gatemark.targets.replies import MAX_INTEGER

INPUT_TOKENS: Final = ("prompt_tokens", "input_tokens")
OUTPUT_TOKENS: Final = ("completion_tokens", "output_tokens")
_CACHED_INPUT: Final = ("cache_creation_input_tokens", "cache_read_input_tokens")


def count_tokens(usage: Mapping[str, object] | None) -> int | None:
    """Return input plus output tokens; None if a usage does not have both.

    Without a total, tokens read from or written to a cache are added to the input.
    """
    counts = usage or {}
    total = _read_count(counts.get("total_tokens"))
    if total is not None:
        return total
    parts = [
        next((n for name in names if (n := _read_count(counts.get(name))) is not None), None)
        for names in (INPUT_TOKENS, OUTPUT_TOKENS)
    ]
    if None in parts:
        return None
    cached = (_read_count(counts.get(name)) for name in _CACHED_INPUT)
    return _read_count(sum(n or 0 for n in (*parts, *cached)))


def _read_count(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if 0 <= value <= MAX_INTEGER and value == int(value) else None
