"""Standard errors of a mean delta: independent items, or items that come in clusters."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtr, stdtrit

from gatemark.core.errors import InvalidValueError
from gatemark.statistics.resampling.bootstrap import cluster_totals


class MeanEstimate(msgspec.Struct, frozen=True):
    """A mean with the errors it may carry.

    ``iid_error`` is sd / sqrt(n). ``cr0_error`` is the plain cluster-robust (sandwich) error.
    ``error`` is what bounds use: CR0 times sqrt(G / (G - 1)) for G clusters, which for clusters of
    one item each is ``iid_error`` exactly, so clustering by item changes nothing. Errors are null
    where one unit leaves nothing to estimate them from.
    """

    mean: float
    n: int
    clusters: int
    iid_error: float | None
    cr0_error: float | None
    error: float | None

    def bounds(self, one_sided_alpha: float) -> tuple[float, float] | None:
        """Each of the two is a one-sided t bound with G - 1 degrees of freedom."""
        if self.error is None:
            return None
        if not 0 < one_sided_alpha < 1:
            raise InvalidValueError(f"alpha must be inside (0, 1), got {one_sided_alpha}")
        half = -float(stdtrit(self.clusters - 1, one_sided_alpha)) * self.error
        return self.mean - half, self.mean + half

    def p_value(self) -> float | None:
        """Two-sided t test of a zero mean; null where there is no spread to judge it by."""
        if not self.error:
            return None
        return 2 * float(stdtr(self.clusters - 1, -abs(self.mean) / self.error))


def mean_estimate(
    values: ArrayLike, clusters: Sequence[object] | NDArray[np.generic] | None = None
) -> MeanEstimate:
    """The mean of ``values`` and its errors; without ``clusters`` every item stands alone."""
    x = np.asarray(values, dtype=np.float64)
    if x.ndim != 1 or x.size == 0 or not bool(np.isfinite(x).all()):
        raise InvalidValueError("a mean needs one non-empty list of finite numbers")
    labels = np.arange(x.size) if clusters is None else clusters
    # A mean of equal values can differ from them in the last bit; it must not look like spread.
    mean = float(x[0] if x.min() == x.max() else math.fsum(x.tolist()) / x.size)
    iid = (
        math.sqrt(math.fsum(((x - mean) ** 2).tolist()) / (x.size - 1) / x.size)
        if x.size > 1
        else None
    )
    residuals, _ = cluster_totals(x - mean, labels)
    count = residuals.size
    cr0 = math.sqrt(math.fsum((residuals**2).tolist())) / x.size if count > 1 else None
    error = None if cr0 is None else cr0 * math.sqrt(count / (count - 1))
    return MeanEstimate(mean, x.size, count, iid, cr0, error)
