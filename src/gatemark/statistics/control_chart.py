"""How far a new value lies from a baseline, in standard deviations, for many series at once.

The ``…_each`` forms take one row per series and return NaN for an undefined answer. No answer is
ever infinite.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

# Differences this small relative to the values are rounding, not spread.
RELATIVE_ZERO = 1e-12
_SMALLEST_P = 1e-250
HIGHEST_CORRELATION = 0.9


class BaselineMoments(NamedTuple):
    """Number, mean and standard deviation (ddof 1) of each baseline.

    The mean is NaN for an empty baseline, the deviation for fewer than two values; a deviation that
    is only rounding is exactly zero.
    """

    windows: Floats
    mean: Floats
    sd: Floats


def moments_each(values: Floats, present: Flags) -> BaselineMoments:
    """Return the moments of each row of ``values``, over the present cells."""
    count = np.count_nonzero(present, axis=1).astype(np.float64)
    first = np.take_along_axis(values, np.argmax(present, axis=1)[:, None], axis=1)
    absent = ~present
    # Subtracting the first value makes a constant row exactly constant. In place, since an array
    # for each step takes longer.
    moved = values - first
    np.copyto(moved, 0.0, where=absent)
    mean_move = moved.sum(axis=1) / np.maximum(count, 1)
    moved -= mean_move[:, None]
    np.copyto(moved, 0.0, where=absent)
    sd = np.sqrt(np.square(moved, out=moved).sum(axis=1) / np.maximum(count - 1, 1))
    mean = first[:, 0] + mean_move
    sd = np.where(sd <= RELATIVE_ZERO * largest_each(values, present), 0.0, sd)
    return BaselineMoments(
        count, np.where(count >= 1, mean, np.nan), np.where(count >= 2, sd, np.nan)
    )


def largest_each(values: Floats, present: Flags) -> Floats:
    """Return the largest size of a present value of each row, or zero."""
    sizes = np.where(present, values, 0.0)
    return np.asarray(np.abs(sizes, out=sizes).max(axis=1, initial=0.0))


class Deviations(NamedTuple):
    """Sigma of each series' new value, its normal score, and the two-sided p-value.

    ``is_degenerate`` marks a value that differs from a baseline without any spread: there sigma,
    score and p-value are NaN.
    """

    sigma: Floats
    z: Floats
    p_value: Floats
    sd: Floats
    is_degenerate: Flags


def deviations_each(
    current: Floats, baseline: BaselineMoments, floor: Floats | None = None
) -> Deviations:
    """Return sigma of each current value against its baseline, and its normal score.

    ``floor`` is a lower limit for the standard deviation. sigma / sqrt(1 + 1/n) follows Student's
    t with n - 1 degrees of freedom if nothing has changed; the score is the normal quantile of
    that tail.
    """
    sd = baseline.sd if floor is None else np.fmax(baseline.sd, floor)
    known = np.isfinite(baseline.sd) & np.isfinite(current)
    move = current - baseline.mean
    size = np.maximum(np.abs(current), np.abs(baseline.mean))
    still = np.abs(move) <= RELATIVE_ZERO * size
    flat = known & (sd == 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        sigma = np.where(flat, np.where(still, 0.0, np.nan), np.where(known, move / sd, np.nan))
        widening = np.sqrt(1 + 1 / baseline.windows)
    z, p_value = normal_scores(sigma / widening, baseline.windows - 1)
    return Deviations(sigma, z, p_value, np.where(known, sd, np.nan), flat & ~still)


def normal_scores(t: Floats, df: Floats) -> tuple[Floats, Floats]:
    """Return the normal quantile with the same tail as each t, and its two-sided p-value.

    Tails that floating point cannot represent use their leading term, so that a finite t has a
    finite score.
    """
    t, df = np.broadcast_arrays(np.asarray(t, dtype=np.float64), np.asarray(df, dtype=np.float64))
    with np.errstate(invalid="ignore", divide="ignore", over="ignore", under="ignore"):
        half = df / 2
        # Written so that a huge t cannot overflow in its square.
        share = (1 / np.maximum(np.abs(t), 1.0)) ** 2 * df
        ratio = share / (share + np.minimum(np.abs(t), 1.0) ** 2)
        p_value = scipy.special.betainc(half, 0.5, ratio)
        log_p = np.log(p_value)
        is_tiny = ~(p_value > _SMALLEST_P)
        if is_tiny.any():
            leading = half * np.log(ratio) - np.log(half) - scipy.special.betaln(half, 0.5)
            log_p = np.where(is_tiny, leading, log_p)
        z = -np.sign(t) * scipy.special.ndtri_exp(log_p - np.log(2))
    defined = np.isfinite(t) & (df >= 1)
    z = np.where(t == 0, 0.0, z)
    return np.where(defined, z, np.nan), np.where(defined, p_value, np.nan)


def rate_floor_each(
    baseline_count: Floats, baseline_items: Floats, count: Floats, items: Floats
) -> Floats:
    """Return the sampling deviation of a rate over ``items``, as a lower limit for a baseline.

    The rate is that of baseline and current window together, with one success and one failure
    added, so that a baseline without failures still allows for some.
    """
    rate = (baseline_count + count + 1) / (baseline_items + items + 2)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(items > 0, np.sqrt(rate * (1 - rate) / items), np.nan)


def mean_floor_each(items: Floats, total: Floats, squares: Floats, current: Floats) -> Floats:
    """Return the sampling deviation of a mean over ``current`` items, from within-window spread.

    Rows are series, columns windows: items, sum and sum of squares of each. NaN if no window has
    two items.
    """
    freedom = np.maximum(items - 1, 0).sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        within = np.where(items > 0, squares - total**2 / np.maximum(items, 1), 0.0)
        variance = np.maximum(within.sum(axis=1), 0.0) / freedom
        return np.where((freedom > 0) & (current > 0), np.sqrt(variance / current), np.nan)


def correlation_each(residuals: Floats, count: Floats) -> Floats:
    """Return the lag-1 correlation of each row, zero if not significant; absent cells are zero.

    Estimates from few values are too low by about (1 + 3 r) / n.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        raw = (residuals[:, 1:] * residuals[:, :-1]).sum(axis=1) / (residuals**2).sum(axis=1)
        found = raw + (1 + 3 * raw) / count
        is_proven = np.isfinite(found) & (found > 1 / np.sqrt(count))
    return np.where(is_proven, np.clip(found, 0.0, HIGHEST_CORRELATION), 0.0)


