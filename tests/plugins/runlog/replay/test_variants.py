from __future__ import annotations

import pytest
from msgspec import UNSET
from tests.plugins.runlog.models import FIELDS, Says, always
from tests.plugins.runlog.talks import trace, turn

from gatemark.plugins.runlog.audit_run import audit_run
from gatemark.plugins.runlog.records.names import count_ctu, hash_text
from gatemark.plugins.runlog.records.run import RunLog, TimestampDerivation
from gatemark.plugins.runlog.records.run_file_rules import RunRules
from gatemark.plugins.runlog.replay.config import load_variants
from gatemark.plugins.runlog.replay.make_log import RunFacts, add_latencies, make_log
from gatemark.plugins.runlog.replay.model import (
    MissingReplyError,
    ModelError,
    RecordedModel,
    RecordingModel,
)
from gatemark.plugins.runlog.replay.variants import CaseRecorder, Models, run_variant
from gatemark.plugins.runlog.traces.trace import Trace

VARIANTS = {variant.variant_id: variant for variant in load_variants(None)}
FILE, SET = hash_text("file"), hash_text("set")


def words(count: int, *, end: str = ".", word: str = "w") -> list[str]:
    return [f" {word}{number}" for number in range(count - 1)] + [f" last{end}"]


def run(made: Trace, variant: str, model=None, compat="gatemark", **more) -> CaseRecorder:
    model = model or always()
    config = VARIANTS[variant].config
    return run_variant(made, config, Models(model, model), compat=compat, **more)


def log_of(made: Trace, variant: str, done: CaseRecorder, compat="gatemark") -> RunLog:
    model = always()
    return make_log(
        made,
        VARIANTS[variant],
        done,
        RunFacts("eval-00000000-00000000", SET, compat),
        file_hash=FILE,
        models=Models(model, model),
    )


TALK = (
    turn("chair", 0, ["Bob"]),
    turn("bob", 500, words(70)),
    turn("chair", 2000, ["Amy"]),
    turn("amy", 2500, words(40, word="v")),
    turn("bob", 9000, words(10, word="u")),
    turn("amy", 9300, words(5, word="t")),
    turn("chair", 9900, ["TERMINATE"]),
)


@pytest.mark.parametrize("variant", sorted(VARIANTS))
@pytest.mark.parametrize("compat", ["gatemark", "source"])
def test_every_variant_writes_a_log_that_fits_its_trace(variant: str, compat) -> None:
    made = trace(*TALK)
    done = run(made, variant, compat=compat, chunk_size_ctu=20)
    log = log_of(made, variant, done, compat)
    records = log.records()
    rules = RunRules()
    assert not list(rules.see(range(1, len(records) + 1), records))
    assert not list(rules.end())
    assert not list(audit_run(log, made, file_hash=FILE, dataset_hash=SET))
    has = (bool(log.flushes), bool(log.decisions), bool(log.events))
    expected = {
        "V0": (True, True, True),
        "V1": (False, False, True),
        "V2": (True, False, True),
        "V3": (False, True, True),
        "V4": (True, True, True),
    }
    assert has == expected[variant]
    triggers = {"V1": "turn_end", "V2": "tokengate_flush"}
    assert {event.trigger_type for event in log.events} == {triggers.get(variant, "buffer_agent")}


def test_the_gate_sees_the_content_plane_only() -> None:
    done = run(trace(*TALK), "V2")
    assert [flush.trigger_reason for flush in done.flushes] == [
        "boundary_cue",
        "silence_timer",
        "end_of_trace",
        "end_of_trace",
    ]
    assert [count_ctu("".join(words(70)))] == [flush.accumulated_ctu for flush in done.flushes[:1]]


