"""Test whether the latest values of a series have shifted, for many series at once.

The change may have come at any of several places near the end. Each place cuts a series in two; the
means of both parts are compared by Student's t, and the best cut counts after Bonferroni's
correction for the number of cuts. Nothing needs to be known about the series: neither mean nor
spread, nor how strongly neighbouring values are correlated.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from gatemark.statistics.control_chart import (
    RELATIVE_ZERO,
    correlation_each,
    largest_each,
    normal_scores,
    widening_each,
)

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

CUTS: Final = (2, 3, 4, 5, 7, 10, 14, 20, 28)
"""How many of the latest values may have shifted. One is not enough: it may be an outlier."""
LEAST_BEFORE: Final = 10
OUTLIER: Final = 4.0
"""Values are clipped at this many robust standard deviations from the median."""
_MAD_TO_SD: Final = 1.4826


class LastingShifts(NamedTuple):
    """The best cut of each series; NaN if a series cannot be cut.

    ``z`` is the signed normal score of ``p_value``. ``before`` is the mean before the cut,
    ``moved`` the difference of the mean of the ``windows`` after it. ``is_flat`` marks two parts
    without any spread that differ: no score exists for those.
    """

    z: Floats
    p_value: Floats
    before: Floats
    moved: Floats
    sd: Floats
    windows: Floats
    correlation: Floats
    is_flat: Flags


class _Cuts(NamedTuple):
    """Every cut of every series, [cuts, series]: means, and the residual sums of squares."""

    before: Floats
    moved: Floats
    squares: Floats
    is_possible: Flags


def find_shifts_each(
    values: Floats, present: Flags, floor: Floats | None = None, *, parameters: int = 0
) -> LastingShifts:
    """Return the best cut of each row of ``values``, the latest value last.

    Present values are contiguous at the end of their row. ``floor`` is a lower limit for the
    standard deviation; ``parameters`` is the number of parameters fitted to the values before.
    """
    count = np.count_nonzero(present, axis=1).astype(np.float64)
    clipped = _clip_outliers(values, present, count)
    first = np.take_along_axis(clipped, np.argmax(present, axis=1)[:, None], axis=1)
    absent = ~present
    # In place, since an array for each step takes longer.
    centred = np.subtract(clipped, first, out=clipped)
    np.copyto(centred, 0.0, where=absent)
    shift = centred.sum(axis=1) / np.maximum(count, 1)
    centred -= shift[:, None]
    np.copyto(centred, 0.0, where=absent)
    cuts = _list_cuts(centred, count)
    size = np.asarray(CUTS[: len(cuts.moved)], dtype=np.float64)[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        explained = np.where(cuts.is_possible, cuts.moved**2 * size * (count - size) / count, -1.0)
    at = np.argmax(explained, axis=0)
    best = _select_cuts(cuts, at)
    has_cut = best.is_possible
    after = size[at, 0]
    correlation = correlation_each(_compute_residual(centred, present, best, after), count)
    freedom = np.maximum(count * (1 - correlation) / (1 + correlation) - 2 - parameters, 1.0)
    largest = largest_each(values, present)
    with np.errstate(divide="ignore", invalid="ignore"):
        variance = best.squares / np.maximum(count - 2 - parameters, 1.0)
        # Correlation makes the observed spread too small.
        variance /= np.maximum(1 - (widening_each(correlation, count) - 1) / count, 0.2)
        variance = np.where(np.sqrt(variance) <= RELATIVE_ZERO * largest, 0.0, variance)
        if floor is not None:
            variance = np.fmax(variance, floor**2)
        noise = variance * (
            widening_each(correlation, after) / after
            + widening_each(correlation, count - after) / (count - after)
        )
        is_still = np.abs(best.moved) <= RELATIVE_ZERO * largest
        t = np.where(is_still, 0.0, best.moved / np.sqrt(noise))
    is_flat = has_cut & (variance == 0) & ~is_still
    known = has_cut & ~is_flat
    z, p_value = correct_for_cuts(np.where(known, t, np.nan), freedom, cuts.is_possible.sum(axis=0))
    return LastingShifts(
        z=z,
        p_value=p_value,
        before=np.where(has_cut, first[:, 0] + shift + best.before, np.nan),
        moved=np.where(has_cut, best.moved, np.nan),
        sd=np.where(has_cut, np.sqrt(variance), np.nan),
        windows=np.where(has_cut, after, np.nan),
        correlation=correlation,
        is_flat=is_flat,
    )


def remove_season(values: Floats, present: Flags, place: NDArray[np.int64], length: int) -> Floats:
    """Return the values minus the mean of their place in a season, plus the overall mean.

    ``place`` is the number of each value's window. A place with fewer than three values keeps them.
    """
    count = np.maximum(present.sum(axis=1, keepdims=True), 1)
    mean = np.where(present, values, 0.0).sum(axis=1, keepdims=True) / count
    found = values.copy()
    for at in range(length):
        here = present & (place % length == at)
        number = here.sum(axis=1, keepdims=True)
        own = np.where(here, values, 0.0).sum(axis=1, keepdims=True) / np.maximum(number, 1)
        found = np.where(here & (number >= 3), values - own + mean, found)
    return found


def _clip_outliers(values: Floats, present: Flags, count: Floats) -> Floats:
    median = _compute_median(values, present, count)
    apart = values - median
    spread = _MAD_TO_SD * _compute_median(np.abs(apart, out=apart), present, count)
    reach = np.where(spread > 0, OUTLIER * spread, np.inf)
    return np.asarray(np.clip(values, median - reach, median + reach))


def _compute_median(values: Floats, present: Flags, count: Floats) -> Floats:
    """Return the median of the present values as a column; zero where there are none."""
    ordered = np.where(present, values, np.inf)
    ordered.sort(axis=1)
    high = np.minimum(count // 2, max(values.shape[1] - 1, 0)).astype(np.int64)
    low = np.maximum((count - 1) // 2, 0).astype(np.int64)
    rows = np.arange(count.size)
    middle = ordered[rows, low] / 2 + ordered[rows, np.maximum(high, low)] / 2
    return np.where(count > 0, middle, 0.0)[:, None]


def _list_cuts(centred: Floats, count: Floats) -> _Cuts:
    """Return every cut of rows whose mean is zero."""
    # Cuts that are possible for no row are left out, but for the first, which stands for none.
    longest = count.max(initial=0.0) - LEAST_BEFORE
    after = np.asarray([cut for cut in CUTS if cut <= max(longest, CUTS[0])])[:, None]
    reach = min(int(after[-1, 0]), centred.shape[1])
    sums = np.cumsum(centred[:, ::-1][:, :reach], axis=1)
    is_possible = count - after >= LEAST_BEFORE
    total = sums.T[np.minimum(after[:, 0], reach) - 1]
    rest = np.where(is_possible, count - after, 1.0)
    before = -total / rest
    moved = np.where(is_possible, total / after - before, 0.0)
    left = (centred**2).sum(axis=1) - moved**2 * after * rest / np.maximum(count, 1)
    return _Cuts(before, moved, np.maximum(left, 0.0), is_possible)


def _select_cuts(cuts: _Cuts, at: NDArray[np.int64]) -> _Cuts:
    rows = np.arange(at.size)
    return _Cuts(
        before=cuts.before[at, rows],
        moved=cuts.moved[at, rows],
        squares=cuts.squares[at, rows],
        is_possible=cuts.is_possible[at, rows],
    )


def _compute_residual(centred: Floats, present: Flags, best: _Cuts, after: Floats) -> Floats:
    """Return the residual after removing the means of both parts."""
    width = centred.shape[1]
    is_after = np.arange(width) >= (width - after).astype(np.int64)[:, None]
    means = np.where(is_after, (best.before + best.moved)[:, None], best.before[:, None])
    return np.where(present, np.subtract(centred, means, out=means), 0.0)


def correct_for_cuts(t: Floats, freedom: Floats, cuts: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """Return the signed normal score and p-value of the best cut, corrected for their number."""
    plain, _ = normal_scores(t, freedom)
    with np.errstate(divide="ignore", invalid="ignore"):
        log_p = np.minimum(
            scipy.special.log_ndtr(-np.abs(plain)) + np.log(2 * np.maximum(cuts, 1)), 0.0
        )
        z = -np.sign(plain) * scipy.special.ndtri_exp(log_p - np.log(2))
    return np.where(np.isfinite(plain), np.where(log_p == 0, 0.0, z), np.nan), np.exp(log_p)
