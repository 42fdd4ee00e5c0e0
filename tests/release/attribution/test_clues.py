"""Clues: what a record shows when nothing can be run again, and when it shows nothing."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gatemark.release.attribution.clues import (
    CLUES,
    MIN_PROBABILITY,
    estimate_likelihoods,
    find_named_step,
    is_measured,
    read_steps,
)
from gatemark.release.attribution.conclude import conclude_attribution
from gatemark.release.attribution.decision import PlannedDecision
from gatemark.release.attribution.nouns import Attribution, ReplayFact

ROOT = Path(__file__).resolve().parents[3]
REALITY = Path(os.environ.get("GATEMARK_REALITY", ROOT.parent / "shared" / "reality"))
LONG = "We look into this with care and write down every part of the reasoning in full. " * 3


def talk(*steps: dict[str, Any], output: str = "The answer is 57.") -> PlannedDecision:
    """A conversation in which every message reads the one before it."""
    told = [
        {
            "id": str(number),
            "kind": "model",
            "name": f"agent {number}",
            "sources": [str(number - 1) if number else "input"],
            **({} if "error" in step else {"output": LONG}),
            **step,
        }
        for number, step in enumerate(steps)
    ]
    return msgspec.convert(
        {
            "id": "d",
            "input": "How many live there?",
            "output": output,
            "steps": told,
            "judgement": {"verdict": "wrong", "reviewer": "dana"},
        },
        PlannedDecision,
    )


def attributed(decision: PlannedDecision, **known: Any) -> Attribution:
    return conclude_attribution(
        decision,
        effects=(),
        company=(),
        packs=(),
        replay=ReplayFact("none", 0, 0, {}, "not asked"),
        changes=None,
        **known,
    )


def clue(decision: PlannedDecision, name: str) -> list[float]:
    (found,) = [one for one in CLUES if one.name == name]
    return found.values(decision, read_steps(decision))


FAILED = {"kind": "tool", "name": "shell", "error": "exit 1"}
ANSWERED = {"kind": "tool", "name": "shell", "output": "ok"}


def test_the_caller_of_the_first_failed_tool_has_the_clue_and_not_the_tool() -> None:
    decision = talk({}, {}, FAILED, {}, FAILED, {})
    assert clue(decision, "first_failed_call") == [0, 1, 0, 0, 0, 0]
    assert clue(decision, "tool") == [0, 0, 1, 0, 1, 0]


def test_a_tool_that_changed_is_suspected_like_any_step() -> None:
    tool = FAILED | {"tool": {"name": "shell", "version": "2"}}
    decision = talk({}, {}, tool, {}, {})
    usual, changed = estimate_likelihoods(decision), estimate_likelihoods(decision, {"tool:shell"})
    assert changed[2].probability > usual[2].probability
    assert changed[1].probability < usual[1].probability


def test_who_goes_on_after_a_failure_contradicts_the_tool() -> None:
    decision = talk({}, {}, FAILED, {"output": LONG + "It is done."}, {"output": LONG})
    assert clue(decision, "goes_on") == [0, 0, 0, 1, 0]
    tries_again = talk({}, {}, FAILED, {"output": LONG + "```sh\nls\n```"}, ANSWERED)
    assert clue(tries_again, "goes_on") == [0, 0, 0, 0, 0]


def test_the_first_to_state_the_wrong_number_is_where_it_came_from() -> None:
    decision = talk(
        {},
        {"output": LONG + "Perhaps 12."},
        {"output": "57,000"},
        {},
        {"output": "57000"},
        output="It is 57,000.",
    )
    assert clue(decision, "origin") == [0, 0, 1, 0, 0]


def test_a_number_from_a_tool_has_support() -> None:
    decision = talk({}, {}, ANSWERED | {"output": "57"}, {"output": "57"}, {"output": "58 and 59"})
    assert clue(decision, "unsupported")[3] == 0
    assert clue(decision, "unsupported")[4] > 0


def test_repeated_steps_are_compared_by_name() -> None:
    again = {"name": "checker", "output": LONG}
    decision = talk({}, again, {"name": "other", "output": LONG}, again, {"output": "bye"})
    assert clue(decision, "repeats") == [0, 0, 0, 1, 0]


def test_probabilities_are_a_distribution() -> None:
    found = estimate_likelihoods(talk({}, {}, FAILED, {}, ANSWERED, {}))
    assert sum(one.probability for one in found) == pytest.approx(1)
    assert all(0 < one.probability < 1 for one in found)


def test_an_attribution_by_clues_states_its_probability() -> None:
    wrong = {"output": LONG + "Let us assume 57.\n```sh\nls\n```"}
    found = attributed(talk({}, {}, wrong, FAILED, {}, {"output": "bye"}))
    assert found.cause == "2"
    first = found.suspects[0]
    assert first.probability is not None
    assert first.probability >= MIN_PROBABILITY
    assert "it called the first tool that failed" in first.why
    assert first.confidence in {"low", "medium"}
    assert found.by_name[0][0] == "agent 2"
    assert sum(share for _, share in found.by_name) == pytest.approx(1)


def test_nothing_is_named_where_all_steps_look_alike() -> None:
    found = attributed(talk(*({} for _ in range(10)), output="No answer."))
    assert found.cause is None
    assert found.reason is not None
    assert "below 0.3" in found.reason


@pytest.mark.parametrize(
    "decision",
    [
        talk({}, {}, FAILED, {}),
        talk({"output": "plan"}, {"output": "a"}, FAILED, {"output": "b"}, {"output": "c"}),
    ],
    ids=["four steps", "no text"],
)
def test_records_unlike_those_measured_have_no_probabilities(decision: PlannedDecision) -> None:
    assert not is_measured(decision)
    assert find_named_step(decision, estimate_likelihoods(decision)) is None
    found = attributed(decision)
    # The caller of the failed tool is still a suspect.
    assert found.cause == "1"
    assert found.suspects[0].confidence == "low"
    assert found.suspects[0].probability is None
    assert "a tool that it called ended in an error: 2" in found.suspects[0].why


def test_a_tool_that_failed_without_a_caller_or_changed_is_blamed_itself() -> None:
    tool = {**FAILED, "tool": {"name": "shell", "version": "2"}}
    alone = talk({**tool, "sources": ["input"]}, {"output": "b"})
    assert attributed(alone).cause == "0"
    called = talk({"output": "a"}, tool, {"output": "b"})
    assert attributed(called).cause == "0"
    assert attributed(called, changed={"tool:shell"}).cause == "1"


def test_a_recorded_check_counts_more_than_clues() -> None:
    check = {"checks": [{"pack": "p", "rule": "r", "verdict": "fail"}]}
    found = attributed(talk({}, {}, FAILED, {}, {}, check))
    assert found.cause == "5"
    assert found.suspects[0].confidence == "medium"


needs_failures = pytest.mark.skipif(
    not (REALITY / "whowhen").is_dir(),
    reason="the marked failures are not here; name their folder with GATEMARK_REALITY",
)


@needs_failures
def test_the_shipped_weights_are_those_that_the_odd_logs_give() -> None:
    from bench.attribution_quality import fit, marked_failures

    odd = [one for one in marked_failures(REALITY / "whowhen") if one.number % 2]
    assert len(odd) == 63
    assert [one.weight for one in CLUES] == pytest.approx(list(fit(odd)), abs=0.006)


@needs_failures
def test_held_out_failures_are_named_better_than_by_the_baselines() -> None:
    from bench.attribution_quality import marked_failures, shipped

    even = [one for one in marked_failures(REALITY / "whowhen") if one.number % 2 == 0]
    answered = [(one, guess) for one in even if (guess := shipped(one)).step is not None]
    assert len(answered) >= len(even) / 2
    right = sum(one.step == guess.step for one, guess in answered)
    assert right / len(answered) > 0.27
    agents = sum(one.agent == guess.agent for one, guess in answered)
    assert agents / len(answered) > 0.291
