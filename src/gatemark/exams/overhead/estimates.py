"""What a guard costs on the same windows: perplexity, accuracy or time, guarded against bare.

Windows are the units. Perplexity is the exponential of the token-weighted mean loss, so its ratio
is the exponential of a weighted mean of paired differences, and that mean is what is resampled.
"""

from __future__ import annotations

import math
from typing import Final

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtrit

from gatemark.core.errors import InvalidValueError
from gatemark.core.measurement import Interval
from gatemark.statistics.paired.comparison import MAX_DRAWN_CELLS
from gatemark.statistics.paired.mcnemar import detectable_effect, drop_bounds
from gatemark.statistics.resampling.bootstrap import DEFAULT_RESAMPLES, bca_ratio
from gatemark.statistics.resampling.bounded_mean import bounded_mean_bounds

Floats = NDArray[np.float64]

LEVEL: Final = 0.95
MAX_MEAN_LOSS: Final = 700.0
"""In nats: above it the perplexity leaves the range of a float."""
GAFFKE_CELLS: Final = 100_000_000
"""Above this many drawn cells the imagined worst window no longer matters, and BCa serves."""


class PairedOverhead(msgspec.Struct, frozen=True):
    """Both arms and the cost between them, on the scale that is gated.

    ``overhead`` is the relative rise of perplexity or time, or the drop of accuracy; positive is
    worse. ``shifts`` are per window: nats of loss, or the drop of accuracy in that window.
    """

    bare: float
    guarded: float
    overhead: float
    interval: Interval | None
    interval_reason: str | None
    other_intervals: tuple[Interval, ...]
    detectable: float | None
    shifts: Floats


def loss_overhead(
    tokens: ArrayLike,
    bare: ArrayLike,
    guarded: ArrayLike,
    rng: np.random.Generator,
    *,
    level: float = LEVEL,
    resamples: int = DEFAULT_RESAMPLES,
) -> PairedOverhead:
    """The rise of perplexity from mean losses per window, in nats per token."""
    weights, before, after = _columns(tokens, bare, guarded)
    total = math.fsum(weights)
    mean_before = _mean_loss(weights, before, total)
    mean_after = _mean_loss(weights, after, total)
    if max(mean_before, mean_after) > MAX_MEAN_LOSS:
        raise InvalidValueError(
            f"mean loss must be <= {MAX_MEAN_LOSS:g} nats to have a perplexity, "
            f"got {max(mean_before, mean_after):g}"
        )
    shifts = after - before
    bounds, method, reason = _ratio_bounds(weights * shifts, weights, rng, level, resamples)
    interval = None
    if bounds is not None:
        interval = Interval(_rise(bounds[0]), _rise(bounds[1]), level, method)
    error = _ratio_error(weights * shifts, weights)
    return PairedOverhead(
        bare=math.exp(mean_before),
        guarded=math.exp(mean_after),
        overhead=math.expm1(mean_after - mean_before),
        interval=interval,
        interval_reason=reason,
        other_intervals=(),
        detectable=_rise(detectable_effect(error, alpha=1 - level)) if error else None,
        shifts=shifts,
    )


def count_overhead(
    totals: ArrayLike,
    bare: ArrayLike,
    guarded: ArrayLike,
    rng: np.random.Generator,
    *,
    level: float = LEVEL,
    resamples: int = DEFAULT_RESAMPLES,
) -> PairedOverhead:
    """The drop of accuracy from correct answers per window.

    Windows of one answer each get the exact paired bounds. Larger ones get BCa, with its upper end
    moved out to Gaffke's bound: a few windows show BCa too little of what a guard may break.
    """
    weights, before, after = _columns(totals, bare, guarded)
    total = math.fsum(weights)
    drops = before - after
    one_sided = (1 - level) / 2
    others: tuple[Interval, ...] = ()
    reason = None
    if bool(np.all(weights == 1)):
        low, high = drop_bounds(
            int((drops > 0).sum()), int((drops < 0).sum()), drops.size, one_sided_alpha=one_sided
        )
        interval: Interval | None = Interval(low, high, level, "melded exact")
    else:
        bounds, method, reason = _ratio_bounds(drops, weights, rng, level, resamples)
        interval = None if bounds is None else Interval(*bounds, level, method)
        if interval is not None and drops.size * resamples <= GAFFKE_CELLS:
            _, high = bounded_mean_bounds(
                drops / weights,
                rng,
                low=-1.0,
                high=1.0,
                one_sided_alpha=one_sided,
                sizes=weights,
                draws=resamples,
            )
            others = (interval,)
            upper = max(high, interval.high)
            interval = Interval(interval.low, upper, level, f"{method}, gaffke above")
    error = _ratio_error(drops, weights)
    return PairedOverhead(
        bare=math.fsum(before) / total,
        guarded=math.fsum(after) / total,
        overhead=math.fsum(drops) / total,
        interval=interval,
        interval_reason=reason,
        other_intervals=others,
        detectable=detectable_effect(error, alpha=1 - level) if error else None,
        shifts=drops / weights,
    )


