"""Records of a small run log, each legal: what schemas show and tests begin with."""

from __future__ import annotations

from typing import Any, Final

from gatemark.exams.runlog.records.names import text_hash

CASE: Final = "case-synth-000"
HASH: Final = text_hash("")
USAGE: Final = {
    "prompt_ctu": 120,
    "completion_ctu": 45,
    "provider_prompt_tokens": None,
    "provider_completion_tokens": None,
    "model_id": "gatemark-rules-1",
}
META: Final[dict[str, Any]] = {
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
    "stoplists_provenance": {
        "stop_entities_hash": HASH,
        "stop_cuis_hash": HASH,
        "stoplists_generated_at": "2023-11-14T22:00:00Z",
        "stoplists_generated_by_commit": None,
    },
    "timestamp_derivation": {
        "method": "trace_t_emitted_ms",
        "fallback_method": "run_start_time_plus_seq",
        "missing_t_emitted_ms_count": 0,
        "derived_from_t_emitted": 4,
        "derived_from_fallback": 0,
    },
    "determinism": {"gzip_mtime": 0, "json_sort_keys": True, "json_separators": [",", ":"]},
    "compat": "gatemark",
    "backend": {"kind": "rules", "version": 1},
}
FLUSH: Final[dict[str, Any]] = {
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
DECISION: Final[dict[str, Any]] = {
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
EVENT: Final[dict[str, Any]] = {
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


def example_event(index: int, **changes: Any) -> dict[str, Any]:
    """The first summary event under another number, changed as told."""
    return EVENT | {"event_index": index, "event_id": f"{CASE}-V0-se-{index:03d}"} | changes


SECOND: Final = example_event(1, latest_summary_event_id=EVENT["event_id"])
THIRD: Final = example_event(
    2,
    latest_summary_event_id=SECOND["event_id"],
    summary_history_event_ids=[EVENT["event_id"]],
)
