"""The overhead of paired windows: the increase of perplexity, or the drop of accuracy."""

from __future__ import annotations

import math
from typing import Final

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from gatemark.core.measurement import Interval
from gatemark.core.reason import ReasonKind
from gatemark.plugins.overhead.ratio_interval import (
    Floats,
    Resampling,
    UndefinedOverheadError,
    check_columns,
    find_detectable_effect,
    find_ratio_interval,
)
from gatemark.statistics.resampling.bounded_mean import bounded_mean_bounds
from gatemark.statistics.significance import drop_bounds

MAX_MEAN_LOSS: Final = 700.0
"""In nats; the perplexity of a larger mean overflows."""
LOSS_TOO_LARGE: Final = ReasonKind(
    "loss_too_large", "mean loss must be <= {most} nats to have a perplexity, got {found}"
)
GAFFKE_CELLS: Final = 100_000_000
"""Above this many drawn cells, Gaffke's bound adds nothing to BCa and is left out."""


class PairedOverhead(msgspec.Struct, frozen=True):
    """Values of both arms and the overhead between them.

    ``overhead`` is the relative increase of perplexity or time, or the drop of accuracy; positive
    is worse. ``shifts`` are per window: nats of loss, or the drop of accuracy in that window.
    """

    bare: float
    guarded: float
    overhead: float
    interval: Interval | None
    interval_reason: str | None
    detectable: float | None
    shifts: Floats
    other_intervals: tuple[Interval, ...] = ()


def compare_losses(
    tokens: ArrayLike, bare: ArrayLike, guarded: ArrayLike, resampling: Resampling
) -> PairedOverhead:
    """Return the increase of perplexity from mean losses per window, in nats per token."""
    weights, before, after = check_columns(tokens, bare, guarded)
    total = math.fsum(weights)
    mean_before = _weigh_losses(weights, before, total)
    mean_after = _weigh_losses(weights, after, total)
    if max(mean_before, mean_after) > MAX_MEAN_LOSS:
        found = max(mean_before, mean_after)
        # An infinite mean has no place among the values of a reason, which are JSON.
        raise UndefinedOverheadError(
            LOSS_TOO_LARGE.word(
                f"mean loss must be <= {MAX_MEAN_LOSS:g} nats to have a perplexity, got {found:g}",
                most=MAX_MEAN_LOSS,
                found=found if math.isfinite(found) else None,
            )
        )
    shifts = after - before
    interval, reason = find_ratio_interval(weights * shifts, weights, resampling)
    if interval is not None:
        ends = _convert_shift(interval.low), _convert_shift(interval.high)
        interval = Interval(*ends, interval.level, interval.method)
    detectable = find_detectable_effect(weights * shifts, weights, resampling.level)
    return PairedOverhead(
        bare=math.exp(mean_before),
        guarded=math.exp(mean_after),
        overhead=math.expm1(mean_after - mean_before),
        interval=interval,
        interval_reason=reason,
        detectable=None if detectable is None else _convert_shift(detectable),
        shifts=shifts,
    )


def compare_accuracy(
    totals: ArrayLike, bare: ArrayLike, guarded: ArrayLike, resampling: Resampling
) -> PairedOverhead:
    """Return the drop of accuracy from correct answers per window.

    Windows of one answer each get the exact paired bounds. Larger ones get BCa, with its upper end
    moved out to Gaffke's bound, because BCa is too narrow for few windows.
    """
    weights, before, after = check_columns(totals, bare, guarded)
    total = math.fsum(weights)
    drops = before - after
    level, resamples = resampling.level, resampling.resamples
    one_sided = (1 - level) / 2
    others: tuple[Interval, ...] = ()
    reason = None
    if bool(np.all(weights == 1)):
        low, high = drop_bounds(
            int((drops > 0).sum()), int((drops < 0).sum()), drops.size, one_sided_alpha=one_sided
        )
        interval: Interval | None = Interval(low, high, level, "melded exact")
    else:
        rng = resampling.rng()
        interval, reason = find_ratio_interval(drops, weights, resampling, rng)
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
            interval = Interval(interval.low, upper, level, f"{interval.method}, gaffke above")
    return PairedOverhead(
        bare=math.fsum(before) / total,
        guarded=math.fsum(after) / total,
        overhead=math.fsum(drops) / total,
        interval=interval,
        interval_reason=reason,
        detectable=find_detectable_effect(drops, weights, level),
        shifts=drops / weights,
        other_intervals=others,
    )


def _weigh_losses(weights: Floats, losses: Floats, total: float) -> float:
    """Return the weighted mean; infinity if the sum overflows."""
    try:
        with np.errstate(over="ignore"):
            return math.fsum(weights * losses) / total
    except OverflowError:
        return math.inf


def _convert_shift(shift: float) -> float:
    """Return the relative increase of perplexity for a shift in nats, as a finite float."""
    return math.expm1(min(shift, MAX_MEAN_LOSS))