def time_overhead(
    bare: ArrayLike,
    guarded: ArrayLike,
    rng: np.random.Generator,
    *,
    level: float = LEVEL,
    resamples: int = DEFAULT_RESAMPLES,
) -> PairedOverhead:
    """The relative rise of the total time over all windows."""
    before, after = _columns(bare, guarded)
    total = math.fsum(before)
    bounds, method, reason = _ratio_bounds(after - before, before, rng, level, resamples)
    error = _ratio_error(after - before, before)
    return PairedOverhead(
        bare=total,
        guarded=math.fsum(after),
        overhead=math.fsum(after - before) / total,
        interval=None if bounds is None else Interval(*bounds, level, method),
        interval_reason=reason,
        other_intervals=(),
        detectable=detectable_effect(error, alpha=1 - level) if error else None,
        shifts=after - before,
    )


def _mean_loss(weights: Floats, losses: Floats, total: float) -> float:
    """The weighted mean; infinity where no float can hold the sum."""
    try:
        with np.errstate(over="ignore"):
            return math.fsum(weights * losses) / total
    except OverflowError:
        return math.inf


def _rise(shift: float) -> float:
    """The relative rise of perplexity from a shift in nats, kept inside the range of a float."""
    return math.expm1(min(shift, MAX_MEAN_LOSS))


def _ratio_bounds(
    above: Floats, below: Floats, rng: np.random.Generator, level: float, resamples: int
) -> tuple[tuple[float, float] | None, str, str | None]:
    """Both bounds of sum(above) / sum(below), how they were found, and what limits them."""
    if above.size == 1:
        return None, "none", "one window shows no spread"
    if above.size * resamples > MAX_DRAWN_CELLS:
        estimate = math.fsum(above) / math.fsum(below)
        half = -float(stdtrit(above.size - 1, (1 - level) / 2)) * _ratio_error(above, below)
        return (
            (estimate - half, estimate + half),
            "t",
            f"{above.size} windows are too many to resample; t gives the interval",
        )
    found = bca_ratio(above, below, rng, level=level, resamples=resamples)
    return (found.low, found.high), found.method, found.reason


def _ratio_error(above: Floats, below: Floats) -> float:
    """The standard error of sum(above) / sum(below); 0 where nothing shows any spread."""
    if above.size == 1:
        return 0.0
    total = math.fsum(below)
    residuals = above - math.fsum(above) / total * below
    largest = float(np.abs(residuals).max())
    if largest <= 1e-12 * float(np.abs(above).max()):
        return 0.0
    return math.sqrt(math.fsum(residuals**2) * above.size / (above.size - 1)) / total


def _columns(*columns: ArrayLike) -> tuple[Floats, ...]:
    """Equally long lists of finite numbers; the first holds weights, all of them positive."""
    arrays = tuple(np.asarray(column, dtype=np.float64) for column in columns)
    size = arrays[0].size
    if size == 0 or any(array.shape != (size,) for array in arrays):
        raise InvalidValueError("paired windows need equally long, non-empty lists")
    if not all(bool(np.isfinite(array).all()) for array in arrays):
        raise InvalidValueError("paired windows need finite numbers")
    if not bool(np.all(arrays[0] > 0)):
        raise InvalidValueError(f"every weight must be > 0, got {arrays[0].min()}")
    return arrays
