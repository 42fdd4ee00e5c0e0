from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gatemark.evidence.record_schemas import schemas
from gatemark.plugins.runlog.records.metrics import BudgetCoverage, PerCaseMetrics
from gatemark.plugins.runlog.records.metrics_file_rules import MetricsRules
from gatemark.plugins.runlog.records.metrics_rules import NUMBERS


def good_rows() -> list[PerCaseMetrics]:
    (form,) = (form for form in schemas().get("exaid.metrics").forms if form.name == "per_case")
    return [msgspec.convert(example, PerCaseMetrics) for example in form.good]


def test_rows_whose_numbers_agree_are_not_remarked_upon() -> None:
    assert [list(NUMBERS.find_problems(row)) for row in good_rows()] == [[], []]


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"m10_schema_failure_count": 4}, "m10_schema_failure_count"),
        ({"m10_schema_failure_count": 1}, "m10_schema_failure_rate"),
        ({"m10_compliance_rate": 0.5}, "m10_compliance_rate"),
        ({"faithfulness_valid_event_count": 2}, "faithfulness_valid_event_count"),
        ({"m6a_mean": None}, "m6a_mean"),
        ({"m6b_mean": None}, "m6b_mean"),
        ({"m3_jaccards": [0.55]}, "m3_jaccards"),
        ({"m3_jaccards": [0.1, 0.1]}, "m3_redundancy_jaccard_mean"),
        ({"m8_summary_latencies_ms": [1.0]}, "m8_summary_latency_ms_mean"),
        ({"m8_buffer_decision_latencies_ms": []}, "m8_buffer_decision_latency_ms_mean"),
        ({"m9_total_llm_ctu": 1}, "m9_total_llm_ctu"),
        (
            {"m7b_coverage_by_budget": BudgetCoverage(0.3, 0.2, 0.25, 0.25)},
            "m7b_coverage_by_budget",
        ),
        ({"m7b_coverage_by_budget": BudgetCoverage(0.1, 0.2, 0.2, 0.3)}, "m7b_coverage_by_budget"),
        ({"m4_trace_cui_count": 0}, "m4_trace_coverage"),
        ({"flush_count": 5, "flush_reason_counts": {"max_words": 4}}, "flush_reason_counts"),
    ],
)
def test_a_row_that_contradicts_itself_is_told_where(changes: dict[str, Any], path: str) -> None:
    row = msgspec.structs.replace(good_rows()[0], **changes)
    assert [problem.path for problem in NUMBERS.find_problems(row)] == [f"$.{path}"]


def test_concepts_that_nobody_named_cannot_be_unsupported() -> None:
    changes: dict[str, Any] = {"m5_unsupported_global_rate": 0.5}
    row = msgspec.structs.replace(good_rows()[1], **changes)
    assert [problem.path for problem in NUMBERS.find_problems(row)] == [
        "$.m5_unsupported_global_rate"
    ]


@pytest.mark.parametrize(("strict", "grade"), [(False, "warning"), (True, "error")])
def test_a_contradiction_warns_a_reader_and_stops_a_verdict(strict: bool, grade: str) -> None:
    row = msgspec.structs.replace(good_rows()[0], m10_compliance_rate=0.5)
    (remark,) = MetricsRules(strict=strict).see([1], [row])
    assert (remark.grade, remark.rule) == (grade, "numbers_agree")
