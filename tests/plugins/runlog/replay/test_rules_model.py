from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from gatemark.plugins.runlog.records.run import SUMMARY_LIMITS
from gatemark.plugins.runlog.replay.buffer_agent import BufferAgent
from gatemark.plugins.runlog.replay.model import ModelQuestion, TextSegment
from gatemark.plugins.runlog.replay.rules_model import NOTHING, RulesModel, simulate_ms
from gatemark.plugins.runlog.replay.summarizer import Summarizer

MODEL = RulesModel()


def analysis(text: str, context: tuple[str, ...] = (), history: tuple[str, ...] = ()):
    question = ModelQuestion(
        task="buffer",
        system="",
        prompt="p",
        new=(TextSegment("a", text),),
        context=tuple(TextSegment("a", part) for part in context),
        history=history,
    )
    return json.loads(MODEL.ask(question).text)


def test_a_finished_plan_that_is_new_is_worth_a_summary() -> None:
    found = analysis("I recommend a muscle biopsy.")
    assert found["is_complete"]
    assert found["is_relevant"]
    assert found["is_novel"]
    assert found["stream_state"] == "SAME_TOPIC_CONTINUING"


def test_half_a_sentence_is_not_complete() -> None:
    assert not analysis("I recommend a muscle")["is_complete"]


def test_small_talk_is_not_relevant() -> None:
    assert not analysis("Good morning everyone.")["is_relevant"]


def test_what_the_last_summary_says_is_not_new() -> None:
    text = "I recommend a muscle biopsy."
    assert not analysis(text, history=("recommended: muscle biopsy",))["is_novel"]


def test_an_alert_outranks_everything() -> None:
    assert analysis("Septic shock", context=("other words",))["stream_state"] == "CRITICAL_ALERT"


def test_text_that_shares_no_words_with_what_is_held_shifts_the_topic() -> None:
    found = analysis("Completely different matter", context=("renal function normal",))
    assert found["stream_state"] == "TOPIC_SHIFT"


def test_latency_is_a_stated_function_of_size() -> None:
    reply = MODEL.ask(
        ModelQuestion(task="buffer", system="", prompt="p" * 4000, new=(TextSegment("a", "x"),))
    )
    assert (
        reply.latency_ms
        == simulate_ms("p" * 4000, reply.text)
        == 20 + 25 + (len(reply.text) + 3) // 4 // 2
    )


@given(
    texts=st.lists(
        st.text(alphabet=st.characters(codec="utf-8"), max_size=400)
        | st.sampled_from(["I recommend rest.", "x" * 300, "a. " * 90]),
        min_size=1,
        max_size=4,
    )
)
@settings(deadline=None, max_examples=100)
def test_rules_answer_every_text_within_limits(texts: list[str]) -> None:
    segments = tuple(TextSegment(f"agent{i % 2}", text) for i, text in enumerate(texts))
    summary = Summarizer(MODEL).summarize(segments, [], None)
    assert summary.schema_ok
    assert all(len(text) <= SUMMARY_LIMITS[field] for field, text in summary.fields.items())
    assert all(text or field == "agent_contributions" for field, text in summary.fields.items())
    look = BufferAgent(MODEL, novelty=True, history_k=3).evaluate(
        segments[0], [summary.for_history], "x"
    )
    assert look.failure is None


def test_what_has_nothing_to_say_says_so() -> None:
    summary = Summarizer(MODEL).summarize((TextSegment("a", "Hm."),), [], None)
    assert summary.fields["key_findings"] == NOTHING
    assert summary.fields["status_action"] == "Hm."
