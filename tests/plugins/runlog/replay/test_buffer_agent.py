from __future__ import annotations

import itertools
import json

import pytest
from msgspec import UNSET
from tests.plugins.runlog.models import TRIGGER, Says

from gatemark.plugins.runlog.records.names import count_ctu
from gatemark.plugins.runlog.replay.buffer_agent import Analysis, BufferAgent, find_trigger_path
from gatemark.plugins.runlog.replay.model import (
    EMPTY_BLOCK,
    ModelError,
    TextSegment,
    render_segments,
)

CALM = TRIGGER | {"is_complete": False, "is_relevant": False, "is_novel": False}


def agent(answer, *, novelty: bool = True) -> BufferAgent:
    return BufferAgent(Says(answer), novelty=novelty, history_k=3)


@pytest.mark.parametrize(
    ("state", "complete", "relevant", "novel"),
    list(
        itertools.product(
            ["SAME_TOPIC_CONTINUING", "TOPIC_SHIFT", "CRITICAL_ALERT"],
            [True, False],
            [True, False],
            [True, False, UNSET],
        )
    ),
)
def test_the_trigger_is_the_written_rule(state, complete, relevant, novel) -> None:
    fresh = novel is UNSET or novel
    expected = None
    if state == "CRITICAL_ALERT":
        expected = "C"
    elif complete and relevant and fresh:
        expected = "A"
    elif state == "TOPIC_SHIFT" and relevant and fresh:
        expected = "B"
    assert find_trigger_path(Analysis("r", state, complete, relevant, novel)) == expected


def test_text_is_held_until_it_is_taken() -> None:
    held = agent(lambda _: CALM)
    assert held.is_empty
    assert not held.evaluate(TextSegment("a", "one"), [], "max_words").trigger
    held.park(TextSegment("b", "late"))
    held.hold(TextSegment("a", "two"))
    assert held.take() == (
        TextSegment("b", "late"),
        TextSegment("a", "one"),
        TextSegment("a", "two"),
    )
    assert held.is_empty


def test_what_is_asked_holds_context_new_text_and_the_last_summaries() -> None:
    model = Says(lambda _: CALM)
    held = BufferAgent(model, novelty=True, history_k=2)
    held.evaluate(TextSegment("a", "first"), ["s1", "s2", "s3"], "boundary_cue")
    look = held.evaluate(TextSegment("b", "second"), [], "silence_timer")
    first, second = model.asked
    assert "s1" not in first.prompt
    assert first.prompt.index("s2") < first.prompt.index("s3") < first.prompt.index("first")
    assert EMPTY_BLOCK in first.prompt
    assert "boundary_cue" in first.prompt
    assert second.prompt.index("a:\nfirst") < second.prompt.index("b:\nsecond")
    assert look.input_ctu == count_ctu("a:\nfirst\nb:\nsecond")
    assert look.usage.prompt_ctu == count_ctu(second.prompt)
    assert look.usage.completion_ctu == count_ctu(json.dumps(CALM))
    assert (look.usage.model_id, look.latency_ms) == ("says-1", 7)
    assert (look.usage.provider_prompt_tokens, look.usage.provider_completion_tokens) == (11, None)


def test_filters_say_what_was_found() -> None:
    look = agent(lambda _: CALM | {"is_relevant": True}).evaluate(
        TextSegment("a", "x"), [], "max_words"
    )
    found = look.filters()
    assert (found.completeness_passed, found.value_passed, found.novelty_passed) == (
        False,
        True,
        False,
    )


def test_without_novelty_it_is_not_asked_for_and_stays_null() -> None:
    calm = {k: v for k, v in TRIGGER.items() if k != "is_novel"}
    model = Says(lambda _: calm)
    look = BufferAgent(model, novelty=False, history_k=3).evaluate(
        TextSegment("a", "x"), [], "max_words"
    )
    assert look.trigger
    assert look.filters().novelty_passed is None
    assert "is_novel" not in model.asked[0].system
    assert "is_novel" in BufferAgent(model, novelty=True, history_k=3)._system


def fails(_):
    raise ModelError("the line is dead")


@pytest.mark.parametrize(
    ("answer", "failure", "unanswered"),
    [
        (fails, "model_error: the line is dead", True),
        (lambda _: "I think so.", "analysis_invalid", False),
        (lambda _: TRIGGER | {"stream_state": "CALM"}, "analysis_invalid", False),
        (lambda _: TRIGGER | {"rationale": "x" * 241}, "analysis_invalid", False),
        (
            lambda _: {k: v for k, v in TRIGGER.items() if k != "is_novel"},
            "is_novel is missing",
            False,
        ),
        (lambda _: TRIGGER | {"extra": 1}, "analysis_invalid", False),
    ],
)
def test_a_model_that_fails_triggers_nothing(answer, failure, unanswered) -> None:
    look = agent(answer).evaluate(TextSegment("a", "x"), [], "max_words")
    assert (look.trigger, look.analysis, look.filters()) == (False, None, UNSET)
    assert failure in look.failure
    assert look.unanswered is unanswered
    assert look.usage.completion_ctu == 0


def test_a_fence_around_the_answer_is_taken_off() -> None:
    fenced = f"```json\n{json.dumps(TRIGGER)}\n```"
    assert agent(lambda _: fenced).evaluate(TextSegment("a", "x"), [], "max_words").trigger


def test_segments_of_one_agent_stand_under_one_name() -> None:
    assert render_segments(()) == EMPTY_BLOCK
    segments = [
        TextSegment("a", "x"),
        TextSegment("a", "y"),
        TextSegment("b", "z"),
        TextSegment("a", "w"),
    ]
    assert render_segments(segments) == "a:\nx y\nb:\nz\na:\nw"
