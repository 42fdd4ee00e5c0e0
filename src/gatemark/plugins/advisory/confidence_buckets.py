"""Confidence buckets: their names, where they begin, and the bucket of a score."""

from __future__ import annotations

import math
from typing import Final, get_args

from gatemark.core.errors import InvalidValueError
from gatemark.plugins.advisory.record import Bucket

BUCKETS: Final[tuple[Bucket, ...]] = get_args(Bucket)
DEFAULT_BUCKET_RULE: Final = "v1_default"
Edges = tuple[float, float, float, float]
BUCKET_RULES: Final[dict[str, Edges]] = {DEFAULT_BUCKET_RULE: (0.40, 0.60, 0.80, 0.95)}
"""Where the buckets low, medium, high and very_high begin, by the name of the rule."""


def choose_bucket(score: float | None, edges: Edges = BUCKET_RULES[DEFAULT_BUCKET_RULE]) -> Bucket:
    """Return the bucket of a score; each begins at its edge, and no score means unknown."""
    if score is None:
        return "unknown"
    if math.isnan(score) or not 0 <= score <= 1:
        raise InvalidValueError(f"a confidence score must be in [0, 1], got {score}")
    return BUCKETS[sum(score >= edge for edge in edges)]
