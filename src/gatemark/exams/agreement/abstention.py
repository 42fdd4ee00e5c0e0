"""How often raters decline to judge: the first, the second, and either of them.

An item is the pair of labels (first rater's, second rater's).
"""

from __future__ import annotations

from collections import Counter

import msgspec

from gatemark.core.fold import Batch, KnownAnswer, Measure
from gatemark.core.measurement import Interval, Measurement, rate
from gatemark.statistics.proportion import wilson

ABSTAIN = "ABSTAIN"
LEVEL = 0.95


class AbstentionState(msgspec.Struct, frozen=True):
    """Items seen, and how many of them each rater abstained on."""

    item_count: int = 0
    first_count: int = 0
    second_count: int = 0
    either_count: int = 0


def _step(state: AbstentionState, batch: Batch) -> AbstentionState:
    item_count = first_count = second_count = either_count = 0
    for (first, second), count in Counter(batch).items():
        item_count += count
        first_count += count * (first == ABSTAIN)
        second_count += count * (second == ABSTAIN)
        either_count += count * (ABSTAIN in {first, second})
    return _merge(state, AbstentionState(item_count, first_count, second_count, either_count))


def _merge(left: AbstentionState, right: AbstentionState) -> AbstentionState:
    return AbstentionState(
        item_count=left.item_count + right.item_count,
        first_count=left.first_count + right.first_count,
        second_count=left.second_count + right.second_count,
        either_count=left.either_count + right.either_count,
    )


def _finish(state: AbstentionState) -> tuple[Measurement, ...]:
    return (
        _abstain_rate("abstain_rate_first", state.first_count, state.item_count),
        _abstain_rate("abstain_rate_second", state.second_count, state.item_count),
        _abstain_rate("abstain_rate_either", state.either_count, state.item_count),
    )


def _abstain_rate(name: str, count: int, n: int) -> Measurement:
    interval = None
    if n:
        low, high = wilson(count, n, LEVEL)
        interval = Interval(low=low, high=high, level=LEVEL, method="wilson")
    return rate(name, count, n, direction="lower_is_better", interval=interval)


MEASURE: Measure[AbstentionState] = Measure(
    name="abstention",
    summary=f"How often the first, the second or either rater answers {ABSTAIN}.",
    state=AbstentionState,
    zero=AbstentionState,
    step=_step,
    merge=_merge,
    counted=True,
    finish=_finish,
    gives=("abstain_rate_first", "abstain_rate_second", "abstain_rate_either"),
    known=(
        KnownAnswer(
            title="5 items: first abstains on 1 and 2, second on 2 and 3: 2/5, 2/5, either 3/5",
            batch=(
                (ABSTAIN, "VALID"),
                (ABSTAIN, ABSTAIN),
                ("VALID", ABSTAIN),
                ("VALID", "VALID"),
                ("VALID", "REJECT"),
            ),
            expected={
                "abstain_rate_first": 0.4,
                "abstain_rate_second": 0.4,
                "abstain_rate_either": 0.6,
            },
        ),
        KnownAnswer(
            title="only the second rater abstains, 3 of 63: 0, 1/21, 1/21",
            batch=(("VALID", ABSTAIN),) * 3 + (("VALID", "VALID"),) * 60,
            expected={
                "abstain_rate_first": 0.0,
                "abstain_rate_second": 1 / 21,
                "abstain_rate_either": 1 / 21,
            },
        ),
        KnownAnswer(
            title="no items: a rate over nothing is a reason",
            batch=(),
            expected={
                "abstain_rate_first": None,
                "abstain_rate_second": None,
                "abstain_rate_either": None,
            },
        ),
    ),
)
