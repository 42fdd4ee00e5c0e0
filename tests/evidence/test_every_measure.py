from __future__ import annotations

from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatemark.checks.agreement.measure import ABSTENTION, AGREEMENT, KRIPPENDORFF
from gatemark.core.fold import Measure
from gatemark.evidence.measures import measures
from gatemark.testing.folds import check_fold

MEASURES = list(measures())

LABELS = st.sampled_from(["VALID", "REJECT", "ABSTAIN", "NOT_IN_CONTEXT", "", "é\x1fb"])
PAIRS = st.lists(st.tuples(LABELS, LABELS), max_size=60)
UNITS = st.lists(
    st.lists(st.one_of(st.none(), LABELS), min_size=2, max_size=5).map(tuple), max_size=40
)
CUTS = st.lists(st.integers(0, 60), max_size=4)


@pytest.mark.parametrize("measure", MEASURES, ids=lambda measure: measure.name)
def test_every_measure_keeps_the_promises_of_a_fold(measure: Measure[Any]) -> None:
    check_fold(measure)


def test_every_measure_has_its_own_name_and_results() -> None:
    names = [measure.name for measure in MEASURES]
    given_names = [name for measure in MEASURES for name in measure.gives]
    assert {"agreement", "abstention", "krippendorff"} <= set(names)
    assert len(set(names)) == len(names)
    assert len(set(given_names)) == len(given_names)


def merged_backwards(measure: Measure[Any], items: list[Any], cuts: list[int]) -> Any:
    edges = [0, *sorted(min(cut, len(items)) for cut in cuts), len(items)]
    shards = [items[start:end] for start, end in pairwise(edges)]
    states = [measure.step(measure.zero(), shard) for shard in reversed(shards)]
    state = measure.zero()
    for other in states:
        travelled = msgspec.msgpack.decode(msgspec.msgpack.encode(other), type=measure.state)
        state = measure.merge(travelled, state)
    return measure.finish(state)


@pytest.mark.parametrize("measure", MEASURES, ids=lambda measure: measure.name)
def test_merging_leaves_both_states_as_they_were(measure: Measure[Any]) -> None:
    for known in measure.known:
        left, right = (measure.step(measure.zero(), known.batch) for _ in range(2))
        before = msgspec.msgpack.encode(left)
        measure.merge(left, right)
        assert msgspec.msgpack.encode(left) == before
        assert msgspec.msgpack.encode(right) == before


@given(items=PAIRS, cuts=CUTS)
@settings(deadline=None, max_examples=30)
def test_agreement_does_not_depend_on_the_split(
    items: list[tuple[str, str]], cuts: list[int]
) -> None:
    whole = AGREEMENT.measure(items)
    assert merged_backwards(AGREEMENT, items, cuts) == whole


@given(items=PAIRS, cuts=CUTS)
@settings(deadline=None, max_examples=100)
def test_abstention_does_not_depend_on_the_split(
    items: list[tuple[str, str]], cuts: list[int]
) -> None:
    whole = ABSTENTION.measure(items)
    assert merged_backwards(ABSTENTION, items, cuts) == whole


@given(items=UNITS, cuts=CUTS)
@settings(deadline=None, max_examples=30)
def test_krippendorff_does_not_depend_on_the_split(
    items: list[tuple[str | None, ...]], cuts: list[int]
) -> None:
    whole = KRIPPENDORFF.measure(items)
    assert merged_backwards(KRIPPENDORFF, items, cuts) == whole
