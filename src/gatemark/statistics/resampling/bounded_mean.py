"""Bounds for the mean of values that are known to stay inside a range.

Gaffke's bound, rediscovered by Learned-Miller and Thomas (arXiv 1905.06208): add one imagined item
at the worst end of the range, weight all items by random Dirichlet weights, and take the quantile.
On binary values it is the Clopper-Pearson bound. A t bound trusts the observed spread; this one
also allows for a rare bad item that n items were too few to show.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from gatemark.core.errors import InvalidValueError

Floats = NDArray[np.float64]

NEAR_THE_MEAN = 0.01
"""Within this many standard errors the formula is numerically unstable, and its limit is used."""
_SOLVER_STEPS = 200


def share_below_zero(weights: Floats) -> float:
    """Return P(sum of weight * Exp(1) <= 0)."""
    low, high = float(weights.min()), float(weights.max())
    if low >= 0:
        return 0.0 if high > 0 else 1.0
    if high <= 0:
        return 1.0
    tilt = _find_saddlepoint(weights, 1 / low, 1 / high)
    shrunk = 1 - tilt * weights
    terms = weights / shrunk
    curvature = float((terms**2).sum())
    u = tilt * math.sqrt(curvature)
    if abs(u) < NEAR_THE_MEAN:
        correction = float((terms**3).sum()) / (3 * curvature * math.sqrt(curvature))
        return float(scipy.special.ndtr(u)) + _compute_density(u) * correction
    w = math.copysign(math.sqrt(2 * float(np.log(shrunk).sum())), tilt)
    return float(scipy.special.ndtr(w)) + _compute_density(w) * (1 / w - 1 / u)


def _compute_density(z: float) -> float:
    return math.exp(-z * z / 2) / math.sqrt(2 * math.pi)


def _find_saddlepoint(weights: Floats, low: float, high: float) -> float:
    """Return where the tilted mean is zero; it increases from ``low`` to ``high``.

    Uses Newton steps, and bisection if one would leave the interval.
    """
    tilt = 0.0
    for _ in range(_SOLVER_STEPS):
        terms = weights / (1 - tilt * weights)
        mean = float(terms.sum())
        if mean > 0:
            high = tilt
        else:
            low = tilt
        step = mean / float((terms * terms).sum())
        following = tilt - step
        if not low < following < high:
            following = (low + high) / 2
        if abs(following - tilt) <= 1e-13 * abs(tilt) or following == tilt:
            return following
        tilt = following
    return tilt


CHUNK_CELLS = 2**17
DEFAULT_DRAWS = 9_999
EDGE_TOLERANCE = 1e-9
MANY_VALUES = 2**15
"""With at least this many values the quantile is computed instead of drawn: faster, and exact."""
_STEPS = 200
_TOLERANCE = 1e-9
"""As a share of a standard error."""


def bounded_mean_bounds(
    values: ArrayLike,
    rng: np.random.Generator,
    *,
    low: float,
    high: float,
    one_sided_alpha: float = 0.05,
    sizes: ArrayLike | None = None,
    draws: int = DEFAULT_DRAWS,
) -> tuple[float, float]:
    """Return the lower and upper bound of the mean, each one-sided at alpha.

    With ``sizes``, ``values`` are means of clusters of those sizes and the bounds are for the mean
    over items; the imagined cluster then has the average size. For clusters of unequal size this is
    an approximation.
    """
    x = np.asarray(values, dtype=np.float64)
    weights = np.ones_like(x) if sizes is None else np.asarray(sizes, dtype=np.float64)
    _refuse_bad(x, weights, low, high)
    if not 0 < one_sided_alpha < 0.5:
        raise InvalidValueError(f"alpha must be inside (0, 0.5), got {one_sided_alpha}")
    below = np.append(weights, weights.mean())
    bounds = _compute_bounds if x.size >= MANY_VALUES else _draw_bounds
    return bounds(x, below, (low, high), one_sided_alpha, rng=rng, draws=draws)


def _draw_bounds(
    x: Floats,
    below: Floats,
    ends: tuple[float, float],
    alpha: float,
    *,
    rng: np.random.Generator,
    draws: int,
) -> tuple[float, float]:
    above = below * np.append(x, 0.0)
    lower_means, upper_means = np.empty(draws), np.empty(draws)
    rows_at_once = max(1, CHUNK_CELLS // below.size)
    # Two blocks of memory for all draws: new pages cost more than the computation.
    exponentials, weighted = np.empty((2, rows_at_once, below.size))
    for start in range(0, draws, rows_at_once):
        rows = slice(start, min(start + rows_at_once, draws))
        drawn = rng.standard_exponential(out=exponentials[: rows.stop - start])
        product = weighted[: rows.stop - start]
        mass = np.multiply(drawn, below, out=product).sum(axis=1)
        imagined = drawn[:, -1] * below[-1]
        seen = np.multiply(drawn, above, out=product).sum(axis=1)
        lower_means[rows] = (seen + imagined * ends[0]) / mass
        upper_means[rows] = (seen + imagined * ends[1]) / mass
    return (
        float(np.quantile(lower_means, alpha, method="lower")),
        float(np.quantile(upper_means, 1 - alpha, method="higher")),
    )


def _compute_bounds(
    x: Floats, below: Floats, ends: tuple[float, float], alpha: float, **_: object
) -> tuple[float, float]:
    """The mean under random weights is at most t if the sum of weight * (value - t) is <= 0."""

    def quantile(end: float, share: float) -> float:
        values = np.append(x, end)
        low, high = float(values.min()), float(values.max())
        if low == high:
            return low
        mean = float(below @ values / below.sum())
        error = float(np.linalg.norm(below * (values - mean)) / below.sum())
        return _find_place(
            lambda t: share_below_zero(below * (values - t)), share, (low, high), (mean, error)
        )

    return quantile(ends[0], alpha), quantile(ends[1], 1 - alpha)


def _find_place(
    share_at: Callable[[float], float],
    share: float,
    inside: tuple[float, float],
    normal: tuple[float, float],
) -> float:
    """Return where an increasing share is reached; on the normal scale it is nearly linear."""
    low, high = inside
    mean, slope = normal
    wanted = float(scipy.special.ndtri(share))
    last, last_z = mean, 0.0
    t = min(max(mean + wanted * slope, low), high)
    for _ in range(_STEPS):
        found = share_at(t)
        low, high = (t, high) if found < share else (low, t)
        z = float(scipy.special.ndtri(found))
        if math.isfinite(z) and z != last_z and t != last:
            slope, last, last_z = (t - last) / (z - last_z), t, z
        following = t + (wanted - z) * slope
        if not low < following < high:
            following = (low + high) / 2
        if abs(following - t) <= _TOLERANCE * normal[1]:
            return following
        t = following
    return t


def _refuse_bad(x: Floats, weights: Floats, low: float, high: float) -> None:
    if x.ndim != 1 or x.size == 0 or weights.shape != x.shape or not bool(np.all(weights > 0)):
        raise InvalidValueError("a bounded mean needs one non-empty list of values, sizes > 0")
    if not low < high:
        raise InvalidValueError(f"the range of values is upside down: [{low}, {high}]")
    if not bool(np.all((x >= low - EDGE_TOLERANCE) & (x <= high + EDGE_TOLERANCE))):
        raise InvalidValueError(
            f"values must stay inside [{low}, {high}], got [{x.min()}, {x.max()}]"
        )
