"""Measure the cost of a guard from items ``(basis, weight, bare, guarded)``, one per window.

With the basis ``loss`` the weight is the number of tokens and the values are mean losses in nats;
with ``count`` the weight is the number of answers and the values count correct ones. The overhead
is the relative increase of perplexity, or the drop of accuracy. The state has one 33-byte row per
distinct window.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Final, Literal

import msgspec
import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from gatemark.core.errors import InvalidValueError
from gatemark.core.fold import Batch, KnownAnswer, Measure
from gatemark.core.measurement import Direction, Interval, Measurement, measured, unmeasured
from gatemark.statistics.multiset import Runs, add_rows, merge_runs, row_type, union_rows
from gatemark.statistics.paired.comparison import MAX_DRAWN_CELLS
from gatemark.statistics.proportion import zero_width_caveat
from gatemark.statistics.resampling.bootstrap import DEFAULT_RESAMPLES, bca_ratio
from gatemark.statistics.resampling.bounded_mean import bounded_mean_bounds
from gatemark.statistics.significance import detectable_effect, drop_bounds

Floats = NDArray[np.float64]

LEVEL: Final = 0.95
MAX_MEAN_LOSS: Final = 700.0
"""In nats; the perplexity of a larger mean overflows."""
GAFFKE_CELLS: Final = 100_000_000
"""Above this many drawn cells, Gaffke's bound adds nothing to BCa and is left out."""


class Resampling(msgspec.Struct, frozen=True):
    """Seed, confidence level and number of resamples of an interval."""

    seed: int
    level: float = LEVEL
    resamples: int = DEFAULT_RESAMPLES

    def rng(self) -> np.random.Generator:
        """Return a fresh random generator, so that each number can be computed alone."""
        return np.random.default_rng(self.seed)


DEFAULT: Final = Resampling(seed=4)


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


def loss_overhead(
    tokens: ArrayLike, bare: ArrayLike, guarded: ArrayLike, resampling: Resampling
) -> PairedOverhead:
    """Return the increase of perplexity from mean losses per window, in nats per token."""
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
    interval, reason = _ratio_interval(weights * shifts, weights, resampling)
    if interval is not None:
        ends = _rise(interval.low), _rise(interval.high)
        interval = Interval(*ends, interval.level, interval.method)
    detectable = _detectable(weights * shifts, weights, resampling.level)
    return PairedOverhead(
        bare=math.exp(mean_before),
        guarded=math.exp(mean_after),
        overhead=math.expm1(mean_after - mean_before),
        interval=interval,
        interval_reason=reason,
        detectable=None if detectable is None else _rise(detectable),
        shifts=shifts,
    )


def count_overhead(
    totals: ArrayLike, bare: ArrayLike, guarded: ArrayLike, resampling: Resampling
) -> PairedOverhead:
    """Return the drop of accuracy from correct answers per window.

    Windows of one answer each get the exact paired bounds. Larger ones get BCa, with its upper end
    moved out to Gaffke's bound, because BCa is too narrow for few windows.
    """
    weights, before, after = _columns(totals, bare, guarded)
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
        interval, reason = _ratio_interval(drops, weights, resampling, rng)
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
        detectable=_detectable(drops, weights, level),
        shifts=drops / weights,
        other_intervals=others,
    )


def time_overhead(
    bare: ArrayLike, guarded: ArrayLike, resampling: Resampling
) -> tuple[float, Interval | None, str | None]:
    """Return the relative increase of the total time, its interval, and a caveat."""
    before, after = _columns(bare, guarded)
    overhead = math.fsum(after - before) / math.fsum(before)
    return overhead, *_ratio_interval(after - before, before, resampling)


TIME_BLOCKS: Final = 20
MIN_TIME_BLOCKS: Final = 4
"""Fewer blocks of time give no interval."""