def test_leftovers_are_summarised_by_v2_and_parked_by_the_others() -> None:
    made = trace(*TALK)
    for variant in ("V0", "V2", "V4"):
        done = run(made, variant)
        leftovers = [f for f in done.flushes if f.trigger_reason == "end_of_trace"]
        assert len(leftovers) == 2
        assert len(done.events) == len(done.flushes) - (0 if variant == "V2" else 2)
        assert len(done.decisions) == (0 if variant == "V2" else len(done.flushes) - 2)
    chunks = run(made, "V3", chunk_size_ctu=1000)
    assert (chunks.decisions, chunks.events) == ([], [])


def test_v1_spans_a_turn_from_boundary_to_boundary() -> None:
    made = trace(*TALK)
    done = run(made, "V1")
    bounds = [(one.start_seq, one.end_seq) for one in made.turns if one.plane == "content_plane"]
    assert [(event.start_seq, event.end_seq) for event in done.events] == bounds
    assert done.moments.made_up == 0
    source = run(made, "V1", compat="source")
    assert source.moments.made_up == len(source.events)
    assert log_of(made, "V1", source).meta.timestamp_derivation == TimestampDerivation(
        "trace_t_emitted_ms", "run_start_time_plus_seq", 4, 0, 4
    )


def test_v1_keeps_turns_that_overlap_apart_except_in_the_source() -> None:
    first = turn("a", 0, ["one ", "two"], step=100)
    made = trace(first, turn("b", 50, ["three ", "four"], step=100))
    for compat, expected in (
        ("gatemark", ["a:\none two", "b:\nthree four"]),
        ("source", ["a:\nthree two"]),
    ):
        model = always()
        run(made, "V1", model, compat)
        blocks = [question.prompt.rpartition("New text:\n")[2].strip() for question in model.asked]
        assert blocks[: len(expected)] == expected


def test_a_window_runs_from_the_first_held_flush_to_the_last() -> None:
    def calm_twice(question):
        if question.task != "buffer":
            return FIELDS
        return {
            "rationale": "",
            "stream_state": "SAME_TOPIC_CONTINUING",
            "is_complete": len(model.asked) % 3 == 0,
            "is_relevant": True,
            "is_novel": True,
        }

    model = Says(calm_twice)
    made = trace(turn("bob", 0, words(65) + words(65) + words(65) + words(65), step=1))
    done = run(made, "V0", model)
    assert [decision.decision for decision in done.decisions] == [
        "buffer",
        "buffer",
        "summarize",
        "buffer",
    ]
    assert [(d.start_seq, d.end_seq) for d in done.decisions] == [
        (1, 65),
        (1, 130),
        (1, 195),
        (196, 260),
    ]
    (event,) = done.events
    assert (event.start_seq, event.end_seq) == (1, 195)


def test_a_piece_older_than_those_before_widens_the_window_except_in_the_source() -> None:
    calm = Says(
        lambda _: {
            "rationale": "",
            "stream_state": "SAME_TOPIC_CONTINUING",
            "is_complete": False,
            "is_relevant": False,
            "is_novel": False,
        }
    )
    made = trace(
        turn("amy", 0, ["old"]), turn("bob", 100, words(65), step=1), turn("amy", 5000, ["new"])
    )
    windows = {
        compat: [(d.start_seq, d.end_seq) for d in run(made, "V0", calm, compat).decisions]
        for compat in ("gatemark", "source")
    }
    assert windows == {"gatemark": [(4, 68), (1, 68)], "source": [(4, 68), (4, 1)]}


def test_history_is_the_k_summaries_before_the_latest() -> None:
    made = trace(*(turn("bob", 2000 * place, ["word."]) for place in range(6)))
    events = run(made, "V1").events
    names = [event.event_id for event in events]
    assert [event.latest_summary_event_id for event in events] == [None, *names[:5]]
    assert [event.summary_history_event_ids for event in events] == [
        [],
        [],
        names[:1],
        names[:2],
        names[:3],
        names[1:4],
    ]


