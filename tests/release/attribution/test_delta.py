"""Delta debugging against brute force, with an oracle that may not know."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatemark.release.attribution.decision import DecisionStep, Pin, PlannedDecision
from gatemark.release.attribution.delta import find_smallest_change, make_versions_test
from gatemark.release.attribution.replay import Experiment, StepCall

NAMES = list("abcdefgh")


@settings(deadline=None, max_examples=60)
@given(st.sets(st.sampled_from(NAMES), min_size=1, max_size=4))
def test_a_set_that_must_be_whole_is_found(guilty: set[str]) -> None:
    found = find_smallest_change(NAMES, lambda subset: "wrong" if guilty <= subset else "right")
    assert set(found.changes) == guilty
    assert found.is_minimal
    assert found.unknown == 0


@settings(deadline=None, max_examples=60)
@given(st.sets(st.sampled_from(NAMES), min_size=1, max_size=3), st.integers(0, 999))
def test_what_remains_always_goes_wrong(guilty: set[str], seed: int) -> None:
    def test(subset: frozenset[str]):
        if subset and subset != set(NAMES) and hash((tuple(sorted(subset)), seed)) % 3 == 0:
            return "unknown"
        return "wrong" if guilty <= subset else "right"

    found = find_smallest_change(NAMES, test)
    assert guilty <= set(found.changes)
    assert test(frozenset(found.changes)) == "wrong"


def test_going_wrong_anyway_is_said() -> None:
    found = find_smallest_change(NAMES, lambda subset: "wrong")
    assert found.changes == ()
    assert found.reason == "the decision goes wrong without any of the changes"


def test_not_going_wrong_again_is_said() -> None:
    found = find_smallest_change(NAMES, lambda subset: "right")
    assert found.reason == "the decision does not go wrong again with all changes in"
    assert not found.is_minimal


def test_a_search_ends_when_its_tests_are_used_up() -> None:
    asked = []

    def test(subset: frozenset[str]):
        asked.append(subset)
        return "wrong" if {"a", "h"} <= subset else "right"

    found = find_smallest_change(NAMES, test, max_tests=4)
    assert len(asked) == 4
    assert {"a", "h"} <= set(found.changes)


class Coin:
    """A step that is right as often as its version says."""

    def __init__(self, **rates: float) -> None:
        self._rates = rates

    def run(self, call: StepCall) -> str:
        share = self._rates[call.pins["prompt:p"]]
        return "right" if call.seed % 100 < 100 * share else "wrong"


@pytest.mark.parametrize(
    ("rate", "told"), [(0.0, "wrong"), (0.2, "wrong"), (0.5, "unknown"), (0.8, "right")]
)
def test_a_test_of_versions_has_three_answers(rate: float, told: str) -> None:
    step = DecisionStep("s", "model", "m", ("input",), output="wrong", prompt=Pin("p", "new"))
    experiment = Experiment(
        decision=PlannedDecision("d", "q", "wrong", (step,)),
        reference={"prompt:p": "old"},
        replayer=Coin(old=1.0, new=rate),
        oracle=lambda ended: ended,
        repeats=50,
        seed=0,
    )
    test = make_versions_test(experiment, {"prompt:p": "new"}, {"prompt:p": "new"})
    assert test(frozenset({"prompt:p"})) == told
    assert test(frozenset()) == "right"


def test_a_reference_that_is_never_right_blames_nothing() -> None:
    step = DecisionStep("s", "model", "m", ("input",), output="wrong", prompt=Pin("p", "new"))
    experiment = Experiment(
        decision=PlannedDecision("d", "q", "wrong", (step,)),
        reference={"prompt:p": "old"},
        replayer=Coin(old=0.0, new=0.0),
        oracle=lambda ended: ended,
        repeats=5,
        seed=0,
    )
    test = make_versions_test(experiment, {"prompt:p": "new"}, {"prompt:p": "new"})
    assert find_smallest_change(["prompt:p"], test).changes == ()
