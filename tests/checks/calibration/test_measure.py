from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatemark.checks.calibration.measure import MEASURE, summarize_calibration
from gatemark.core.errors import InvalidValueError
from gatemark.testing.folds import check_fold

CONFIDENCE = st.none() | st.floats(0, 1) | st.integers(0, 20).map(lambda k: k / 20)
ITEMS = st.lists(st.tuples(CONFIDENCE, st.none() | st.booleans()), max_size=60)


@settings(deadline=None, max_examples=25)
@given(ITEMS)
def test_it_keeps_the_laws_of_a_fold(items):
    check_fold(MEASURE, [items])


@settings(deadline=None, max_examples=25)
@given(ITEMS)
def test_counted_items_give_what_single_items_give(items):
    assert MEASURE.measure(Counter(items)) == MEASURE.measure(items)


def test_what_cannot_be_judged_is_counted():
    found = MEASURE.measure([(0.5, True), (None, True), (None, None), (0.5, None)])
    assert found[0].n == 1
    assert found[0].excluded == {"no_confidence": 2, "no_outcome": 1}


def test_few_items_carry_a_caveat():
    assert MEASURE.measure([(0.5, True)] * 99)[0].caveats
    assert not MEASURE.measure([(0.5, True)] * 100)[0].caveats


def test_the_summary_has_the_bins_asked_for():
    state = MEASURE.step(MEASURE.zero(), [(0.95, True), (0.15, False)] * 10)
    found = summarize_calibration(state, bins=10)
    assert len(found.bins) == 10
    assert [b.n for b in found.bins if b.n] == [10, 10]
    assert summarize_calibration(MEASURE.zero()) is None


def test_the_state_of_repeated_confidences_stays_small():
    state = MEASURE.zero()
    for _ in range(50):
        state = MEASURE.step(state, [(k / 20, k % 2 == 0) for k in range(21)] * 20)
    assert sum(map(len, state.runs)) == 21 * 17


@pytest.mark.parametrize("confidence", [1.5, -0.1, float("nan")])
def test_an_impossible_confidence_is_refused(confidence):
    with pytest.raises(InvalidValueError, match=r"confidence must be inside \[0, 1\]"):
        MEASURE.step(MEASURE.zero(), [(confidence, True)])
