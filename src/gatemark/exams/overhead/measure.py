"""What a guard costs: items are ``(basis, weight, bare, guarded)``, one per window.

With the basis ``loss`` the weight is the number of tokens and the values are mean losses in nats;
with ``count`` the weight is the number of answers and the values are how many were correct. The
overhead is the relative rise of perplexity, or the drop of accuracy. The state holds one 33-byte
row per distinct window.
"""

from __future__ import annotations

import math
from collections import Counter

import msgspec
import numpy as np

from gatemark.core.errors import InvalidValueError
from gatemark.core.fold import Batch, KnownAnswer, Measure
from gatemark.core.measurement import Measurement
from gatemark.exams.overhead.measurements import (
    NAMES,
    Basis,
    Resampling,
    measure_quality,
    quality_unmeasured,
)
from gatemark.statistics.multiset import Runs, add_rows, merge_runs, row_type, union_rows

DEFAULT = Resampling(seed=4)
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
    """Both states as one."""
    return OverheadState(runs=merge_runs(left.runs, right.runs, _ROW))


def finish(state: OverheadState) -> tuple[Measurement, ...]:
    """The measurements, with a fixed seed for the interval."""
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