def widening_each(correlation: Floats, count: Floats) -> Floats:
    """Return the factor by which correlation widens the variance of a mean."""
    ratio = correlation / (1 - correlation)
    tail = (1 - correlation**count) / (count * (1 - correlation))
    return np.asarray(1 + 2 * ratio * (1 - tail))


def correlated_spread_each(values: Floats, present: Flags, moments: BaselineMoments) -> Floats:
    """Return how much wider each baseline's spread is than observed, because of correlation.

    It accounts both for the observed spread being too small, and for the mean being less certain.
    """
    count = np.maximum(moments.windows, 1)
    residuals = np.where(present, values - moments.mean[:, None], 0.0)
    widening = widening_each(correlation_each(residuals, count), count)
    hidden = np.maximum(1 - (widening - 1) / count, 0.2)
    return np.asarray(np.sqrt((1 + widening / count) / (1 + 1 / count) / hidden))


def ewma_weights(smoothing: float, windows: int) -> Floats:
    """Return the weight of each of the latest windows, oldest first; the mean has the rest."""
    ages = np.arange(windows - 1, -1, -1)
    return np.asarray(smoothing * (1 - smoothing) ** ages)


def ewma_each(
    recent: Floats,
    present: Flags,
    baseline: BaselineMoments,
    floor: Floats | None,
    smoothing: float,
) -> Deviations:
    """Return the exponentially weighted mean of the latest windows against its baseline.

    A missing window leaves the average unchanged. The variance includes the noise of the windows
    and of the estimated baseline mean: sd^2 (sum of squared weights + (sum of weights)^2 / n).
    """
    ages = np.cumsum(present[:, ::-1], axis=1)[:, ::-1] - 1
    weights = np.where(present, smoothing * (1 - smoothing) ** np.maximum(ages, 0), 0.0)
    total = weights.sum(axis=1)
    mean = baseline.mean
    pull = np.where(present, weights * (recent - mean[:, None]), 0.0).sum(axis=1)
    plain = deviations_each(mean + pull, baseline, floor)
    with np.errstate(divide="ignore", invalid="ignore"):
        noise = np.sqrt((weights**2).sum(axis=1) + total**2 / baseline.windows)
        sigma = np.where(plain.sd > 0, pull / (plain.sd * noise), plain.sigma)
    z, p_value = normal_scores(sigma, baseline.windows - 1)
    return Deviations(sigma, z, p_value, plain.sd, plain.is_degenerate)
