"""Estimates (a number or a reason) and intervals of a proportion: Wilson and Clopper-Pearson."""

from __future__ import annotations

import math

import msgspec
from scipy.special import betaincinv, ndtri

from gatemark.core.errors import InvalidValueError
from gatemark.core.measurement import Interval

ZERO_WIDTH = "zero_width_interval"


class Estimate(msgspec.Struct, frozen=True):
    """A finite number, or the reason why it is undefined; never both."""

    value: float | None
    reason: str | None = None

    def __post_init__(self) -> None:
        if (self.value is None) == (self.reason is None):
            raise InvalidValueError("an estimate needs a value or a reason, and not both")
        if self.value is not None and not math.isfinite(self.value):
            raise InvalidValueError(f"an estimate must be finite, got {self.value}")


class IntervalEstimate(msgspec.Struct, frozen=True):
    """An interval, or the reason why there is none; never both."""

    interval: Interval | None
    reason: str | None = None

    def __post_init__(self) -> None:
        if (self.interval is None) == (self.reason is None):
            raise InvalidValueError("an interval estimate needs an interval or a reason")


class Bootstrap(IntervalEstimate, frozen=True, kw_only=True):
    """A bootstrap interval with the number of draws and how many of them had no value."""

    draw_count: int
    undefined_count: int

    @property
    def caveats(self) -> tuple[str, ...]:
        """What a reader of the interval must know about its draws."""
        if self.reason is not None:
            return (f"no bootstrap interval: {self.reason}",)
        if self.undefined_count:
            return (f"{self.undefined_count} of {self.draw_count} bootstrap draws were undefined",)
        return zero_width_caveat(self.interval)


def zero_width_caveat(interval: Interval | None) -> tuple[str, ...]:
    """A method that saw no variation says nothing about how much it may have missed."""
    return (ZERO_WIDTH,) if interval and interval.low == interval.high else ()


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