def side_by_side_overhead(
    bare: Sequence[Sequence[float]], guarded: Sequence[Sequence[float]], level: float
) -> tuple[float, Interval | None, str | None]:
    """Return the relative increase of time, its interval, and the reason if there is none.

    Each group of windows was timed twice in each arm, in order of time; its fastest time counts,
    because other load only adds time. Load persists, so neighbouring groups are not independent:
    the interval is a t interval over blocks of time. Blocks have an even number of groups, because
    the order of the arms alternates from group to group.
    """
    before = np.array(bare, dtype=np.float64).min(axis=1)
    after = np.array(guarded, dtype=np.float64).min(axis=1)
    overhead = math.fsum(after - before) / math.fsum(before)
    blocks = min(TIME_BLOCKS, before.size // 2)
    if blocks < MIN_TIME_BLOCKS:
        return overhead, None, f"{before.size} timed groups of windows are too few for an interval"
    starts = [2 * int(pairs[0]) for pairs in np.array_split(np.arange(before.size // 2), blocks)]
    above = np.add.reduceat(after - before, starts)
    below = np.add.reduceat(before, starts)
    half = _half_width(above, below, level)
    method = f"t over {blocks} blocks of time"
    return overhead, Interval(overhead - half, overhead + half, level, method), None


def _mean_loss(weights: Floats, losses: Floats, total: float) -> float:
    """Return the weighted mean; infinity if the sum overflows."""
    try:
        with np.errstate(over="ignore"):
            return math.fsum(weights * losses) / total
    except OverflowError:
        return math.inf


def _rise(shift: float) -> float:
    """Return the relative increase of perplexity for a shift in nats, as a finite float."""
    return math.expm1(min(shift, MAX_MEAN_LOSS))


def _ratio_interval(
    above: Floats, below: Floats, resampling: Resampling, rng: np.random.Generator | None = None
) -> tuple[Interval | None, str | None]:
    """Return the interval of sum(above) / sum(below), and a caveat."""
    level, resamples = resampling.level, resampling.resamples
    if above.size == 1:
        return None, "one window shows no spread"
    if above.size * resamples > MAX_DRAWN_CELLS:
        estimate = math.fsum(above) / math.fsum(below)
        half = _half_width(above, below, level)
        reason = f"{above.size} windows are too many to resample; t gives the interval"
        return Interval(estimate - half, estimate + half, level, "t"), reason
    rng = resampling.rng() if rng is None else rng
    found = bca_ratio(above, below, rng, level=level, resamples=resamples)
    return Interval(found.low, found.high, level, found.method), found.reason


def _half_width(above: Floats, below: Floats, level: float) -> float:
    """Return half of the width of the t interval of sum(above) / sum(below)."""
    t = -float(scipy.special.stdtrit(above.size - 1, (1 - level) / 2))
    return t * _ratio_error(above, below)


def _detectable(above: Floats, below: Floats, level: float) -> float | None:
    """Return the smallest effect that this number of windows shows; None without spread."""
    error = _ratio_error(above, below)
    return detectable_effect(error, alpha=1 - level) if error else None


def _ratio_error(above: Floats, below: Floats) -> float:
    """Return the standard error of sum(above) / sum(below); 0 without spread."""
    if above.size == 1:
        return 0.0
    total = math.fsum(below)
    residuals = above - math.fsum(above) / total * below
    largest = float(np.abs(residuals).max())
    if largest <= 1e-12 * float(np.abs(above).max()):
        return 0.0
    return math.sqrt(math.fsum(residuals**2) * above.size / (above.size - 1)) / total


def _columns(*columns: ArrayLike) -> tuple[Floats, ...]:
    """Check equally long lists of finite numbers; the first holds positive weights."""
    arrays = tuple(np.asarray(column, dtype=np.float64) for column in columns)
    size = arrays[0].size
    if size == 0 or any(array.shape != (size,) for array in arrays):
        raise InvalidValueError("paired windows need equally long, non-empty lists")
    if not all(bool(np.isfinite(array).all()) for array in arrays):
        raise InvalidValueError("paired windows need finite numbers")
    if not bool(np.all(arrays[0] > 0)):
        raise InvalidValueError(f"every weight must be > 0, got {arrays[0].min()}")
    return arrays


Basis = Literal["loss", "count"]

OVERHEAD: Final = "quality_overhead"
IMPROVEMENT: Final = "quality_improvement"
DETECTABLE: Final = "detectable_overhead"
P95: Final = "window_shift_p95"
WORST: Final = "window_shift_worst"
WORSE_RATE: Final = "worse_window_rate"
BARE: Final = "bare_value"
GUARDED: Final = "guarded_value"
NAMES: Final = (OVERHEAD, IMPROVEMENT, BARE, GUARDED, DETECTABLE, P95, WORST, WORSE_RATE)

IDENTICAL: Final = (
    "every window is the same in both arms: the guards never acted, or the toggle did nothing"
)


class Quality(msgspec.Struct, frozen=True):
    """The measurements, and the comparison they come from."""

    measurements: tuple[Measurement, ...]
    found: PairedOverhead | None


def measure_quality(
    basis: Basis,
    weights: ArrayLike,
    bare: ArrayLike,
    guarded: ArrayLike,
    resampling: Resampling,
) -> Quality:
    """Return the quality measurements of paired windows."""
    compare = loss_overhead if basis == "loss" else count_overhead
    try:
        found = compare(weights, bare, guarded, resampling)
    except InvalidValueError as error:
        return Quality(quality_unmeasured(str(error)), None)
    return Quality(_measurements(basis, found), found)


def quality_unmeasured(reason: str, others: str | None = None) -> tuple[Measurement, ...]:
    """Return every quality measurement as unmeasured; ``others`` is a shorter reason."""
    return tuple(
        unmeasured(
            name, reason if name == OVERHEAD else others or reason, direction="lower_is_better"
        )
        for name in NAMES
    )


def smallest_reaching(values: NDArray[np.float64], share: float) -> float:
    """Return the smallest observed value whose cumulative share reaches ``share``."""
    return float(np.quantile(values, share, method="inverted_cdf"))


def _measurements(basis: Basis, found: PairedOverhead) -> tuple[Measurement, ...]:
    n = found.shifts.size
    unit, of_windows = ("perplexity", "nats") if basis == "loss" else ("accuracy", "ratio")
    direction: Direction = "lower_is_better" if basis == "loss" else "higher_is_better"
    worse: Direction = "lower_is_better"
    caveats = [found.interval_reason] if found.interval_reason else []
    if not caveats:
        caveats.extend(zero_width_caveat(found.interval))
    if not np.any(found.shifts):
        caveats.append(IDENTICAL)
    return (
        measured(
            OVERHEAD,
            found.overhead,
            n=n,
            direction=worse,
            interval=found.interval,
            other_intervals=found.other_intervals,
            caveats=tuple(caveats),
        ),
        measured(IMPROVEMENT, max(0.0, -found.overhead), n=n, direction="neutral"),
        measured(BARE, found.bare, n=n, direction=direction, unit=unit),
        measured(GUARDED, found.guarded, n=n, direction=direction, unit=unit),
        unmeasured(DETECTABLE, "nothing shows any spread", n=n, direction=worse)
        if found.detectable is None
        else measured(DETECTABLE, found.detectable, n=n, direction=worse),
        measured(P95, smallest_reaching(found.shifts, 0.95), n=n, direction=worse, unit=of_windows),
        measured(WORST, float(found.shifts.max()), n=n, direction=worse, unit=of_windows),
        measured(WORSE_RATE, float((found.shifts > 0).mean()), n=n, direction=worse),
    )


_BASES: tuple[Basis, ...] = ("loss", "count")
_ROW = row_type(("basis", "u1"), ("weight", "<f8"), ("bare", "<f8"), ("guarded", "<f8"))


class OverheadState(msgspec.Struct, frozen=True):
    """Counted windows."""

    runs: Runs = ()


def step(state: OverheadState, batch: Batch) -> OverheadState:
    """Add a batch of windows."""
    rows = []
    for (basis, weight, bare, guarded), count in Counter(batch).items():
        if basis not in _BASES:
            raise InvalidValueError(f"a window's basis must be loss or count, got {basis!r}")
        if not (weight > 0 and math.isfinite(bare) and math.isfinite(guarded)):
            raise InvalidValueError(
                f"a window needs a weight > 0 and finite values, got {weight}, {bare}, {guarded}"
            )
        rows.append((_BASES.index(basis), weight, bare, guarded, count))
    return OverheadState(runs=add_rows(state.runs, rows, _ROW))


def merge(left: OverheadState, right: OverheadState) -> OverheadState:
    """Merge two states."""
    return OverheadState(runs=merge_runs(left.runs, right.runs, _ROW))


def finish(state: OverheadState) -> tuple[Measurement, ...]:
    """Return the measurements, with a fixed seed for the interval."""
    rows = union_rows(state.runs, _ROW)
    if rows.size == 0:
        return quality_unmeasured("no windows")
    if rows["basis"].min() != rows["basis"].max():
        return quality_unmeasured("losses and counts cannot be put together")
    columns = (np.repeat(rows[name], rows["count"]) for name in ("weight", "bare", "guarded"))
    weights, bare, guarded = columns
    return measure_quality(
        _BASES[int(rows["basis"][0])], weights, bare, guarded, DEFAULT
    ).measurements


MEASURE = Measure(
    name="overhead",
    summary="What a guard costs on the same windows: rise of perplexity or drop of accuracy.",
    state=OverheadState,
    zero=OverheadState,
    step=step,
    merge=merge,
    finish=finish,
    known=(
        KnownAnswer(
            title="every window five thousandths of a nat worse",
            batch=[("loss", 10, 2.0, 2.005), ("loss", 10, 2.5, 2.505), ("loss", 20, 3.0, 3.005)],
            expected={
                "quality_overhead": 0.005012520859401,
                "quality_improvement": 0.0,
                "bare_value": math.exp(2.625),
                "window_shift_worst": 0.005,
                "worse_window_rate": 1.0,
                "detectable_overhead": None,
            },
        ),
        KnownAnswer(
            title="half of the answers lost",
            batch=[("count", 1, 1, 1)] * 45 + [("count", 1, 1, 0)] * 45 + [("count", 1, 0, 0)] * 10,
            expected={
                "quality_overhead": 0.45,
                "bare_value": 0.9,
                "guarded_value": 0.45,
                "window_shift_p95": 1.0,
                "worse_window_rate": 0.45,
            },
        ),
        KnownAnswer(
            title="two points gained",
            batch=[("count", 100, 80, 82)],
            expected={"quality_overhead": -0.02, "quality_improvement": 0.02},
        ),
        KnownAnswer(
            title="losses beside counts",
            batch=[("loss", 10, 2.0, 2.0), ("count", 10, 8, 8)],
            expected=dict.fromkeys(NAMES),
        ),
        KnownAnswer(title="no windows", batch=[], expected=dict.fromkeys(NAMES)),
    ),
    gives=NAMES,
    counted=True,
)
