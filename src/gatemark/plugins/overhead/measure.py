"""Measure the cost of a guard from items ``(basis, weight, bare, guarded)``, one per window.

With the basis ``loss`` the weight is the number of tokens and the values are mean losses in nats;
with ``count`` the weight is the number of answers and the values count correct ones. The overhead
is the relative increase of perplexity, or the drop of accuracy. The state has one 33-byte row per
distinct window.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Final, Literal

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from gatemark.core.errors import InvalidValueError
from gatemark.core.fold import Batch, KnownAnswer, Measure
from gatemark.core.measurement import Direction, Measurement, measured, unmeasured
from gatemark.core.reason import Reason, ReasonKind
from gatemark.plugins.overhead.paired_overhead import (
    PairedOverhead,
    compare_accuracy,
    compare_losses,
)
from gatemark.plugins.overhead.ratio_interval import DEFAULT, Resampling, UndefinedOverheadError
from gatemark.statistics.multiset import Runs, add_rows, merge_runs, row_type, union_rows
from gatemark.statistics.proportion import zero_width_caveat

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
NO_WINDOWS: Final = ReasonKind("no_windows", "no windows")
MIXED_BASES: Final = ReasonKind("mixed_bases", "losses and counts cannot be put together")
NO_SHIFT_VARIES: Final = ReasonKind("no_shift_varies", "nothing shows any spread")
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
    compare = compare_losses if basis == "loss" else compare_accuracy
    try:
        found = compare(weights, bare, guarded, resampling)
    except UndefinedOverheadError as error:
        return Quality(leave_quality_unmeasured(error.reason), None)
    return Quality(_list_measurements(basis, found), found)


def leave_quality_unmeasured(
    reason: Reason, others: Reason | None = None
) -> tuple[Measurement, ...]:
    """Return every quality measurement as unmeasured; ``others`` is a shorter reason."""
    return tuple(
        unmeasured(
            name, reason if name == OVERHEAD else others or reason, direction="lower_is_better"
        )
        for name in NAMES
    )


def find_smallest_reaching(values: NDArray[np.float64], share: float) -> float:
    """Return the smallest observed value whose cumulative share reaches ``share``."""
    return float(np.quantile(values, share, method="inverted_cdf"))


def _list_measurements(basis: Basis, found: PairedOverhead) -> tuple[Measurement, ...]:
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
        unmeasured(DETECTABLE, NO_SHIFT_VARIES(), n=n, direction=worse)
        if found.detectable is None
        else measured(DETECTABLE, found.detectable, n=n, direction=worse),
        measured(
            P95, find_smallest_reaching(found.shifts, 0.95), n=n, direction=worse, unit=of_windows
        ),
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
        return leave_quality_unmeasured(NO_WINDOWS())
    if rows["basis"].min() != rows["basis"].max():
        return leave_quality_unmeasured(MIXED_BASES())
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
