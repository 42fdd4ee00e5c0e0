"""The share of deliveries that kept their promise. An item is True when one did."""

from __future__ import annotations

from collections import Counter

import msgspec

from gatemark.core.fold import Batch, KnownAnswer, Measure
from gatemark.core.measurement import Measurement, rate


class OnTimeState(msgspec.Struct, frozen=True):
    """Deliveries seen, and those that were on time."""

    count: int = 0
    on_time: int = 0


def _step(state: OnTimeState, batch: Batch) -> OnTimeState:
    counts = Counter(batch)
    return _merge(state, OnTimeState(counts.total(), counts[True]))


def _merge(left: OnTimeState, right: OnTimeState) -> OnTimeState:
    return OnTimeState(left.count + right.count, left.on_time + right.on_time)


def _finish(state: OnTimeState) -> tuple[Measurement, ...]:
    return (rate("on_time_share", state.on_time, state.count, direction="higher_is_better"),)


MEASURE: Measure[OnTimeState] = Measure(
    name="on_time",
    summary="The share of deliveries that kept their promise.",
    state=OnTimeState,
    zero=OnTimeState,
    step=_step,
    merge=_merge,
    finish=_finish,
    gives=("on_time_share",),
    counted=True,
    known=(
        KnownAnswer(
            title="3 of 4 on time: 3/4",
            batch=(True, True, False, True),
            expected={"on_time_share": 0.75},
        ),
        KnownAnswer(title="no deliveries: a reason", batch=(), expected={"on_time_share": None}),
    ),
)
