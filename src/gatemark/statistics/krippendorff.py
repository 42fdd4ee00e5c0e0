"""Krippendorff's alpha for nominal labels, any number of raters, missing ratings allowed."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gatemark.core.errors import InvalidValueError
from gatemark.statistics.estimate import Estimate

Counts = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

NO_PAIRS = "no item has two ratings to compare"
ONE_LABEL = "expected disagreement is 0: every comparable rating is one and the same label"


def nominal_alpha(units: npt.ArrayLike, weights: npt.ArrayLike | None = None) -> Estimate:
    """Alpha from how often each category (column) was given to each unit (row).

    ``weights`` says how many units each row stands for, one when not given. A unit with fewer
    than two ratings has no pair and is left out.
    """
    counts = np.asarray(units)
    if counts.ndim != 2:
        raise InvalidValueError(f"alpha needs a units by categories table, got {counts.ndim} axes")
    repeats = np.ones(counts.shape[0], dtype=np.int64) if weights is None else np.asarray(weights)
    if repeats.shape != counts.shape[:1]:
        raise InvalidValueError(f"alpha needs {counts.shape[0]} weights, got {repeats.shape}")
    for name, array in (("ratings", counts), ("weights", repeats)):
        if array.size and (not np.issubdtype(array.dtype, np.integer) or array.min() < 0):
            raise InvalidValueError(f"alpha needs whole, non-negative counts of {name}")
    if not repeats[counts.sum(axis=1) >= 2].any():
        return Estimate(None, NO_PAIRS)
    value = float(nominal_alpha_each(repeats[np.newaxis], counts)[0])
    return Estimate(None, ONE_LABEL) if np.isnan(value) else Estimate(value)


def nominal_alpha_each(weights: Counts, units: Counts) -> Floats:
    """Alpha for each row of ``weights`` over the same units; NaN where undefined.

    A unit with m ratings brings ``sum of c * (m - c)`` disagreeing ordered pairs, each weighing
    ``1 / (m - 1)``. Pairs are summed per m in whole numbers before that division, so that the
    result does not depend on the order of the units.
    """
    ratings = units.sum(axis=1)
    paired = ratings >= 2
    counts, sizes = units[paired].astype(np.float64), ratings[paired]
    repeats = weights[:, paired].astype(np.float64)
    disagreeing = (counts * (sizes[:, np.newaxis] - counts)).sum(axis=1)
    distinct_sizes, group = np.unique(sizes, return_inverse=True)
    pairs_by_size = np.zeros((sizes.size, distinct_sizes.size))
    pairs_by_size[np.arange(sizes.size), group] = disagreeing
    observed = ((repeats @ pairs_by_size) / (distinct_sizes - 1)).sum(axis=1)
    totals = repeats @ counts
    n = totals.sum(axis=1)
    expected = (totals * (n[:, np.newaxis] - totals)).sum(axis=1)
    share = np.full(n.shape, np.nan)
    np.divide((n - 1) * observed, expected, out=share, where=expected != 0)
    return 1 - share
