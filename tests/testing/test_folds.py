from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from gatemark.core.fold import KnownAnswer, Measure
from gatemark.core.measurement import NO_ITEMS, Measurement, measured, unmeasured
from gatemark.testing.folds import check_fold


class Sums(msgspec.Struct):
    count: int = 0
    total: int = 0
    last: int = 0


class Opaque(msgspec.Struct):
    holds: Any = None


def step(state: Sums, batch: Sequence[int]) -> Sums:
    for item in batch:
        state.count += 1
        state.total += item
        state.last = item
    return state


def merge(left: Sums, right: Sums) -> Sums:
    return Sums(left.count + right.count, left.total + right.total, right.last)


def mean(state: Sums) -> tuple[Measurement, ...]:
    if not state.count:
        return (unmeasured("mean", NO_ITEMS(), direction="neutral"),)
    value = state.total / state.count
    return (measured("mean", value, n=state.count, direction="neutral"),)


def last(state: Sums) -> tuple[Measurement, ...]:
    if not state.count:
        return (unmeasured("mean", NO_ITEMS(), direction="neutral"),)
    return (measured("mean", state.last, n=state.count, direction="neutral"),)


def zero_when_empty(state: Sums) -> tuple[Measurement, ...]:
    value = state.total / max(1, state.count)
    return (measured("mean", value, n=state.count, direction="neutral"),)


def known(expected: float | None = 3.0, **more: Any) -> tuple[KnownAnswer, ...]:
    batch = more.pop("batch", (1, 2, 3, 4, 5))
    return (KnownAnswer(title="one to five", batch=batch, expected={"mean": expected}, **more),)


MEAN: Measure[Sums] = Measure(
    name="mean",
    summary="The mean of whole numbers.",
    state=Sums,
    zero=Sums,
    step=step,
    merge=merge,
    finish=mean,
    known=known(),
    gives=("mean",),
)


def test_a_sound_fold_passes_with_its_own_and_with_given_batches() -> None:
    check_fold(MEAN)
    check_fold(MEAN, [[], [7], list(range(100))])


@pytest.mark.parametrize(
    ("changes", "finding"),
    [
        ({"known": ()}, "has no known answers"),
        ({"known": known(3.5)}, "one to five: mean must be 3.5 within 1e-09, got 3.0"),
        ({"known": known(None)}, "mean must have a reason and no value, got 3.0"),
        ({"known": known(batch=())}, "mean must be 3.0, got no value: no items"),
        ({"gives": ("mean", "median")}, r"must give \['mean', 'median'\], gave \['mean'\]"),
        ({"finish": lambda state: mean(state) * 2}, "gave a measurement twice"),
        ({"finish": zero_when_empty}, "mean of empty input must be a reason, got 0.0"),
        ({"finish": last, "known": known(5.0)}, "must give Measurement"),
        ({"merge": lambda left, right: left}, "zero merged with a state must give"),
        ({"merge": lambda left, right: right}, "a state merged with zero must give"),
        ({"zero": lambda: Sums(1, 3)}, "must be a reason"),
        ({"state": Opaque}, "a state must be a Opaque, got Sums"),
    ],
)
def test_a_broken_fold_is_told_what_it_broke(changes: dict[str, Any], finding: str) -> None:
    with pytest.raises(AssertionError, match=finding):
        check_fold(msgspec.structs.replace(MEAN, **changes))


def test_a_fold_that_depends_on_the_size_of_its_batches_is_found() -> None:
    def step_by_batch_mean(state: Sums, batch: Sequence[int]) -> Sums:
        if not batch:
            return state
        return Sums(state.count + 1, state.total + sum(batch) // len(batch))

    broken = msgspec.structs.replace(MEAN, step=step_by_batch_mean, known=known(3.0))
    with pytest.raises(AssertionError, match="shuffled into batches of"):
        check_fold(broken)


def test_float_sums_that_depend_on_order_are_found() -> None:
    class FloatSums(msgspec.Struct):
        count: int = 0
        total: float = 0.0

    def add(state: FloatSums, batch: Sequence[float]) -> FloatSums:
        for item in batch:
            state.count += 1
            state.total += item
        return state

    inexact: Measure[FloatSums] = Measure(
        name="float_mean",
        summary="A mean that rounds as it goes.",
        state=FloatSums,
        zero=FloatSums,
        step=add,
        merge=lambda a, b: FloatSums(a.count + b.count, a.total + b.total),
        finish=mean,  # type: ignore[arg-type]
        known=known(),
        gives=("mean",),
    )
    check_fold(inexact)
    with pytest.raises(AssertionError, match="must give"):
        check_fold(inexact, [[0.1 * k for k in range(50)]])


def test_a_state_that_cannot_travel_is_found() -> None:
    def keep(state: Opaque, batch: Sequence[int]) -> Opaque:
        return Opaque([*(state.holds or []), *map(complex, batch)])

    def finish(state: Opaque) -> tuple[Measurement, ...]:
        if not state.holds:
            return (unmeasured("mean", NO_ITEMS(), direction="neutral"),)
        value = sum(state.holds).real / len(state.holds)
        return (measured("mean", value, n=len(state.holds), direction="neutral"),)

    stuck: Measure[Opaque] = Measure(
        name="stuck",
        summary="Holds numbers that msgpack has no form for.",
        state=Opaque,
        zero=Opaque,
        step=keep,
        merge=lambda a, b: Opaque([*(a.holds or []), *(b.holds or [])]),
        finish=finish,
        known=known(),
        gives=("mean",),
    )
    with pytest.raises(AssertionError, match="does not survive msgpack"):
        check_fold(stuck)
