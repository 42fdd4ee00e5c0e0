"""How far a new value lies from a baseline, in standard deviations, for many series at once.

The ``…_each`` forms take one row per series and mark an undefined answer with NaN. No answer is
ever infinite.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

# Differences this small beside the values themselves are rounding, not spread.
RELATIVE_ZERO = 1e-12
_SMALLEST_P = 1e-250
HIGHEST_CORRELATION = 0.9


class BaselineMoments(NamedTuple):
    """Number, mean and standard deviation (ddof 1) of each baseline.

    The mean is NaN for an empty baseline, the deviation for fewer than two values; a deviation
    that is only rounding is exactly zero.
    """

    windows: Floats
    mean: Floats
    sd: Floats


def moments_each(values: Floats, present: Flags) -> BaselineMoments:
    """Return the moments of each row of ``values``, over the present cells."""
    count = present.sum(axis=1).astype(np.float64)
    first = np.take_along_axis(values, np.argmax(present, axis=1)[:, None], axis=1)
    # Taking the first value off makes a constant row exactly constant.
    moved = np.where(present, values - first, 0.0)
    mean_move = moved.sum(axis=1) / np.maximum(count, 1)
    spread = np.where(present, moved - mean_move[:, None], 0.0)
    sd = np.sqrt((spread**2).sum(axis=1) / np.maximum(count - 1, 1))
    mean = first[:, 0] + mean_move
    size = np.abs(np.where(present, values, 0.0)).max(axis=1, initial=0.0)
    sd = np.where(sd <= RELATIVE_ZERO * size, 0.0, sd)
    return BaselineMoments(
        count, np.where(count >= 1, mean, np.nan), np.where(count >= 2, sd, np.nan)
    )


class Deviations(NamedTuple):
    """What each series' new value says: sigma, its normal score, and the two-sided p-value.

    ``is_degenerate`` marks a value that differs from a baseline without any spread: there sigma,
    score and p-value are NaN.
    """

    sigma: Floats
    z: Floats
    p_value: Floats
    sd: Floats
    is_degenerate: Flags


def deviations_each(
    current: Floats, baseline: BaselineMoments, floor: Floats | None = None, *, windows: int = 1
) -> Deviations:
    """Sigma of each current value against its baseline, and the normal score of it.

    ``floor`` is the least standard deviation to believe in. ``windows`` is how many windows the
    current value is the mean of. sigma / sqrt(1/windows + 1/n) follows Student's t with n - 1
    degrees of freedom when nothing has changed; the score is the normal quantile of that tail.
    """
    sd = baseline.sd if floor is None else np.fmax(baseline.sd, floor)
    known = np.isfinite(baseline.sd) & np.isfinite(current)
    move = current - baseline.mean
    size = np.maximum(np.abs(current), np.abs(baseline.mean))
    still = np.abs(move) <= RELATIVE_ZERO * size
    flat = known & (sd == 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        sigma = np.where(flat, np.where(still, 0.0, np.nan), np.where(known, move / sd, np.nan))
        widening = np.sqrt(1 / windows + 1 / baseline.windows)
    z, p_value = normal_scores(sigma / widening, baseline.windows - 1)
    return Deviations(sigma, z, p_value, np.where(known, sd, np.nan), flat & ~still)


def normal_scores(t: Floats, df: Floats) -> tuple[Floats, Floats]:
    """The normal quantile with the same tail as each t, and the two-sided p-value of it.

    Tails that floating point cannot hold are followed by their leading term, so that a finite t
    has a finite score.
    """
    t, df = np.broadcast_arrays(np.asarray(t, dtype=np.float64), np.asarray(df, dtype=np.float64))
    with np.errstate(invalid="ignore", divide="ignore", over="ignore", under="ignore"):
        half = df / 2
        # Written so that a huge t cannot overflow in its square.
        share = (1 / np.maximum(np.abs(t), 1.0)) ** 2 * df
        ratio = share / (share + np.minimum(np.abs(t), 1.0) ** 2)
        p_value = scipy.special.betainc(half, 0.5, ratio)
        log_p = np.where(
            p_value > _SMALLEST_P,
            np.log(np.maximum(p_value, _SMALLEST_P)),
            half * np.log(ratio) - np.log(half) - scipy.special.betaln(half, 0.5),
        )
        z = -np.sign(t) * scipy.special.ndtri_exp(log_p - np.log(2))
    defined = np.isfinite(t) & (df >= 1)
    z = np.where(t == 0, 0.0, z)
    return np.where(defined, z, np.nan), np.where(defined, p_value, np.nan)


def rate_floor_each(
    baseline_count: Floats, baseline_items: Floats, count: Floats, items: Floats
) -> Floats:
    """The sampling deviation of a rate over ``items``: what no honest baseline can be below.

    The rate is that of baseline and current window together, with one success and one failure
    added, so that a baseline without failures still leaves room for some.
    """
    rate = (baseline_count + count + 1) / (baseline_items + items + 2)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(items > 0, np.sqrt(rate * (1 - rate) / items), np.nan)


def mean_floor_each(items: Floats, total: Floats, squares: Floats, current: Floats) -> Floats:
    """The sampling deviation of a mean over ``current`` items, from the spread within windows.

    Rows are series, columns windows: items, sum and sum of squares of each. NaN where no window
    holds two items.
    """
    freedom = np.maximum(items - 1, 0).sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        within = np.where(items > 0, squares - total**2 / np.maximum(items, 1), 0.0)
        variance = np.maximum(within.sum(axis=1), 0.0) / freedom
        return np.where((freedom > 0) & (current > 0), np.sqrt(variance / current), np.nan)


def correlation_each(residuals: Floats, count: Floats) -> Floats:
    """The correlation of neighbours in each row, zero where none is proven; absent cells are zero.

    What is estimated from few values is too low by about (1 + 3 r) / n.
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
    """How much wider each baseline's spread is than it looks, because neighbours are alike.

    It counts both that correlated values look less spread than they are, and that their mean is
    less certain.
    """
    count = np.maximum(moments.windows, 1)
    residuals = np.where(present, values - moments.mean[:, None], 0.0)
    widening = widening_each(correlation_each(residuals, count), count)
    hidden = np.maximum(1 - (widening - 1) / count, 0.2)
    return np.asarray(np.sqrt((1 + widening / count) / (1 + 1 / count) / hidden))


def ewma_weights(smoothing: float, windows: int) -> Floats:
    """Return the weight of each of the latest windows, oldest first; the rest is the mean's."""
    ages = np.arange(windows - 1, -1, -1)
    return np.asarray(smoothing * (1 - smoothing) ** ages)


def ewma_each(
    recent: Floats,
    present: Flags,
    baseline: BaselineMoments,
    floor: Floats | None,
    smoothing: float,
) -> Deviations:
    """The exponentially weighted mean of the latest windows against its baseline.

    A window that is not there leaves the average where it was. The variance counts the noise of
    the windows and that of the estimated baseline mean: sd^2 (sum of squared weights + (sum of
    weights)^2 / n).
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
