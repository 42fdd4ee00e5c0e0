"""Calibration error from counts per bin, with exact mean and spread under perfect calibration.

A window stores per bin only items, summed confidence and correct items; these add up over windows.
Under perfect calibration, correct items per bin are binomial and the mean error has a closed form;
nothing is drawn at random.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class BinnedEce(NamedTuple):
    """ECE of each row of bins, and mean and standard deviation of the ECE under calibration."""

    ece: Floats
    twin_mean: Floats
    twin_sd: Floats

    @property
    def excess(self) -> Floats:
        """The error beyond the mean error under perfect calibration."""
        return self.ece - self.twin_mean


def binned_ece_each(items: Floats, confidence_sum: Floats, correct: Floats) -> BinnedEce:
    """Return the calibration error over the last axis; NaN without items."""
    total = items.sum(axis=-1)
    deviation = binomial_mean_deviation(items, confidence_sum)
    with np.errstate(divide="ignore", invalid="ignore"):
        rate = np.where(items > 0, confidence_sum / np.maximum(items, 1), 0.0)
        ece = np.abs(correct - confidence_sum).sum(axis=-1) / total
        variance = np.maximum(items * rate * (1 - rate) - deviation**2, 0.0)
        twin_mean = deviation.sum(axis=-1) / total
        twin_sd = np.sqrt(variance.sum(axis=-1)) / total
    return BinnedEce(ece, twin_mean, twin_sd)


def binomial_mean_deviation(items: Floats, expected: Floats) -> Floats:
    """Return E|X - np| for X binomial over ``items`` with mean ``expected`` (De Moivre).

    2 (m + 1) C(n, m + 1) p^(m + 1) (1 - p)^(n - m) with m the whole part of np.
    """
    n = np.asarray(items, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        p = np.clip(np.where(n > 0, expected / np.maximum(n, 1), 0.0), 0.0, 1.0)
        # Just below n, so that the formula has a next success.
        m = np.minimum(np.floor(n * p), n - 1)
        logarithm = (
            scipy.special.gammaln(n + 1)
            - scipy.special.gammaln(m + 1)
            - scipy.special.gammaln(n - m)
            + scipy.special.xlogy(m + 1, p)
            + scipy.special.xlog1py(n - m, -p)
            + np.log(2.0)
        )
    return np.where((n > 0) & (p > 0) & (p < 1), np.exp(logarithm), 0.0)
