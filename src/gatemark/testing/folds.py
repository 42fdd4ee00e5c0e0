"""The check that every measure passes: known answers and the laws of a fold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import NoReturn, TypeVar

import msgspec
import numpy as np

from gatemark.core.fold import KnownAnswer, Measure
from gatemark.core.measurement import Measurement

S = TypeVar("S", bound=msgspec.Struct)

_Batch = Sequence[object]
_SEED = 11
_ROUNDS = 3


def check_fold(measure: Measure[S], batches: Sequence[_Batch] | None = None) -> None:
    """Raise AssertionError unless ``measure`` follows the contract of measures.

    It must give its known answers and exactly the names in ``gives``, answer empty input with
    reasons, and give identical measurements for every split, order and grouping of merges.
    States must survive msgpack, and merging with ``zero`` must change nothing. Each of ``batches``
    is one more complete input to check, besides those of the known answers.
    """
    if not measure.known:
        _fail(measure, "has no known answers")
    for known in measure.known:
        _check_known(measure, known)
    _check_empty(measure)
    rng = np.random.default_rng(_SEED)
    for batch in (*(known.batch for known in measure.known), *(batches or ())):
        _check_laws(measure, list(batch), rng)


def _check_known(measure: Measure[S], known: KnownAnswer) -> None:
    found = _finish_measure(measure, measure.step(measure.zero(), known.batch))
    for name, expected in known.expected.items():
        answers = [measurement for measurement in found if measurement.name == name]
        if not answers:
            _fail(measure, f"{known.title}: gave no {name}")
        for answer in answers:
            _check_answer(measure, known, answer, expected)


def _check_answer(
    measure: Measure[S], known: KnownAnswer, answer: Measurement, expected: float | None
) -> None:
    place = f"{known.title}: {answer.name}"
    if expected is None:
        if answer.value is not None:
            _fail(measure, f"{place} must have a reason and no value, got {answer.value}")
    elif answer.value is None:
        _fail(measure, f"{place} must be {expected}, got no value: {answer.reason}")
    elif not abs(answer.value - expected) <= known.tolerance:
        _fail(
            measure,
            f"{place} must be {expected} within {known.tolerance}, got {answer.value}",
        )


def _check_empty(measure: Measure[S]) -> None:
    for found in (
        _finish_measure(measure, measure.zero()),
        _finish_measure(measure, measure.step(measure.zero(), [])),
    ):
        for measurement in found:
            if measurement.value is not None:
                _fail(
                    measure,
                    f"{measurement.name} of empty input must be a reason, got {measurement.value}",
                )


def _check_laws(measure: Measure[S], items: list[object], rng: np.random.Generator) -> None:
    def whole() -> S:
        return measure.step(measure.zero(), items)

    expected = _finish_measure(measure, whole())
    for place, state in (
        ("a state read back from msgpack", _round_trip(measure, whole())),
        ("zero merged with a state", measure.merge(measure.zero(), whole())),
        ("a state merged with zero", measure.merge(whole(), measure.zero())),
        ("a state after an empty batch", measure.step(whole(), [])),
    ):
        _check_same(measure, place, expected, _finish_measure(measure, state))
    if measure.counted:
        state = measure.step(measure.zero(), Counter(items))
        _check_same(
            measure, "items given with their counts", expected, _finish_measure(measure, state)
        )
    for _ in range(_ROUNDS):
        shuffled = [items[index] for index in rng.permutation(len(items))]
        shards = _split(shuffled, rng)
        place = f"{len(items)} items shuffled into batches of {[len(shard) for shard in shards]}"
        state = measure.zero()
        for shard in shards:
            state = measure.step(state, shard)
        _check_same(
            measure, f"{place}, stepped one by one", expected, _finish_measure(measure, state)
        )
        state = _merge_in_any_order(measure, shards, rng)
        _check_same(
            measure, f"{place}, merged in any order", expected, _finish_measure(measure, state)
        )


def _split(items: list[object], rng: np.random.Generator) -> list[list[object]]:
    """Cut items at random places; shards may be empty."""
    cuts = np.sort(rng.integers(0, len(items) + 1, size=int(rng.integers(1, 7))))
    edges = [0, *(int(cut) for cut in cuts), len(items)]
    return [items[start:end] for start, end in pairwise(edges)]


def _merge_in_any_order(
    measure: Measure[S], shards: list[list[object]], rng: np.random.Generator
) -> S:
    """Merge random pairs of states until one is left; each state is serialized first."""
    states = [_round_trip(measure, measure.step(measure.zero(), shard)) for shard in shards]
    while len(states) > 1:
        left = states.pop(int(rng.integers(len(states))))
        right = states.pop(int(rng.integers(len(states))))
        states.append(_round_trip(measure, measure.merge(left, right)))
    return states[0]


def _round_trip(measure: Measure[S], state: S) -> S:
    """Return the state as another process would receive it."""
    if not isinstance(state, measure.state):
        _fail(measure, f"a state must be a {measure.state.__name__}, got {type(state).__name__}")
    try:
        return msgspec.msgpack.decode(msgspec.msgpack.encode(state), type=measure.state)
    except (TypeError, msgspec.MsgspecError) as error:
        _fail(measure, f"its state does not survive msgpack: {error}")


def _finish_measure(measure: Measure[S], state: S) -> tuple[Measurement, ...]:
    found = measure.finish(state)
    keys = [measurement.key for measurement in found]
    if len(set(keys)) != len(keys):
        _fail(measure, f"gave a measurement twice: {keys}")
    names = {measurement.name for measurement in found}
    if names != set(measure.gives):
        _fail(measure, f"must give {sorted(measure.gives)}, gave {sorted(names)}")
    return found


def _check_same(
    measure: Measure[S],
    place: str,
    expected: tuple[Measurement, ...],
    found: tuple[Measurement, ...],
) -> None:
    for wanted, given in zip(expected, found, strict=False):
        if given != wanted:
            _fail(measure, f"{place} must give {wanted}, gave {given}")
    if len(found) != len(expected):
        _fail(measure, f"{place} must give {len(expected)} measurements, gave {len(found)}")


def _fail(measure: Measure[S], finding: str) -> NoReturn:
    raise AssertionError(f"measure {measure.name!r}: {finding}")
