"""The shift between two samples by ranks: Hodges-Lehmann estimate and Mann-Whitney interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np
import scipy

from gatemark.core.errors import InvalidValueError

MIN_VALUES: Final = 10
"""With fewer values in an arm, the normal approximation of the interval is unreliable."""
MAX_VALUES: Final = 2_000


class RankShift(msgspec.Struct, frozen=True):
    """The median of all differences between two samples, and the interval of the rank test."""

    estimate: float
    low: float
    high: float
    level: float


def rank_shift(sample: Sequence[float], reference: Sequence[float], level: float) -> RankShift:
    """Return the shift of ``sample`` relative to ``reference``.

    The interval has every shift that a two-sided Mann-Whitney test (large samples, no continuity
    correction, ties counted as halves) would not reject.
    """
    n, m = len(sample), len(reference)
    if min(n, m) < MIN_VALUES or max(n, m) > MAX_VALUES:
        raise InvalidValueError(f"a rank shift needs {MIN_VALUES} to {MAX_VALUES} values per arm")
    if not 0 < level < 1:
        raise InvalidValueError(f"interval level must be inside (0, 1), got {level}")
    gaps = np.subtract.outer(np.asarray(sample, float), np.asarray(reference, float)).ravel()
    spread = math.sqrt(n * m * (n + m + 1) / 12)
    outside = n * m / 2 - float(scipy.special.ndtri((1 + level) / 2)) * spread
    rank = max(0, math.ceil(outside) - 1)
    middle = [(gaps.size - 1) // 2, gaps.size // 2]
    places = sorted({rank, gaps.size - 1 - rank, *middle})
    ordered = np.partition(gaps, places)
    return RankShift(
        estimate=float(ordered[middle].mean()),
        low=float(ordered[rank]),
        high=float(ordered[gaps.size - 1 - rank]),
        level=level,
    )