def test_v3_counts_the_text_and_the_source_counts_each_delta() -> None:
    made = trace(turn("bob", 0, ["ab"] * 40, step=1))
    ends = {
        compat: [d.end_seq for d in run(made, "V3", compat=compat, chunk_size_ctu=5).decisions]
        for compat in ("gatemark", "source")
    }
    assert ends == {"gatemark": [9, 18, 27, 36], "source": [5, 10, 15, 20, 25, 30, 35, 40]}


def test_v3_keeps_one_segment_per_agent_and_looks_at_the_last() -> None:
    model = always()
    made = trace(turn("amy", 0, ["abcd" * 3]), turn("bob", 100, ["efgh" * 3]))
    run(made, "V3", model, chunk_size_ctu=6)
    asked = [question for question in model.asked if question.task == "buffer"]
    assert [segment.agent_id for segment in asked[0].context] == ["amy"]
    assert [segment.agent_id for segment in asked[0].new] == ["bob"]
    assert "fixed_ctu" in asked[0].prompt
    summaries = [question for question in model.asked if question.task == "summary"]
    assert [segment.agent_id for segment in summaries[0].new] == ["amy", "bob"]


def test_v4_does_not_look_at_novelty() -> None:
    done = run(trace(*TALK), "V4")
    assert {decision.filter_results.novelty_passed for decision in done.decisions} == {None}


def test_a_model_that_fails_mid_case_is_on_record_and_the_case_goes_on() -> None:
    def flaky(question):
        if len(model.asked) % 2:
            raise ModelError("unreachable: gone")
        return always().ask(question).text

    model = Says(flaky)
    done = run(trace(*TALK), "V2", model)
    assert [event.failure_mode for event in done.events] == [
        "unexpected_error",
        None,
        "unexpected_error",
        None,
    ]
    assert done.events[1].latest_summary_event_id == done.events[0].event_id
    assert done.model_failures == 2
    decisions = run(trace(*TALK), "V0", Says(lambda _: "?")).decisions
    assert {d.decision for d in decisions} == {"buffer"}
    assert all(
        d.filter_results is UNSET and "analysis_invalid" in d.failure_mode for d in decisions
    )


def test_a_recording_gives_the_same_log_and_misses_nothing_in_silence() -> None:
    made = trace(*TALK)
    recorder = RecordingModel(always())
    first = log_of(made, "V0", run(made, "V0", recorder))
    replayed = RecordedModel(list(recorder.lines.values()), "sha256:0")
    assert log_of(made, "V0", run(made, "V0", replayed)) == first
    with pytest.raises(MissingReplyError, match="nothing was recorded for the summary question"):
        run(made, "V1", replayed)


def test_a_recorded_failure_is_a_failure_again() -> None:
    def fails(_):
        raise ModelError("gone")

    recorder = RecordingModel(Says(fails))
    made = trace(*TALK)
    first = run(made, "V2", recorder).events
    again = run(made, "V2", RecordedModel(list(recorder.lines.values()), "sha256:0")).events
    assert [event.schema_error for event in again] == [event.schema_error for event in first]


def test_prompts_are_kept_only_when_asked_for() -> None:
    made = trace(*TALK)
    assert run(made, "V1").events[0].summarizer_input_text is UNSET
    kept = run(made, "V1", keep_inputs=True).events[0]
    assert hash_text(kept.summarizer_input_text) == kept.summarizer_input_hash


def test_run_meta_tells_where_everything_comes_from() -> None:
    made = trace(*TALK)
    log = log_of(made, "V0", run(made, "V0"), "source")
    meta = log.meta
    assert meta.created_at == "2023-11-14T22:13:29.910Z"
    assert meta.compat == "source"
    assert meta.backend["summarizer"] == {"kind": "test"}
    assert (meta.trace_file_hash, meta.trace_dataset_hash) == (FILE, SET)
    assert meta.tokengate_config_hash.startswith("sha256:67d6303e")
    assert add_latencies(log) == 7 * (len(log.decisions) + len(log.events))
