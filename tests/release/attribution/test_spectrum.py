"""Ochiai's coefficient against an independent library, and what it must not claim."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics.pairwise import cosine_similarity

from gatemark.release.attribution.decision import (
    DecisionJudgement,
    DecisionStep,
    Pin,
    PlannedDecision,
    StepCheck,
)
from gatemark.release.attribution.rank import rank_suspects
from gatemark.release.attribution.spectrum import rank_parts


def decision(verdict: Any, writer: str, tariffs: str = "t1", **more: Any) -> PlannedDecision:
    steps = (
        DecisionStep(
            "look", "retrieval", "tariffs", ("input",), output=1, retrieval=Pin("t", tariffs)
        ),
        DecisionStep(
            "write", "model", "writer", ("look",), output=2, prompt=Pin("w", writer), **more
        ),
    )
    return PlannedDecision("d", "q", 2, steps, judgement=DecisionJudgement(verdict, "r"))


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=2, max_size=30))
def test_ochiai_is_the_cosine_of_being_used_and_being_wrong(runs: list[tuple[bool, bool]]) -> None:
    wrong, used = [w for w, _ in runs], [u for _, u in runs]
    found = {
        one.part: one.ochiai
        for one in rank_parts(
            decision("wrong" if w else "right", "new" if u else "old") for w, u in runs
        )
    }
    if not any(used):
        assert "prompt:w@new" not in found
    elif all(wrong) or not any(wrong):
        assert found["prompt:w@new"] is None
    else:
        expected = cosine_similarity([list(map(int, wrong))], [list(map(int, used))])[0][0]
        assert found["prompt:w@new"] == pytest.approx(expected)


def test_decisions_that_nobody_judged_say_nothing() -> None:
    silent = PlannedDecision("d", "q", 2, decision("wrong", "new").steps)
    judged = [decision("wrong", "new"), decision("right", "old")]
    assert rank_parts([*judged, silent, silent]) == rank_parts(judged)


@pytest.mark.parametrize(
    "others",
    [
        [decision("wrong", "new"), decision("wrong", "new")],
        [decision("right", "new"), decision("wrong", "new"), decision("right", "new")],
    ],
    ids=["all wrong", "all alike"],
)
def test_versions_that_all_decisions_share_tell_no_step_apart(
    others: list[PlannedDecision],
) -> None:
    wrong = decision("wrong", "new")
    suspects = rank_suspects(wrong, (), rank_parts([wrong, *others]))
    assert {suspect.confidence for suspect in suspects} == {"none"}


def test_a_check_that_fails_in_wrong_decisions_keeps_their_company() -> None:
    failed = {"checks": (StepCheck("desk", "price", "fail"),)}
    wrong = [decision("wrong", "same", **failed) for _ in range(3)]
    found = rank_parts([*wrong, *(decision("right", "same") for _ in range(3))])
    assert (found[0].part, found[0].ochiai) == ("check:writer:desk/price", 1.0)
    (first, _) = rank_suspects(wrong[0], (), found)
    assert (first.step, first.company) == ("write", 1.0)
