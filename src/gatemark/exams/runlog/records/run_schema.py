"""``exaid.run``: what one variant did with one case's trace, record by record."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct

from gatemark.core.record import BadExample, BadFile, Dialect, Form, Problem, RecordSchema
from gatemark.exams.runlog.records.names import text_hash
from gatemark.exams.runlog.records.older_run import (
    OlderRunRules,
    RunMeta13,
    SingleRun,
    SingleRunRules,
    SummaryEvent13,
    TokengateFlush13,
    is_before_1_5,
    is_single_record,
    single_run_problems,
)
from gatemark.exams.runlog.records.run import (
    BufferDecision,
    RunMeta,
    SummaryEvent,
    TokengateFlush,
    VersionedRecord,
)
from gatemark.exams.runlog.records.run_rules import (
    RunRules,
    decision_problems,
    decisions_hold,
    flush_problems,
    flushes_hold,
    meta_problems,
    older_meta_problems,
    summaries_hold,
    summary_problems,
)

CASE: Final = "case-synth-000"
HASH: Final = text_hash("")
USAGE: Final = {
    "prompt_ctu": 120,
    "completion_ctu": 45,
    "provider_prompt_tokens": None,
    "provider_completion_tokens": None,
    "model_id": "gatemark-rules-1",
}
STOPLISTS: Final[dict[str, object]] = {
    "stop_entities_hash": HASH,
    "stop_cuis_hash": HASH,
    "stoplists_generated_at": "2023-11-14T22:00:00Z",
    "stoplists_generated_by_commit": None,
}
TIMESTAMPS: Final[dict[str, object]] = {
    "method": "trace_t_emitted_ms",
    "fallback_method": "run_start_time_plus_seq",
    "missing_t_emitted_ms_count": 0,
    "derived_from_t_emitted": 7,
    "derived_from_fallback": 0,
}
META: Final[dict[str, object]] = {
    "record_type": "run_meta",
    "schema_name": "exaid.run",
    "schema_version": "1.5.0",
    "created_at": "2023-11-14T22:14:02.000Z",
    "case_id": CASE,
    "variant_id": "V0",
    "mas_run_id": "mas_0a1b2c3d_synthetic1_0ad5f2b4_d22060bf",
    "eval_run_id": "eval-c173b1f8-00000000",
    "history_k": 3,
    "trigger_policy": "full_exaid",
    "trace_file_hash": HASH,
    "trace_dataset_hash": HASH,
    "tokengate_config_hash": HASH,
    "concept_extractor": {
        "spacy_version": "none",
        "scispacy_version": "none",
        "scispacy_model": "none",
        "linker_name": "lexicon",
        "linker_kb_version": None,
        "linker_resolve_abbreviations": False,
        "cui_score_threshold": 0.7,
        "max_k": 10,
        "min_entity_len": 3,
        "concept_representation": "cui",
        "cui_normalization": "uppercase",
    },
    "stoplists_provenance": STOPLISTS,
    "timestamp_derivation": TIMESTAMPS,
    "determinism": {"gzip_mtime": 0, "json_sort_keys": True, "json_separators": [",", ":"]},
    "compat": "gatemark",
    "backend": {"kind": "rules", "version": 1},
}
FLUSH: Final[dict[str, object]] = {
    "record_type": "tokengate_flush",
    "flush_index": 0,
    "case_id": CASE,
    "variant_id": "V0",
    "timestamp": "2023-11-14T22:13:24.250Z",
    "start_seq": 1,
    "end_seq": 64,
    "accumulated_ctu": 97,
    "trigger_reason": "boundary_cue",
    "text_hash": HASH,
}
DECISION: Final[dict[str, object]] = {
    "record_type": "buffer_decision",
    "decision_index": 0,
    "decision_id": f"{CASE}-V0-bd-000",
    "case_id": CASE,
    "variant_id": "V0",
    "timestamp": "2023-11-14T22:13:24.250Z",
    "start_seq": 1,
    "end_seq": 64,
    "input_ctu": 101,
    "decision": "summarize",
    "filter_results": {
        "completeness_passed": True,
        "value_passed": True,
        "novelty_passed": None,
    },
    "llm_usage": USAGE,
    "latency_ms": 57,
}
EVENT: Final[dict[str, object]] = {
    "record_type": "summary_event",
    "event_index": 0,
    "event_id": f"{CASE}-V0-se-000",
    "case_id": CASE,
    "variant_id": "V0",
    "timestamp": "2023-11-14T22:13:24.250Z",
    "start_seq": 1,
    "end_seq": 64,
    "schema_ok": True,
    "schema_error": None,
    "summary_semantics_text": "Fever for three days. Cultures sent. Not certain yet. Wait. None.",
    "summary_ctu": 17,
    "summary_content": {
        "status_action": "Fever for three days.",
        "key_findings": "Cultures sent.",
        "differential_rationale": "Not certain yet.",
        "uncertainty_confidence": "Wait.",
        "recommendation_next_step": "None.",
        "agent_contributions": "doctor0",
    },
    "trigger_type": "buffer_agent",
    "summary_history_event_ids": [],
    "latest_summary_event_id": None,
    "summarizer_input_hash": HASH,
    "new_buffer_text_hash": HASH,
    "limits_ok": True,
    "failure_mode": None,
    "llm_usage": USAGE,
    "latency_ms": 92,
}


def example_event(index: int, **changes: object) -> dict[str, object]:
    """Return the first summary event under another number, with changes."""
    return EVENT | {"event_index": index, "event_id": f"{CASE}-V0-se-{index:03d}"} | changes


SECOND: Final = example_event(1, latest_summary_event_id=EVENT["event_id"])
THIRD: Final = example_event(
    2,
    latest_summary_event_id=SECOND["event_id"],
    summary_history_event_ids=[EVENT["event_id"]],
)


def _without(record: dict[str, object], *keys: str) -> dict[str, object]:
    return {name: value for name, value in record.items() if name not in keys}


_FILE: Final = (
    META,
    FLUSH,
    DECISION,
    *(
        DECISION | {"decision_index": index, "decision_id": f"{CASE}-V0-bd-{index:03d}"}
        for index in (1, 2)
    ),
    EVENT,
    SECOND,
    THIRD,
)
_EMPTY: Final = META | {
    "timestamp_derivation": _without(TIMESTAMPS, "derived_from_t_emitted", "derived_from_fallback")
}


_OWN_VARIANT: Final = tuple(
    json.loads(json.dumps(record).replace("V0", "terse").replace(CASE, "ticket_7"))
    for record in _FILE
)
"""The same log under another name of the variant and of the case."""


def _form(
    kind: type[Struct],
    rule: Callable[[VersionedRecord], Sequence[Problem]],
    good: tuple[dict[str, object], ...],
    bad: tuple[BadExample, ...],
    proof: Callable[[Sequence[VersionedRecord]], bool] | None = None,
) -> Form:
    return Form(
        name=str(kind.__struct_config__.tag),
        type=kind,
        marks=frozenset({"record_type"}),
        identity="case_id",
        good=good,
        bad=bad,
        rules=(rule,),
        proof=proof,
    )


_META_BAD: Final = (
    BadExample("a suffix", META | {"case_id": f"{CASE}.trace"}, "$.case_id"),
    BadExample("no name of a variant", META | {"variant_id": "V 5"}, "$.variant_id"),
    BadExample("no history", META | {"history_k": 0}, "$.history_k"),
    BadExample("another schema", META | {"schema_name": "exaid.trace"}, "$.schema_name"),
    BadExample("half a version", META | {"schema_version": "1.5"}, "$.schema_version"),
    BadExample("a version to come", META | {"schema_version": "1.6.0"}, "$.schema_version"),
    BadExample("a policy nobody has", META | {"trigger_policy": "always"}, "$.trigger_policy"),
    BadExample("a bare hash", META | {"trace_file_hash": "0" * 64}, "$.trace_file_hash"),
    BadExample("no data set", _without(META, "trace_dataset_hash"), "$"),
    BadExample(
        "unsorted keys",
        META | {"determinism": {"json_sort_keys": False}},
        "$.determinism.json_sort_keys",
    ),
    BadExample(
        "stoplists without a time",
        META | {"stoplists_provenance": _without(STOPLISTS, "stoplists_generated_at")},
        "$.stoplists_provenance",
    ),
    BadExample(
        "times from a clock",
        META | {"timestamp_derivation": TIMESTAMPS | {"method": "wall_clock"}},
        "$.timestamp_derivation.method",
    ),
)
_EVAL_BAD: Final = BadExample(
    "a variant in the run's name",
    META | {"eval_run_id": "eval-V0-b2c3d4e5-8d45cbb1"},
    "$.eval_run_id",
)
_FLUSH_BAD: Final = (
    BadExample("a negative index", FLUSH | {"flush_index": -1}, "$.flush_index"),
    BadExample("a reason nobody knows", FLUSH | {"trigger_reason": "full"}, "$.trigger_reason"),
    BadExample("a window turned round", FLUSH | {"start_seq": 65}, "$.end_seq"),
    BadExample(
        "a time without an offset", FLUSH | {"timestamp": "2023-11-14T22:13:24"}, "$.timestamp"
    ),
    BadExample("a suffix", FLUSH | {"case_id": f"{CASE}.trace"}, "$.case_id"),
    BadExample("provenance again", FLUSH | {"trace_file_hash": HASH}, "$.trace_file_hash"),
    BadExample("no size", _without(FLUSH, "accumulated_ctu"), "$"),
    BadExample("a size below zero", FLUSH | {"accumulated_ctu": -1}, "$.accumulated_ctu"),
)
_FLUSH_FORM: Final = _form(
    TokengateFlush,
    flush_problems,
    (FLUSH, _without(FLUSH, "trigger_reason", "text_hash"), FLUSH | {"note": "seen"}),
    _FLUSH_BAD,
    flushes_hold,
)
_DECISION_FORM: Final = _form(
    BufferDecision,
    decision_problems,
    (DECISION, _without(DECISION, "filter_results", "latency_ms", "start_seq")),
    (
        BadExample("an id of another index", DECISION | {"decision_index": 1}, "$.decision_id"),
        BadExample("two digits", DECISION | {"decision_id": f"{CASE}-V0-bd-00"}, "$.decision_id"),
        BadExample("a decision nobody takes", DECISION | {"decision": "wait"}, "$.decision"),
        BadExample(
            "null for a filter",
            DECISION | {"filter_results": {"completeness_passed": None}},
            "$.filter_results.completeness_passed",
        ),
        BadExample("a size below zero", DECISION | {"input_ctu": -1}, "$.input_ctu"),
        BadExample("time below zero", DECISION | {"latency_ms": -1}, "$.latency_ms"),
        BadExample(
            "stoplists again", DECISION | {"stoplists_provenance": {}}, "$.stoplists_provenance"
        ),
        BadExample("no usage", _without(DECISION, "llm_usage"), "$"),
    ),
    decisions_hold,
)
_EVENT_BAD: Final = (
    BadExample("an id of another case", EVENT | {"event_id": "case-9-V0-se-000"}, "$.event_id"),
    BadExample("an id of another index", EVENT | {"event_index": 3}, "$.event_id"),
    BadExample("a size below zero", EVENT | {"summary_ctu": -5}, "$.summary_ctu"),
    BadExample("a size beyond numbers", EVENT | {"summary_ctu": 2**53}, "$.summary_ctu"),
    BadExample(
        "usage below zero", EVENT | {"llm_usage": {"prompt_ctu": -1}}, "$.llm_usage.prompt_ctu"
    ),
    BadExample("a window before the trace", EVENT | {"start_seq": -1}, "$.start_seq"),
    BadExample(
        "a summary that is null",
        EVENT | {"summary_semantics_text": None},
        "$.summary_semantics_text",
    ),
    BadExample(
        "history that is one text",
        EVENT | {"summary_history_event_ids": "x"},
        "$.summary_history_event_ids",
    ),
    BadExample(
        "history that names nothing",
        EVENT | {"summary_history_event_ids": ["x"]},
        "$.summary_history_event_ids[0]",
    ),
    BadExample("a trigger nobody has", EVENT | {"trigger_type": "timer"}, "$.trigger_type"),
    BadExample(
        "a hash cut short", EVENT | {"summarizer_input_hash": "sha256:"}, "$.summarizer_input_hash"
    ),
    BadExample("a time in words", EVENT | {"timestamp": "soon"}, "$.timestamp"),
    BadExample("the extractor again", EVENT | {"concept_extractor": {}}, "$.concept_extractor"),
)
_EVENT_15_BAD: Final = tuple(
    BadExample(f"no {key}", _without(EVENT, key), "$")
    for key in (
        "trigger_type",
        "summary_history_event_ids",
        "summarizer_input_hash",
        "limits_ok",
        "failure_mode",
    )
)

_SINCE_1_5: Final = ("trace_file_hash", "trace_dataset_hash", "tokengate_config_hash")
_META_13: Final = _without(META, *_SINCE_1_5, "compat", "backend") | {
    "schema_version": "1.3.0",
    "eval_run_id": "eval-20251221",
}
_EVENT_13: Final = _without(
    EVENT,
    "trigger_type",
    "summary_history_event_ids",
    "summarizer_input_hash",
    "limits_ok",
    "failure_mode",
)
_SINGLE: Final[dict[str, object]] = {
    "schema_name": "exaid.run",
    "schema_version": "1.2.0",
    "case_id": CASE,
    "variant_id": "V2",
    "history_k": 3,
    "tokengate_flushes": [_without(FLUSH, "record_type", "case_id", "variant_id", "timestamp")],
    "summary_events": [
        {"start_seq": 1, "end_seq": 64, "summary_semantics_text": "Fever.", "schema_ok": True}
    ],
}

_FIRST_SINGLE: Final[dict[str, object]] = {
    "schema_name": "exaid.run",
    "schema_version": "1.0.0",
    "run_id": "run-v1-synth-000",
    "case_id": CASE,
    "variant_id": "V1",
    "timestamp": "2023-11-14T22:14:02.000000+00:00",
    "summaries": [{"summary_idx": 0, "content": EVENT["summary_content"], "token_count": 50}],
    "run_meta": {"summarizer_config": {"history_k": 3}},
}

_BEFORE_1_5: Final = RecordSchema(
    name="exaid.run",
    summary="A run log of 1.3.0 or 1.4.x.",
    tag="record_type",
    across=OlderRunRules,
    forms=(
        _form(
            RunMeta13,
            older_meta_problems,
            (_META_13, _META_13 | {"trace_file_hash": HASH}),
            _META_BAD[:4],
        ),
        _form(
            TokengateFlush13,
            flush_problems,
            (FLUSH, FLUSH | {"trigger_reason": "threshold"}, FLUSH | {"trigger_reason": "timeout"}),
            _FLUSH_BAD,
            flushes_hold,
        ),
        _DECISION_FORM,
        _form(SummaryEvent13, summary_problems, (_EVENT_13, EVENT), _EVENT_BAD, summaries_hold),
    ),
    good_files=(
        (_META_13, *_FILE[1:]),
        (_META_13 | {"mas_run_id": "mas-unknown"}, *_FILE[1:]),
    ),
    bad_files=(BadFile("two metas", (_META_13, _META_13, _EVENT_13), 2, "one_run_meta"),),
)
_BEFORE_1_3: Final = RecordSchema(
    name="exaid.run",
    summary="A run log of 1.2.x or before: a whole run in one object.",
    across=SingleRunRules,
    forms=(
        Form(
            name="single_record",
            type=SingleRun,
            marks=frozenset({"schema_version", "case_id"}),
            identity="case_id",
            good=(_SINGLE, _FIRST_SINGLE),
            bad=(
                BadExample("no case", _without(_SINGLE, "case_id"), "$"),
                BadExample("no name of a variant", _SINGLE | {"variant_id": "7"}, "$.variant_id"),
                BadExample("a suffix", _SINGLE | {"case_id": "case-1.trace"}, "$.case_id"),
                BadExample(
                    "events that are none", _SINGLE | {"summary_events": 3}, "$.summary_events"
                ),
                BadExample(
                    "a hash cut short",
                    _SINGLE | {"tokengate_flushes": [FLUSH | {"text_hash": "sha256:"}]},
                    "$.tokengate_flushes[0].text_hash",
                ),
            ),
            rules=(single_run_problems,),
        ),
    ),
    good_files=((_SINGLE,), (_FIRST_SINGLE,)),
    bad_files=(BadFile("two runs", (_SINGLE, _SINGLE), 2, "one_run"),),
)

SCHEMA: Final = RecordSchema(
    name="exaid.run",
    summary="What one variant did with one case's trace: flushes, decisions, summaries.",
    tag="record_type",
    across=RunRules,
    forms=(
        _form(
            RunMeta,
            meta_problems,
            (META, _without(META, "trigger_policy")),
            (*_META_BAD, _EVAL_BAD),
        ),
        _FLUSH_FORM,
        _DECISION_FORM,
        _form(
            SummaryEvent,
            summary_problems,
            (EVENT, THIRD),
            (*_EVENT_BAD, *_EVENT_15_BAD),
            summaries_hold,
        ),
    ),
    good_files=(_FILE, (_EMPTY,), _OWN_VARIANT),
    bad_files=(
        BadFile("summaries cut off", _FILE[:-1], 1, "complete"),
        BadFile("no policy", (_without(_OWN_VARIANT[0], "trigger_policy"),), 1, "variant_policy"),
        BadFile("the policy of V1", (META | {"trigger_policy": "turn_end"},), 1, "variant_policy"),
        BadFile(
            "a flush at the end of a turn",
            (META, FLUSH | {"trigger_reason": "turn_end"}, *_FILE[2:]),
            2,
            "variant_records",
        ),
        BadFile("another size", (*_FILE[:-1], THIRD | {"summary_ctu": 16}), 8, "summary_size"),
        BadFile(
            "another text",
            (*_FILE[:-1], THIRD | {"summary_semantics_text": "Well.", "summary_ctu": 2}),
            8,
            "semantics_text",
        ),
        BadFile(
            "a turn under V0",
            (*_FILE[:-1], THIRD | {"trigger_type": "turn_end"}),
            8,
            "variant_records",
        ),
        BadFile("two metas", (META, META, FLUSH), 2, "one_run_meta"),
        BadFile("no meta", (FLUSH, DECISION), 1, "one_run_meta"),
        BadFile("a meta that comes late", (FLUSH, META), 1, "run_meta_first"),
        BadFile("a flush after a decision", (META, DECISION, FLUSH), 3, "record_order"),
        BadFile("a decision after a summary", (META, EVENT, DECISION), 3, "record_order"),
        BadFile("an index twice", (META, FLUSH, FLUSH), 3, "index_order"),
        BadFile("an index left out", (META, EVENT, example_event(2)), 3, "index_order"),
        BadFile("an index from 1", (META, FLUSH | {"flush_index": 1}), 2, "index_order"),
        BadFile("another case", (META, FLUSH | {"case_id": "case-2"}), 2, "same_run"),
        BadFile("another variant", (META, FLUSH | {"variant_id": "V2"}), 2, "same_run"),
        BadFile(
            "a latest event that is not there",
            (META, example_event(0, latest_summary_event_id=f"{CASE}-V0-se-004")),
            2,
            "latest_exists",
        ),
        BadFile(
            "history from the future",
            (META, example_event(0, summary_history_event_ids=[SECOND["event_id"]]), SECOND),
            2,
            "history_exists",
        ),
        BadFile(
            "history with the latest",
            (META, EVENT, SECOND | {"summary_history_event_ids": [EVENT["event_id"]]}),
            3,
            "history_without_latest",
        ),
        BadFile(
            "history that is too long",
            (
                META | {"history_k": 1},
                EVENT,
                SECOND,
                example_event(2, summary_history_event_ids=[EVENT["event_id"], SECOND["event_id"]]),
            ),
            4,
            "history_length",
        ),
    ),
    older=(
        Dialect(accepts=is_before_1_5, schema=_BEFORE_1_5),
        Dialect(accepts=is_single_record, schema=_BEFORE_1_3),
    ),
)
