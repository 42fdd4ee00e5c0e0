"""``exaid.run``: what one variant did with one case's trace, record by record."""

from __future__ import annotations

import json
from typing import Final

from gatemark.core.record import BadFile, Dialect, Form, RecordSchema
from gatemark.exams.runlog.records.examples import (
    Example,
    change_record,
    drop_keys,
    make_bad,
    make_tagged_form,
)
from gatemark.exams.runlog.records.names import hash_text
from gatemark.exams.runlog.records.older_run import (
    SINCE_1_5,
    OlderRunRules,
    RunMeta13,
    SingleRun,
    SingleRunRules,
    SummaryEvent13,
    TokengateFlush13,
    check_older_meta,
    check_single_run,
    is_before_1_5,
    is_single_record,
)
from gatemark.exams.runlog.records.run import BufferDecision, RunMeta, SummaryEvent, TokengateFlush
from gatemark.exams.runlog.records.run_rules import (
    RunRules,
    are_decisions_valid,
    are_flushes_valid,
    are_summaries_valid,
    check_decision,
    check_flush,
    check_run_meta,
    check_summary,
)

CASE: Final = "case-synth-000"
HASH: Final = hash_text("")
USAGE: Final = {
    "prompt_ctu": 120,
    "completion_ctu": 45,
    "provider_prompt_tokens": None,
    "provider_completion_tokens": None,
    "model_id": "gatemark-rules-1",
}
STOPLISTS: Final[Example] = {
    "stop_entities_hash": HASH,
    "stop_cuis_hash": HASH,
    "stoplists_generated_at": "2023-11-14T22:00:00Z",
    "stoplists_generated_by_commit": None,
}
TIMESTAMPS: Final[Example] = {
    "method": "trace_t_emitted_ms",
    "fallback_method": "run_start_time_plus_seq",
    "missing_t_emitted_ms_count": 0,
    "derived_from_t_emitted": 7,
    "derived_from_fallback": 0,
}
META: Final[Example] = {
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
FLUSH: Final[Example] = {
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
DECISION: Final[Example] = {
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
EVENT: Final[Example] = {
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


def make_example_event(index: int, **changes: object) -> Example:
    """Return the first summary event under another number, with changes."""
    return EVENT | {"event_index": index, "event_id": f"{CASE}-V0-se-{index:03d}"} | changes


SECOND: Final = make_example_event(1, latest_summary_event_id=EVENT["event_id"])
THIRD: Final = make_example_event(
    2,
    latest_summary_event_id=SECOND["event_id"],
    summary_history_event_ids=[EVENT["event_id"]],
)


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
    "timestamp_derivation": drop_keys(TIMESTAMPS, "derived_from_t_emitted", "derived_from_fallback")
}


_OWN_VARIANT: Final = tuple(
    json.loads(json.dumps(record).replace("V0", "terse").replace(CASE, "ticket_7"))
    for record in _FILE
)
"""The same log under another name of the variant and of the case."""


_META_BAD: Final = (
    make_bad(META, "a suffix", "case_id", f"{CASE}.trace"),
    make_bad(META, "no name of a variant", "variant_id", "V 5"),
    make_bad(META, "no history", "history_k", 0),
    make_bad(META, "another schema", "schema_name", "exaid.trace"),
    make_bad(META, "half a version", "schema_version", "1.5"),
    make_bad(META, "a version to come", "schema_version", "1.6.0"),
    make_bad(META, "a policy nobody has", "trigger_policy", "always"),
    make_bad(META, "a bare hash", "trace_file_hash", "0" * 64),
    make_bad(META, "no data set", "trace_dataset_hash"),
    make_bad(
        META,
        "unsorted keys",
        "determinism",
        {"json_sort_keys": False},
        "$.determinism.json_sort_keys",
    ),
    make_bad(
        META,
        "stoplists without a time",
        "stoplists_provenance",
        drop_keys(STOPLISTS, "stoplists_generated_at"),
    ),
    make_bad(
        META,
        "times from a clock",
        "timestamp_derivation",
        TIMESTAMPS | {"method": "wall_clock"},
        "$.timestamp_derivation.method",
    ),
)
_EVAL_BAD: Final = make_bad(
    META, "a variant in the run's name", "eval_run_id", "eval-V0-b2c3d4e5-8d45cbb1"
)
_FLUSH_BAD: Final = (
    make_bad(FLUSH, "a negative index", "flush_index", -1),
    make_bad(FLUSH, "a reason nobody knows", "trigger_reason", "full"),
    make_bad(FLUSH, "a window turned round", "start_seq", 65, "$.end_seq"),
    make_bad(FLUSH, "a time without an offset", "timestamp", "2023-11-14T22:13:24"),
    make_bad(FLUSH, "a suffix", "case_id", f"{CASE}.trace"),
    make_bad(FLUSH, "provenance again", "trace_file_hash", HASH),
    make_bad(FLUSH, "no size", "accumulated_ctu"),
    make_bad(FLUSH, "a size below zero", "accumulated_ctu", -1),
)
_FLUSH_FORM: Final = make_tagged_form(
    TokengateFlush,
    check_flush,
    (FLUSH, drop_keys(FLUSH, "trigger_reason", "text_hash"), FLUSH | {"note": "seen"}),
    _FLUSH_BAD,
    proof=are_flushes_valid,
)
_DECISION_FORM: Final = make_tagged_form(
    BufferDecision,
    check_decision,
    (DECISION, drop_keys(DECISION, "filter_results", "latency_ms", "start_seq")),
    (
        make_bad(DECISION, "an id of another index", "decision_index", 1, "$.decision_id"),
        make_bad(DECISION, "two digits", "decision_id", f"{CASE}-V0-bd-00"),
        make_bad(DECISION, "a decision nobody takes", "decision", "wait"),
        make_bad(
            DECISION,
            "null for a filter",
            "filter_results",
            {"completeness_passed": None},
            "$.filter_results.completeness_passed",
        ),
        make_bad(DECISION, "a size below zero", "input_ctu", -1),
        make_bad(DECISION, "time below zero", "latency_ms", -1),
        make_bad(DECISION, "stoplists again", "stoplists_provenance", {}),
        make_bad(DECISION, "no usage", "llm_usage"),
    ),
    proof=are_decisions_valid,
)
_EVENT_BAD: Final = (
    make_bad(EVENT, "an id of another case", "event_id", "case-9-V0-se-000"),
    make_bad(EVENT, "an id of another index", "event_index", 3, "$.event_id"),
    make_bad(EVENT, "a size below zero", "summary_ctu", -5),
    make_bad(EVENT, "a size beyond numbers", "summary_ctu", 2**53),
    make_bad(EVENT, "usage below zero", "llm_usage", {"prompt_ctu": -1}, "$.llm_usage.prompt_ctu"),
    make_bad(EVENT, "a window before the trace", "start_seq", -1),
    make_bad(EVENT, "a summary that is null", "summary_semantics_text", None),
    make_bad(EVENT, "history that is one text", "summary_history_event_ids", "x"),
    make_bad(
        EVENT,
        "history that names nothing",
        "summary_history_event_ids",
        ["x"],
        "$.summary_history_event_ids[0]",
    ),
    make_bad(EVENT, "a trigger nobody has", "trigger_type", "timer"),
    make_bad(EVENT, "a hash cut short", "summarizer_input_hash", "sha256:"),
    make_bad(EVENT, "a time in words", "timestamp", "soon"),
    make_bad(EVENT, "the extractor again", "concept_extractor", {}),
)
_EVENT_15_BAD: Final = tuple(make_bad(EVENT, f"no {key}", key) for key in SINCE_1_5[SummaryEvent])

_META_13: Final = drop_keys(META, *SINCE_1_5[RunMeta], "compat", "backend") | {
    "schema_version": "1.3.0",
    "eval_run_id": "eval-20251221",
}
_EVENT_13: Final = drop_keys(EVENT, *SINCE_1_5[SummaryEvent])
_SINGLE: Final[Example] = {
    "schema_name": "exaid.run",
    "schema_version": "1.2.0",
    "case_id": CASE,
    "variant_id": "V2",
    "history_k": 3,
    "tokengate_flushes": [drop_keys(FLUSH, "record_type", "case_id", "variant_id", "timestamp")],
    "summary_events": [
        {"start_seq": 1, "end_seq": 64, "summary_semantics_text": "Fever.", "schema_ok": True}
    ],
}

_FIRST_SINGLE: Final[Example] = {
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
        make_tagged_form(
            RunMeta13,
            check_older_meta,
            (_META_13, _META_13 | {"trace_file_hash": HASH}),
            _META_BAD[:4],
        ),
        make_tagged_form(
            TokengateFlush13,
            check_flush,
            (FLUSH, FLUSH | {"trigger_reason": "threshold"}, FLUSH | {"trigger_reason": "timeout"}),
            _FLUSH_BAD,
            proof=are_flushes_valid,
        ),
        _DECISION_FORM,
        make_tagged_form(
            SummaryEvent13, check_summary, (_EVENT_13, EVENT), _EVENT_BAD, proof=are_summaries_valid
        ),
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
                make_bad(_SINGLE, "no case", "case_id"),
                make_bad(_SINGLE, "no name of a variant", "variant_id", "7"),
                make_bad(_SINGLE, "a suffix", "case_id", "case-1.trace"),
                make_bad(_SINGLE, "events that are none", "summary_events", 3),
                make_bad(
                    _SINGLE,
                    "a hash cut short",
                    "tokengate_flushes",
                    [FLUSH | {"text_hash": "sha256:"}],
                    "$.tokengate_flushes[0].text_hash",
                ),
            ),
            rules=(check_single_run,),
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
        make_tagged_form(
            RunMeta,
            check_run_meta,
            (META, drop_keys(META, "trigger_policy")),
            (*_META_BAD, _EVAL_BAD),
        ),
        _FLUSH_FORM,
        _DECISION_FORM,
        make_tagged_form(
            SummaryEvent,
            check_summary,
            (EVENT, THIRD),
            (*_EVENT_BAD, *_EVENT_15_BAD),
            proof=are_summaries_valid,
        ),
    ),
    good_files=(_FILE, (_EMPTY,), _OWN_VARIANT),
    bad_files=(
        BadFile("summaries cut off", _FILE[:-1], 1, "complete"),
        BadFile("no policy", (drop_keys(_OWN_VARIANT[0], "trigger_policy"),), 1, "variant_policy"),
        BadFile("the policy of V1", (META | {"trigger_policy": "turn_end"},), 1, "variant_policy"),
        BadFile(
            "a flush at the end of a turn",
            change_record(_FILE, 1, {"trigger_reason": "turn_end"}),
            2,
            "variant_records",
        ),
        BadFile("another size", change_record(_FILE, 7, {"summary_ctu": 16}), 8, "summary_size"),
        BadFile(
            "another text",
            change_record(_FILE, 7, {"summary_semantics_text": "Well.", "summary_ctu": 2}),
            8,
            "semantics_text",
        ),
        BadFile(
            "a turn under V0",
            change_record(_FILE, 7, {"trigger_type": "turn_end"}),
            8,
            "variant_records",
        ),
        BadFile("two metas", (META, META, FLUSH), 2, "one_run_meta"),
        BadFile("no meta", (FLUSH, DECISION), 1, "one_run_meta"),
        BadFile("a meta that comes late", (FLUSH, META), 1, "run_meta_first"),
        BadFile("a flush after a decision", (META, DECISION, FLUSH), 3, "record_order"),
        BadFile("a decision after a summary", (META, EVENT, DECISION), 3, "record_order"),
        BadFile("an index twice", (META, FLUSH, FLUSH), 3, "index_order"),
        BadFile("an index left out", (META, EVENT, make_example_event(2)), 3, "index_order"),
        BadFile("an index from 1", (META, FLUSH | {"flush_index": 1}), 2, "index_order"),
        BadFile("another case", (META, FLUSH | {"case_id": "case-2"}), 2, "same_run"),
        BadFile("another variant", (META, FLUSH | {"variant_id": "V2"}), 2, "same_run"),
        BadFile(
            "a latest event that is not there",
            (META, make_example_event(0, latest_summary_event_id=f"{CASE}-V0-se-004")),
            2,
            "latest_exists",
        ),
        BadFile(
            "history from the future",
            (META, make_example_event(0, summary_history_event_ids=[SECOND["event_id"]]), SECOND),
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
                make_example_event(
                    2, summary_history_event_ids=[EVENT["event_id"], SECOND["event_id"]]
                ),
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
