"""The interval of a ratio of sums over windows, and the effect that it can show."""

from __future__ import annotations

import math
from typing import Final

import msgspec
import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from gatemark.core.errors import InvalidValueError
from gatemark.core.measurement import Interval
from gatemark.core.reason import Reason, ReasonKind
from gatemark.statistics.paired.comparison import MAX_DRAWN_CELLS
from gatemark.statistics.resampling.bootstrap import DEFAULT_RESAMPLES, bca_ratio
from gatemark.statistics.significance import detectable_effect

Floats = NDArray[np.float64]
LEVEL: Final = 0.95
WINDOWS_UNEQUAL: Final = ReasonKind(
    "windows_unequal", "paired windows need equally long, non-empty lists"
)
WINDOWS_NOT_FINITE: Final = ReasonKind("windows_not_finite", "paired windows need finite numbers")
WEIGHT_NOT_POSITIVE: Final = ReasonKind(
    "weight_not_positive", "every weight must be > 0, got {weight}"
)


class UndefinedOverheadError(InvalidValueError):
    """Windows that have no overhead, with the reason."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(str(reason))
        self.reason = reason


class Resampling(msgspec.Struct, frozen=True):
    """Seed, confidence level and number of resamples of an interval."""

    seed: int
    level: float = LEVEL
    resamples: int = DEFAULT_RESAMPLES

    def rng(self) -> np.random.Generator:
        """Return a fresh random generator, so that each number can be computed alone."""
        return np.random.default_rng(self.seed)


DEFAULT: Final = Resampling(seed=4)


def find_ratio_interval(
    above: Floats, below: Floats, resampling: Resampling, rng: np.random.Generator | None = None
) -> tuple[Interval | None, str | None]:
    """Return the interval of sum(above) / sum(below), and a caveat."""
    level, resamples = resampling.level, resampling.resamples
    if above.size == 1:
        return None, "one window shows no spread"
    if above.size * resamples > MAX_DRAWN_CELLS:
        estimate = math.fsum(above) / math.fsum(below)
        half = find_half_width(above, below, level)
        reason = f"{above.size} windows are too many to resample; t gives the interval"
        return Interval(estimate - half, estimate + half, level, "t"), reason
    rng = resampling.rng() if rng is None else rng
    found = bca_ratio(above, below, rng, level=level, resamples=resamples)
    return Interval(found.low, found.high, level, found.method), found.reason


def find_half_width(above: Floats, below: Floats, level: float) -> float:
    """Return half of the width of the t interval of sum(above) / sum(below)."""
    t = -float(scipy.special.stdtrit(above.size - 1, (1 - level) / 2))
    return t * _find_ratio_error(above, below)


def find_detectable_effect(above: Floats, below: Floats, level: float) -> float | None:
    """Return the smallest effect that this number of windows shows; None without spread."""
    error = _find_ratio_error(above, below)
    return detectable_effect(error, alpha=1 - level) if error else None


def _find_ratio_error(above: Floats, below: Floats) -> float:
    """Return the standard error of sum(above) / sum(below); 0 without spread."""
    if above.size == 1:
        return 0.0
    total = math.fsum(below)
    residuals = above - math.fsum(above) / total * below
    largest = float(np.abs(residuals).max())
    if largest <= 1e-12 * float(np.abs(above).max()):
        return 0.0
    return math.sqrt(math.fsum(residuals**2) * above.size / (above.size - 1)) / total


def check_columns(*columns: ArrayLike) -> tuple[Floats, ...]:
    """Check equally long lists of finite numbers; the first holds positive weights."""
    arrays = tuple(np.asarray(column, dtype=np.float64) for column in columns)
    size = arrays[0].size
    if size == 0 or any(array.shape != (size,) for array in arrays):
        raise UndefinedOverheadError(WINDOWS_UNEQUAL())
    if not all(bool(np.isfinite(array).all()) for array in arrays):
        raise UndefinedOverheadError(WINDOWS_NOT_FINITE())
    if not bool(np.all(arrays[0] > 0)):
        raise UndefinedOverheadError(WEIGHT_NOT_POSITIVE(weight=float(arrays[0].min())))
    return arrays
