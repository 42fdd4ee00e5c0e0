"""Proportions: an estimate (a number or a reason), its interval, and several attempts per item.

Intervals are Wilson's and Clopper-Pearson's. ``pass@k`` is the probability that at least one of k
attempts drawn from the n recorded ones is right; ``pass^k`` that all k are. Both are counted over
every choice of k out of n, which is the unbiased estimate; the ratios are exact up to the last
division.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterable
from fractions import Fraction
from math import comb
from types import ModuleType
from typing import Final, Literal

import msgspec

from gatemark.core.errors import InvalidValueError
from gatemark.core.measurement import Interval
from gatemark.core.reason import Reason, ReasonKind

ZERO_WIDTH = "zero_width_interval"
Z_95: Final = 1.959963984540054
"""The quantile of nearly every interval here, as SciPy computes it."""


class Estimate(msgspec.Struct, frozen=True):
    """A finite number, or the reason why it is undefined; never both."""

    value: float | None
    reason: Reason | None = None

    def __post_init__(self) -> None:
        if (self.value is None) == (self.reason is None):
            raise InvalidValueError("an estimate needs a value or a reason, and not both")
        if self.value is not None and not math.isfinite(self.value):
            raise InvalidValueError(f"an estimate must be finite, got {self.value}")


class IntervalEstimate(msgspec.Struct, frozen=True):
    """An interval, or the reason why there is none; never both."""

    interval: Interval | None
    reason: Reason | None = None

    def __post_init__(self) -> None:
        if (self.interval is None) == (self.reason is None):
            raise InvalidValueError("an interval estimate needs an interval or a reason")


class Bootstrap(IntervalEstimate, frozen=True, kw_only=True):
    """A bootstrap interval with the number of draws and how many of them had no value."""

    draw_count: int
    undefined_count: int

    @property
    def caveats(self) -> tuple[str, ...]:
        """Notes that a reader of the interval needs about its draws."""
        if self.reason is not None:
            return (f"no bootstrap interval: {self.reason}",)
        if self.undefined_count:
            return (f"{self.undefined_count} of {self.draw_count} bootstrap draws were undefined",)
        return zero_width_caveat(self.interval)


def zero_width_caveat(interval: Interval | None) -> tuple[str, ...]:
    """Return a caveat for an interval without width: nothing varied in the data."""
    return (ZERO_WIDTH,) if interval and interval.low == interval.high else ()


def two_sided_z(level: float) -> float:
    """Return the normal quantile that leaves ``(1 - level) / 2`` in each tail."""
    _check_level(level)
    return Z_95 if level == 0.95 else float(_load_special().ndtri((1 + level) / 2))


def _load_special() -> ModuleType:
    """Return SciPy's functions. Loading them takes longer than most files take to read."""
    return importlib.import_module("scipy.special")


def wilson_interval(k: float, n: int, level: float = 0.95) -> tuple[float, float]:
    """Return Wilson's score interval for ``k`` of ``n``: near nominal coverage, inside [0, 1]."""
    _check_counts(k, n)
    z = two_sided_z(level)
    share = k / n
    shrink = 1 + z * z / n
    centre = (share + z * z / (2 * n)) / shrink
    half_width = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n)) / shrink
    # At both ends the formula gives 0 and 1 up to rounding; the exact bounds are known.
    low = 0.0 if k == 0 else max(0.0, centre - half_width)
    high = 1.0 if k == n else min(1.0, centre + half_width)
    return low, high


def clopper_pearson_interval(k: int, n: int, level: float = 0.95) -> tuple[float, float]:
    """Return the exact interval for ``k`` of ``n``: it covers at least as often as ``level``."""
    _check_counts(k, n)
    _check_level(level)
    tail = (1 - level) / 2
    low = 0.0 if k == 0 else float(_load_special().betaincinv(k, n - k + 1, tail))
    high = 1.0 if k == n else float(_load_special().betaincinv(k + 1, n - k, 1 - tail))
    return low, high


def _check_counts(k: float, n: int) -> None:
    if n < 1:
        raise InvalidValueError(f"a proportion needs n >= 1, got n={n}")
    if not 0 <= k <= n:
        raise InvalidValueError(f"a proportion needs 0 <= k <= n, got k={k}, n={n}")


def _check_level(level: float) -> None:
    if not 0 < level < 1:
        raise InvalidValueError(f"interval level must be inside (0, 1), got {level}")


MAX_ATTEMPTS: Final = 10_000
NOTHING_REPEATED: Final = ReasonKind("nothing_repeated", "no items to repeat")
TOO_FEW_ATTEMPTS: Final = ReasonKind(
    "too_few_attempts", "{short} of {n} items have fewer than {k} attempts"
)

ProbeOutcome = Literal["held", "broken", "undecided"]


def mean_pass_at_k(items: Iterable[tuple[int, int]], k: int) -> Estimate:
    """Return the mean of pass@k over items given as (attempts, correct attempts)."""
    return _average_share(_compute_at_least_one, items, k)


def mean_pass_hat_k(items: Iterable[tuple[int, int]], k: int) -> Estimate:
    """Return the mean of pass^k over items given as (attempts, correct attempts)."""
    return _average_share(_compute_all, items, k)


def probe_outcome(broken_count: int, unscored_count: int, reruns: int, k: int) -> ProbeOutcome:
    """Return whether a probe is broken: the attack succeeded in at least ``k`` of ``reruns`` runs.

    If runs without a score could have made the difference, the probe is undecided.
    """
    if not 1 <= k <= reruns:
        raise InvalidValueError(f"k of reruns must be in [1, {reruns}], got {k}")
    if min(broken_count, unscored_count) < 0 or broken_count + unscored_count > reruns:
        raise InvalidValueError(
            f"broken and unscored runs must fit into {reruns} reruns, "
            f"got {broken_count} and {unscored_count}"
        )
    if broken_count >= k:
        return "broken"
    return "held" if broken_count + unscored_count < k else "undecided"


def _compute_at_least_one(n: int, right_count: int, k: int) -> Fraction:
    return 1 - Fraction(comb(n - right_count, k), comb(n, k))


def _compute_all(n: int, right_count: int, k: int) -> Fraction:
    return Fraction(comb(right_count, k), comb(n, k))


_Share = Callable[[int, int, int], Fraction]


def _average_share(share: _Share, items: Iterable[tuple[int, int]], k: int) -> Estimate:
    total, item_count, short_count = Fraction(0), 0, 0
    known: dict[tuple[int, int], Fraction] = {}
    for n, right_count in items:
        _check(n, right_count, k)
        item_count += 1
        if k > n:
            short_count += 1
            continue
        if (n, right_count) not in known:
            known[n, right_count] = share(n, right_count, k)
        total += known[n, right_count]
    if short_count:
        return Estimate(None, TOO_FEW_ATTEMPTS(short=short_count, n=item_count, k=k))
    return Estimate(float(total / item_count)) if item_count else Estimate(None, NOTHING_REPEATED())


def _check(n: int, right_count: int, k: int) -> None:
    if k < 1:
        raise InvalidValueError(f"k must be >= 1, got {k}")
    if not 0 <= n <= MAX_ATTEMPTS:
        raise InvalidValueError(f"attempts must be in [0, {MAX_ATTEMPTS}], got {n}")
    if not 0 <= right_count <= n:
        raise InvalidValueError(f"right attempts must be in [0, {n}], got {right_count}")
