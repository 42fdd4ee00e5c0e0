"""``exaid.metrics``: the schema of run-log metrics, with examples."""

from __future__ import annotations

from typing import Final

from gatemark.core.record import BadFile, RecordSchema
from gatemark.exams.runlog.records.examples import Example, drop_keys, make_bad, make_tagged_form
from gatemark.exams.runlog.records.metrics import AggregateMetrics, PerCaseMetrics
from gatemark.exams.runlog.records.metrics_rules import (
    MetricsRules,
    check_aggregate,
    check_per_case,
)

_RATES: Final = {"tau_0.85": 0.5, "tau_0.90": 0.5, "tau_0.95": 0.0}
_NO_RATES: Final = dict.fromkeys(_RATES)
_BUDGETS: Final = {"ctu_250": 0.1, "ctu_500": 0.2, "ctu_1000": 0.25, "ctu_2000": 0.25}
_PER_CASE: Final[Example] = {
    "schema_name": "exaid.metrics",
    "schema_version": "2.2.0",
    "metrics_type": "per_case",
    "case_id": "case-synth-000",
    "variant_id": "V0",
    "m1_update_count": 3,
    "m2_output_ctu": 301,
    "m3_redundancy_jaccard_mean": 0.55,
    "m3_redundancy_threshold_rates": _RATES,
    "m4_trace_coverage": 0.25,
    "m4_trace_cui_count": 16,
    "m4_summary_cui_count": 5,
    "m5_unsupported_global_rate": 0.2,
    "m5_unsupported_per_summary_mean": 0.1,
    "m6a_mean": 0.3,
    "m6b_mean": 0.1,
    "faithfulness_valid_event_count": 3,
    "excluded_from_faithfulness_count": 0,
    "m7b_coverage_by_budget": _BUDGETS,
    "m8_summary_latency_ms_mean": 92.5,
    "m8_buffer_decision_latency_ms_mean": 57,
    "m9_prompt_ctu_total": 4100,
    "m9_completion_ctu_total": 520,
    "m9_total_llm_ctu": 4620,
    "m9_buffer_decision_count": 11,
    "m10_schema_failure_count": 0,
    "m10_schema_failure_rate": 0.0,
    "m10_compliance_rate": 1.0,
    "outlier_flags": [],
    "outlier_latency_spike": False,
    "outlier_excessive_flushes": False,
    "outlier_low_coverage": False,
}
_EMPTY: Final = _PER_CASE | {
    "case_id": "case-synth-001",
    "m1_update_count": 0,
    "m2_output_ctu": 0,
    "m3_redundancy_jaccard_mean": None,
    "m3_redundancy_threshold_rates": _NO_RATES,
    "m4_trace_coverage": 0.0,
    "m4_summary_cui_count": 0,
    "m5_unsupported_global_rate": 0.0,
    "m5_unsupported_per_summary_mean": None,
    "m6a_mean": None,
    "m6b_mean": None,
    "faithfulness_valid_event_count": 0,
    "m7b_coverage_by_budget": dict.fromkeys(_BUDGETS, 0.0),
    "m8_summary_latency_ms_mean": None,
    "m8_summary_latency_distribution_ms": None,
    "flush_reason_counts": {"boundary_cue": 4},
}
_NOTHING: Final = {"mean": None, "ci_low": None, "ci_high": None}
_VARIANT: Final[Example] = {
    "n_cases": 2,
    "m1_update_count_mean": 1.5,
    "m2_output_ctu_mean": 301.0,
    "m3_redundancy": {"jaccard_mean": 0.55, "threshold_rates": _RATES},
    "m4_trace_coverage": {"mean": 0.25, "ci_low": 0.25, "ci_high": 0.25},
    "m5_unsupported": {"global_rate_mean": 0.2, "per_summary_mean": None},
    "m6a": {"mean": 0.3, "ci_low": 0.3, "ci_high": 0.3},
    "m6b": _NOTHING,
    "m7b_coverage_by_budget_mean": _BUDGETS,
    "m8_latency_ms_mean": {"summary": 92.5, "buffer_decision": None},
    "m9_usage_ctu_mean": {
        "prompt": 4100.0,
        "completion": 520.0,
        "total": 4620.0,
        "buffer_decision_count": 11.0,
    },
    "m10_compliance": {
        "schema_failure_rate_mean": 0.0,
        "compliance_rate_mean": 1.0,
        "schema_failure_count": 0,
        "summary_event_count": 3,
    },
    "faithfulness_valid_event_count": 3,
    "excluded_from_faithfulness_count": 0,
    "schema_failures": 0,
}
_AGGREGATE: Final[Example] = {
    "schema_name": "exaid.metrics",
    "schema_version": "2.2.0",
    "metrics_type": "aggregate",
    "computed_at": "2023-11-14T22:30:00.000Z",
    "bootstrap_samples": 10000,
    "seed": 42,
    "variants": {"V0": _VARIANT},
}

SCHEMA: Final = RecordSchema(
    name="exaid.metrics",
    summary="The metrics M1 to M10 of each case under each variant, and the report over them.",
    tag="metrics_type",
    across=MetricsRules,
    forms=(
        make_tagged_form(
            PerCaseMetrics,
            check_per_case,
            (_PER_CASE, _EMPTY),
            (
                make_bad(_PER_CASE, "an empty case", "case_id", ""),
                make_bad(_PER_CASE, "no name of a variant", "variant_id", "7"),
                make_bad(_PER_CASE, "a share above 1", "m4_trace_coverage", 1.2),
                make_bad(_PER_CASE, "coverage of null", "m4_trace_coverage", None),
                make_bad(_PER_CASE, "a count below 0", "m1_update_count", -1),
                make_bad(
                    _PER_CASE,
                    "a threshold left out",
                    "m3_redundancy_threshold_rates",
                    {"tau_0.85": 0.1},
                ),
                make_bad(
                    _PER_CASE,
                    "a budget left out",
                    "m7b_coverage_by_budget",
                    drop_keys(_BUDGETS, "ctu_250"),
                ),
                make_bad(_PER_CASE, "no outlier flags", "outlier_flags"),
                make_bad(_PER_CASE, "another schema", "schema_name", "exaid.run"),
            ),
        ),
        make_tagged_form(
            AggregateMetrics,
            check_aggregate,
            (_AGGREGATE,),
            (
                make_bad(_AGGREGATE, "no time", "computed_at"),
                make_bad(_AGGREGATE, "a time in words", "computed_at", "now"),
                make_bad(_AGGREGATE, "no name of a variant", "variants", {"7": _VARIANT}),
                make_bad(
                    _AGGREGATE,
                    "coverage without an interval",
                    "variants",
                    {"V0": _VARIANT | {"m4_trace_coverage": _NOTHING}},
                    "$.variants.V0.m4_trace_coverage.mean",
                ),
                make_bad(
                    _AGGREGATE,
                    "no cases counted",
                    "variants",
                    {"V0": drop_keys(_VARIANT, "n_cases")},
                    "$.variants.V0",
                ),
            ),
            identity="schema_name",
        ),
    ),
    good_files=((_PER_CASE, _EMPTY), (_AGGREGATE,)),
    bad_files=(BadFile("a case twice", (_PER_CASE, _EMPTY, _PER_CASE), 3, "once_per_variant"),),
)
