"""How likely a weighted sum of independent unit exponentials is to stay below zero.

The saddlepoint formula of Lugannani and Rice: for sums of many terms it is nearer to the truth than
thousands of draws, and takes a few passes over the weights. Where a single term carries the sum,
its relative error is about 0.5 % at a probability of 0.05.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

Floats = NDArray[np.float64]

NEAR_THE_MEAN = 0.01
"""Standard errors within which the formula, a small difference of large terms, has its limit."""
_STEPS = 200


def share_below_zero(weights: Floats) -> float:
    """P(sum of weight * Exp(1) <= 0)."""
    low, high = float(weights.min()), float(weights.max())
    if low >= 0:
        return 0.0 if high > 0 else 1.0
    if high <= 0:
        return 1.0
    tilt = _saddlepoint(weights, 1 / low, 1 / high)
    shrunk = 1 - tilt * weights
    terms = weights / shrunk
    curvature = float((terms**2).sum())
    u = tilt * math.sqrt(curvature)
    if abs(u) < NEAR_THE_MEAN:
        correction = float((terms**3).sum()) / (3 * curvature * math.sqrt(curvature))
        return float(ndtr(u)) + _density(u) * correction
    w = math.copysign(math.sqrt(2 * float(np.log(shrunk).sum())), tilt)
    return float(ndtr(w)) + _density(w) * (1 / w - 1 / u)


def _density(z: float) -> float:
    return math.exp(-z * z / 2) / math.sqrt(2 * math.pi)


def _saddlepoint(weights: Floats, low: float, high: float) -> float:
    """Where the tilted mean is zero; it grows all the way from ``low`` to ``high``.

    Newton steps, and halving whenever one would leave the interval.
    """
    tilt = 0.0
    for _ in range(_STEPS):
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
