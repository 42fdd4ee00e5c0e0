from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.plugins.runlog.models import FIELDS, Says

from gatemark.plugins.runlog.records.names import count_ctu, hash_text
from gatemark.plugins.runlog.records.run import SEMANTIC_FIELDS, SUMMARY_LIMITS
from gatemark.plugins.runlog.replay.model import (
    ModelError,
    ModelQuestion,
    TextSegment,
    render_segments,
)
from gatemark.plugins.runlog.replay.summarizer import Summarizer, Summary, cut_text

SEGMENTS = (TextSegment("a", "Fever."),)
LONG = "word " * 60


def summarize(answer, compat="gatemark", history=(), latest=None) -> tuple[Summary, Says]:
    model = Says(answer)
    return Summarizer(model, compat).summarize(SEGMENTS, list(history), latest), model


def test_a_summary_says_five_fields_and_leaves_out_who_contributed() -> None:
    summary, model = summarize(lambda _: FIELDS)
    assert summary.semantics == "Stable. Fever. Infection. Unsure. Wait."
    assert (summary.schema_ok, summary.limits_ok, summary.failure_mode) == (True, True, None)
    assert summary.content.agent_contributions == "a"
    assert summary.truncated == ()
    assert summary.input_hash == hash_text(model.asked[0].prompt)
    assert summary.block_hash == hash_text(render_segments(SEGMENTS))
    assert summary.usage.prompt_ctu == count_ctu(model.asked[0].prompt)
    assert summary.usage.completion_ctu == count_ctu(summary.semantics)


def test_the_prompt_shows_earlier_summaries_the_latest_and_the_new_text_in_order() -> None:
    _, model = summarize(lambda _: FIELDS, history=("h1", "h2"), latest="l")
    prompt = model.asked[0].prompt
    places = [prompt.index(text) for text in ("h1", "h2", "Latest summary:\nl", "a:\nFever.")]
    assert places == sorted(places)


def test_a_field_that_is_too_long_is_asked_for_once_more() -> None:
    def answer(question: ModelQuestion):
        return FIELDS | {"key_findings": "short" if question.task == "rewrite" else LONG}

    summary, model = summarize(answer)
    assert [question.task for question in model.asked] == ["summary", "rewrite"]
    assert "key_findings: at most 180 characters, it has 300" in model.asked[1].prompt
    assert (summary.fields["key_findings"], summary.schema_ok) == ("short", True)
    assert summary.latency_ms == 14
    assert summary.usage.provider_prompt_tokens == 22


@pytest.mark.parametrize(
    "rewrite", [FIELDS | {"key_findings": LONG}, "no", FIELDS | {"extra": 1}, ModelError("gone")]
)
def test_what_is_still_too_long_is_cut_and_put_on_record(rewrite) -> None:
    def answer(question: ModelQuestion):
        if question.task == "summary":
            return FIELDS | {"key_findings": LONG}
        if isinstance(rewrite, ModelError):
            raise rewrite
        return rewrite

    summary, _ = summarize(answer)
    assert len(summary.fields["key_findings"]) <= 180
    assert (summary.schema_ok, summary.limits_ok) == (False, False)
    assert summary.failure_mode == "length_limit_violation"
    assert summary.truncated == ("key_findings",)
    assert summary.schema_error == "key_findings must be <= 180, got 300"
    assert summary.semantics.startswith("Stable. word word")


def test_a_field_as_long_as_its_limit_fails_only_in_the_source() -> None:
    for length, source_ok in ((178, True), (179, False), (180, False)):
        fields = FIELDS | {"key_findings": "x" * length}
        assert summarize(lambda _, fields=fields: fields)[0].schema_ok
        source, _ = summarize(lambda _, fields=fields: fields, "source")
        assert source.schema_ok is source_ok
        assert source.limits_ok is source_ok
        assert source.fields == fields
        assert source.truncated == ()


@pytest.mark.parametrize(
    "answer", ["nothing", {"status_action": "x"}, FIELDS | {"key_findings": 3}]
)
def test_an_answer_that_is_no_summary_leaves_empty_fields(answer) -> None:
    summary, _ = summarize(lambda _: answer)
    assert (summary.schema_ok, summary.limits_ok) == (False, True)
    assert summary.failure_mode == "schema_validation_error"
    assert set(summary.fields.values()) == {""}
    assert summary.schema_error
    assert (summary.semantics, summary.usage.completion_ctu) == ("", 0)
    assert summarize(lambda _: answer, "source")[0].semantics == "    "


def test_a_model_that_gives_no_answer_is_an_unexpected_error() -> None:
    def answer(_):
        raise ModelError("timeout: no reply within 1 s")

    summary, _ = summarize(answer)
    assert (summary.failure_mode, summary.limits_ok) == ("unexpected_error", True)
    assert summary.schema_error == "timeout: no reply within 1 s"
    assert summary.latency_ms is None
    assert summary.usage.provider_prompt_tokens is None


@given(text=st.text(alphabet="ab ", max_size=80), limit=st.integers(1, 60))
@settings(deadline=None, max_examples=200)
def test_cutting_keeps_most_of_the_limit_and_never_goes_beyond(text: str, limit: int) -> None:
    cut = cut_text(text, limit)
    assert text.startswith(cut)
    assert len(cut) <= limit
    assert cut == text or len(cut) > limit * 0.8 - 1


def test_a_word_is_not_cut_when_a_space_is_near() -> None:
    assert cut_text("aaaa bbbb cccc", 11) == "aaaa bbbb"
    assert cut_text("aaaa bbbbbbbbbbbb", 11) == "aaaa bbbbbb"


def test_a_space_counts_as_near_beyond_four_fifths_of_the_limit_and_not_on_them() -> None:
    assert cut_text("a" * 8 + " " + "b" * 9, 10) == "a" * 8 + " b"
    assert cut_text("a" * 9 + " " + "b" * 9, 10) == "a" * 9


def test_limits_and_fields_are_the_documents() -> None:
    assert list(SUMMARY_LIMITS.values()) == [150, 180, 210, 120, 180, 150]
    assert (*SEMANTIC_FIELDS, "agent_contributions") == tuple(SUMMARY_LIMITS)
    assert json.loads(json.dumps(FIELDS)).keys() == SUMMARY_LIMITS.keys()
