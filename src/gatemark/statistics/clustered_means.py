"""Means of clustered items: standard errors, and bounds for a weighted drop.

Items that succeed or fail together are one unit; in a drop over several suites, each suite is a
stratum.

A score bound compares the observed drop with the spread it would have if the truth lay at the
bound. Let ``V`` be the squared standard error, ``A`` the most that one unit can move the mean, and
``q`` the observed ratio of the third to the second moment, kept within ``[0.7 * A, A]``. A truth
that is higher by ``e`` means more losses, and losses add variance: ``V + e * q``. So the bound is
the drop plus the ``e`` that solves ``e**2 = t**2 * V + log(1 / alpha) * e * q``, and at least
``log(1 / alpha) * A``, which is what n items that never differ leave open (the rule of three).

For losses alone this is the exact Poisson bound within one percent. Nothing is drawn at random, and
a variance of zero never makes a bound of zero.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from gatemark.core.errors import InvalidValueError

Floats = NDArray[np.float64]

LEAST_SKEW = 0.7
"""The least share of full skewness that a bound allows for. In exact enumerations of up to 300
right-or-wrong items the false-pass rate is then at most 5 %; without it, it reaches 8 %."""
POWER = 0.8
"""How surely a number of items decides that is said to be enough."""
RANGE_TOLERANCE = 1e-9
SMALLEST_P = 1e-12
FEWEST_UNITS = 10
"""With fewer units the spread is unreliable: removing a gain could lower the bound."""
_BISECTIONS = 60


class Stratum(msgspec.Struct, frozen=True):
    """The drops of one suite, baseline minus candidate, one per item.

    Items with the same name in ``units``, also of other strata, are not independent.
    ``largest_drop`` is the most that one item can lose or gain; if a drop exceeds it, 1 is used.
    """

    weight: float
    drops: Floats
    units: Sequence[str] | None = None
    largest_drop: float = 1.0

    @property
    def item_range(self) -> float:
        """How far one item can move, given the observed drops."""
        is_exceeded = bool(np.abs(self.drops).max() > self.largest_drop + RANGE_TOLERANCE)
        return 1.0 if is_exceeded else self.largest_drop


class PooledDrop(msgspec.Struct, frozen=True):
    """A weighted mean drop and what its bounds are computed from.

    ``variance`` is the squared standard error, ``third`` the third central moment of the mean,
    ``leverage`` the most that one unit can move it. ``units`` counts independent units, and
    ``groups`` the strata, where those that share units count as one.
    """

    drop: float
    variance: float
    third: float
    leverage: float
    n: int
    units: int
    groups: int

    def bounds(self, alpha: float) -> tuple[float, float]:
        """Return the lower and upper bound, each one-sided at alpha."""
        low = self.drop - self._compute_half_width(alpha, -self.third)
        high = self.drop + self._compute_half_width(alpha, self.third)
        return max(-1.0, low), min(1.0, high)

    def beyond_p_value(self, margin: float) -> float:
        """Return the smallest alpha at which the lower bound is above the margin; 1 from 0.5 on."""
        if self.drop - self._compute_half_width(0.5, -self.third) <= margin:
            return 1.0
        low, high = math.log(SMALLEST_P), math.log(0.5)
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            if self.drop - self._compute_half_width(math.exp(middle), -self.third) > margin:
                high = middle
            else:
                low = middle
        return math.exp(high)

    def growth_to_decide(self, margin: float, alpha: float) -> float | None:
        """Return how many times as many items of this kind decide with the usual power.

        None if the drop lies on the margin: then no number of items is sure to decide.
        """
        gap = margin - self.drop
        if abs(gap) < RANGE_TOLERANCE or not self._is_enough:
            return None
        third = self.third if gap > 0 else -self.third
        _, tail, skew = _compute_terms(self.variance, third, self.leverage, alpha, self._degrees)
        t = tail + float(scipy.special.ndtri(POWER))
        needed = (abs(gap) * -math.log(alpha) * skew + t * t * self.variance) / gap**2
        return max(float(needed), -math.log(alpha) * self.leverage / abs(gap))

    def _compute_half_width(self, alpha: float, third: float) -> float:
        if not self._is_enough:
            return 2.0
        return float(half_width(self.variance, third, self.leverage, alpha, self._degrees))

    @property
    def _is_enough(self) -> bool:
        return self.units >= FEWEST_UNITS and self._degrees >= 1

    @property
    def _degrees(self) -> int:
        return self.units - self.groups


def half_width(
    variance: ArrayLike, third: ArrayLike, leverage: ArrayLike, alpha: float, degrees: ArrayLike
) -> Floats:
    """Return the distance from the drop to its bound on the side where ``third`` is positive."""
    v = np.asarray(variance, dtype=np.float64)
    a = np.asarray(leverage, dtype=np.float64)
    bits, tail, skew = _compute_terms(v, third, a, alpha, degrees)
    middle = bits * skew / 2
    return np.maximum(middle + np.sqrt(tail**2 * v + middle**2), bits * a)


def _compute_terms(
    variance: ArrayLike, third: ArrayLike, leverage: ArrayLike, alpha: float, degrees: ArrayLike
) -> tuple[float, Floats, Floats]:
    if not 0 < alpha <= 0.5:
        raise InvalidValueError(f"alpha must be inside (0, 0.5], got {alpha}")
    v, a = np.asarray(variance, dtype=np.float64), np.asarray(leverage, dtype=np.float64)
    ratio = np.asarray(third, dtype=np.float64) / np.where(v > 0, v, 1.0)
    return (
        -math.log(alpha),
        -scipy.special.stdtrit(degrees, alpha),
        np.clip(ratio, LEAST_SKEW * a, a),
    )


def pooled_drop(strata: Sequence[Stratum]) -> PooledDrop:
    """Return the weighted mean over strata; weights are relative to their sum."""
    total = math.fsum(stratum.weight for stratum in strata)
    if not strata or total <= 0 or any(stratum.weight < 0 for stratum in strata):
        raise InvalidValueError("a pooled drop needs strata with weights of at least 0")
    parts = [_compute_contributions(stratum, stratum.weight / total) for stratum in strata]
    names = np.concatenate([_label_units(stratum, place) for place, stratum in enumerate(strata)])
    _, codes = np.unique(names, return_inverse=True)
    residuals = np.bincount(codes, weights=np.concatenate([part[1] for part in parts]))
    leverage = np.bincount(codes, weights=np.concatenate([part[2] for part in parts]))
    return PooledDrop(
        drop=math.fsum(part[0] for part in parts),
        variance=math.fsum((residuals**2).tolist()),
        third=math.fsum((residuals**3).tolist()),
        leverage=float(leverage.max()),
        n=names.size,
        units=residuals.size,
        groups=_count_groups(np.split(codes, np.cumsum([part[1].size for part in parts])[:-1])),
    )


def drop_of_counts(lost: int, gained: int, n: int) -> PooledDrop:
    """Return the drop of n binary items, equal to ``pooled_drop`` of the items themselves."""
    if min(lost, gained) < 0 or not 0 < n >= lost + gained:
        raise InvalidValueError(f"lost and gained must be within n, got {lost}, {gained} and {n}")
    mean, square = (lost - gained) / n, (lost + gained) / n
    correction = n / (n - 1) if n > 1 else 1.0
    # Equal values have no spread; rounding must not add any.
    is_constant = n in (lost, gained) or lost + gained == 0
    return PooledDrop(
        drop=mean,
        variance=0.0 if is_constant else (square - mean**2) * correction / n,
        third=(mean - 3 * mean * square + 2 * mean**3) * correction**1.5 / n**2,
        leverage=1 / n,
        n=n,
        units=n,
        groups=1,
    )


def _count_groups(codes: Sequence[NDArray[np.intp]]) -> int:
    """Return the number of sets of strata that share no unit with another set."""
    groups: list[set[int]] = []
    for found in codes:
        names = set(found.tolist())
        shared = [group for group in groups if not group.isdisjoint(names)]
        groups = [group for group in groups if group.isdisjoint(names)]
        groups.append(names.union(*shared))
    return len(groups)


def _compute_contributions(stratum: Stratum, weight: float) -> tuple[float, Floats, Floats]:
    x = np.asarray(stratum.drops, dtype=np.float64)
    if x.ndim != 1 or x.size == 0 or not bool(np.all(np.abs(x) <= 1 + RANGE_TOLERANCE)):
        raise InvalidValueError("drops must be one non-empty list of numbers inside [-1, 1]")
    if not 0 < stratum.largest_drop <= 1:
        raise InvalidValueError(f"largest_drop must be in (0, 1], got {stratum.largest_drop}")
    # The mean of equal values can differ in the last bit; that must not count as spread.
    mean = float(x[0] if x.min() == x.max() else math.fsum(x.tolist()) / x.size)
    groups = x.size if stratum.units is None else len(set(stratum.units))
    correction = math.sqrt(groups / (groups - 1)) if groups > 1 else 1.0
    share = weight / x.size
    return (
        weight * mean,
        share * correction * (x - mean),
        np.full(x.size, share * stratum.item_range),
    )


def _label_units(stratum: Stratum, place: int) -> NDArray[np.str_]:
    if stratum.units is None:
        return np.array([f"\x00{place}/{item}" for item in range(len(stratum.drops))])
    return np.asarray(stratum.units, dtype=np.str_)


class MeanEstimate(msgspec.Struct, frozen=True):
    """A mean with its standard error.

    ``error`` is the cluster-robust (sandwich) error CR0 times sqrt(G / (G - 1)) for G clusters.
    With one item in each cluster it is exactly sd / sqrt(n), so clustering by item changes
    nothing. It is None if there is only one cluster.
    """

    mean: float
    n: int
    clusters: int
    error: float | None

    def bounds(self, one_sided_alpha: float) -> tuple[float, float] | None:
        """Return two one-sided t bounds with G - 1 degrees of freedom, or None."""
        if self.error is None:
            return None
        if not 0 < one_sided_alpha < 1:
            raise InvalidValueError(f"alpha must be inside (0, 1), got {one_sided_alpha}")
        half = -float(scipy.special.stdtrit(self.clusters - 1, one_sided_alpha)) * self.error
        return self.mean - half, self.mean + half

    def p_value(self) -> float | None:
        """Return the two-sided t test of a zero mean; None without any spread."""
        if not self.error:
            return None
        return 2 * float(scipy.special.stdtr(self.clusters - 1, -abs(self.mean) / self.error))


def mean_estimate(
    values: ArrayLike, clusters: Sequence[object] | NDArray[np.generic] | None = None
) -> MeanEstimate:
    """Return the mean of ``values`` and its error; without ``clusters``, items are independent."""
    x = np.asarray(values, dtype=np.float64)
    if x.ndim != 1 or x.size == 0 or not bool(np.isfinite(x).all()):
        raise InvalidValueError("a mean needs one non-empty list of finite numbers")
    labels = np.arange(x.size) if clusters is None else clusters
    # The mean of equal values can differ in the last bit; that must not count as spread.
    mean = float(x[0] if x.min() == x.max() else math.fsum(x.tolist()) / x.size)
    residuals, _ = cluster_totals(x - mean, labels)
    count = residuals.size
    error = None
    if count > 1:
        cr0 = math.sqrt(math.fsum((residuals**2).tolist())) / x.size
        error = cr0 * math.sqrt(count / (count - 1))
    return MeanEstimate(mean, x.size, count, error)


def cluster_totals(
    values: ArrayLike, clusters: Sequence[object] | NDArray[np.generic]
) -> tuple[Floats, Floats]:
    """Return sum and size of each cluster, in sorted order."""
    x = require_finite_column(values, "values")
    labels, codes = np.unique(np.asarray(clusters), return_inverse=True)
    if codes.size != x.size:
        raise InvalidValueError(f"{x.size} values need as many clusters, got {codes.size}")
    sums = np.bincount(codes, weights=x, minlength=labels.size)
    sizes = np.bincount(codes, minlength=labels.size)
    return sums.astype(np.float64), sizes.astype(np.float64)


def require_finite_column(values: ArrayLike, name: str) -> Floats:
    """Return numbers as one non-empty column; refuse anything that is not finite."""
    x = np.asarray(values, dtype=np.float64)
    if x.ndim != 1 or x.size == 0 or not bool(np.isfinite(x).all()):
        raise InvalidValueError(f"{name} must be one non-empty list of finite numbers")
    return x
