"""Intervals for a proportion: Wilson's score interval and the exact Clopper-Pearson interval."""

from __future__ import annotations

import math

from scipy.special import betaincinv, ndtri

from gatemark.core.errors import InvalidValueError


def two_sided_z(level: float) -> float:
    """The normal quantile that leaves ``(1 - level) / 2`` in each tail."""
    _check_level(level)
    return float(ndtri((1 + level) / 2))


def wilson(k: int, n: int, level: float = 0.95) -> tuple[float, float]:
    """Wilson's score interval for ``k`` of ``n``: close to nominal coverage, inside [0, 1]."""
    _check_counts(k, n)
    z = two_sided_z(level)
    share = k / n
    shrink = 1 + z * z / n
    centre = (share + z * z / (2 * n)) / shrink
    half_width = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n)) / shrink
    # At the two ends the formula gives 0 and 1 up to rounding; the exact bounds are known.
    low = 0.0 if k == 0 else max(0.0, centre - half_width)
    high = 1.0 if k == n else min(1.0, centre + half_width)
    return low, high


def clopper_pearson(k: int, n: int, level: float = 0.95) -> tuple[float, float]:
    """The exact interval for ``k`` of ``n``: never covers less often than ``level``."""
    _check_counts(k, n)
    _check_level(level)
    tail = (1 - level) / 2
    low = 0.0 if k == 0 else float(betaincinv(k, n - k + 1, tail))
    high = 1.0 if k == n else float(betaincinv(k + 1, n - k, 1 - tail))
    return low, high


def _check_counts(k: int, n: int) -> None:
    if n < 1:
        raise InvalidValueError(f"a proportion needs n >= 1, got n={n}")
    if not 0 <= k <= n:
        raise InvalidValueError(f"a proportion needs 0 <= k <= n, got k={k}, n={n}")


def _check_level(level: float) -> None:
    if not 0 < level < 1:
        raise InvalidValueError(f"interval level must be inside (0, 1), got {level}")
