"""Checks over whole batches: faster than record by record, and never wrong in their yes."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import Final

from msgspec import UNSET

from gatemark.evidence.hygiene import lines_match
from gatemark.exams.advisory.contradictions import is_a_day
from gatemark.exams.advisory.decision import (
    BUCKET_RULES,
    BUCKETS,
    DEFAULT_BUCKET_RULE,
    ID_PATTERN,
    PLAIN_WRITE,
    TIME_PATTERN,
    StatedConfidence,
)

_LAST_DAYS: Final = re.compile(r"-(?:29|3[01])[Tt]")
_HEX: Final = b"0123456789abcdefABCDEF"
_ULID: Final = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_DASHES: Final = (8, 13, 18, 23)
"""The places of dashes in a UUID."""


def is_bucket_right(confidence: StatedConfidence) -> bool:
    """Whether a bucket is that of its score by the usual rule; other rules are the policy's."""
    score, bucket = confidence.score, confidence.bucket
    if score is None or score is UNSET:
        return bucket == "unknown"
    if confidence.bucket_rule != DEFAULT_BUCKET_RULE:
        return bucket != "unknown"
    return bucket == BUCKETS[bisect_right(BUCKET_RULES[DEFAULT_BUCKET_RULE], score)]


def are_surely_local(effects: set[str]) -> bool:
    """Whether every side effect is a write of a local report; may say no wrongly, never yes."""
    lines = "\n".join(effects) + "\n"
    return (
        lines.count("\n") == len(effects)
        and not any(odd in lines for odd in ("..", "//", ":/"))
        and lines_match(PLAIN_WRITE, lines)
    ) or not effects


def are_ids_whole(ids: list[str]) -> bool:
    """Whether every id is a ULID or a UUID; their types already limit the lengths."""
    joined = "".join(ids)
    signs = joined.encode("utf-8", "replace")
    if len(joined) == 26 * len(ids):
        return not signs.translate(None, _ULID) and not joined[::26].strip("01234567")
    if len(joined) == 36 * len(ids):
        dashes = b"-" * len(ids)
        return signs.translate(None, _HEX) == 4 * dashes and all(
            signs[place::36] == dashes for place in _DASHES
        )
    return lines_match(ID_PATTERN, "\n".join(ids) + "\n")


def are_moments_real(moments: list[str]) -> bool:
    """Whether every time is valid, in UTC, and on an existing day."""
    lines = "\n".join(moments) + "\n"
    if not lines_match(TIME_PATTERN, lines):
        return False
    # Only the last days of a month may not exist.
    return _LAST_DAYS.search(lines) is None or all(map(is_a_day, moments))


def are_hashes_whole(hashes: list[str]) -> bool:
    """Whether every hash has its prefix and 64 digits; the type already limits its length."""
    if not hashes:
        return True
    size = len(hashes)
    lines = "\n" + "\n".join(hashes)
    rest = lines.encode("utf-8", "replace").translate(None, _HEX)
    return len(lines) == 72 * size and lines.count("\nsha256:") == size and rest == b"\nsh:" * size
