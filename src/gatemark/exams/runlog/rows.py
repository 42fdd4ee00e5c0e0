"""What the exam keeps of a per-case record, and the catalogue of metrics with their directions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import UNSET

from gatemark.core.measurement import Direction
from gatemark.exams.runlog.records.metrics import BUDGETS, THRESHOLDS

BUDGET_KEYS = {f"ctu_{budget}": budget for budget in BUDGETS}
THRESHOLD_KEYS = {f"tau_{least:.2f}": least for least in THRESHOLDS}


Needs = Literal["nothing", "said", "trace"]


class RunMetric(NamedTuple):
    """One number per case: its name, what it says, which way is better, and its unit.

    ``pooled`` metrics are aggregated over all events of all cases, the others over cases.
    ``needs`` says whose concepts a metric is about: where nobody has any, its 0 says nothing.
    """

    name: str
    label: str
    direction: Direction
    unit: str = "ratio"
    pooled: bool = False
    needs: Needs = "nothing"


METRICS: dict[str, RunMetric] = {
    metric.name: metric
    for metric in (
        RunMetric("m1_update_count", "M1 updates", "neutral", "count"),
        RunMetric("m2_output_ctu", "M2 output", "neutral", "CTU"),
        RunMetric(
            "m3_redundancy_jaccard_mean",
            "M3 redundancy",
            "lower_is_better",
            pooled=True,
            needs="said",
        ),
        RunMetric("m4_trace_coverage", "M4 coverage", "higher_is_better", needs="trace"),
        RunMetric(
            "m5_unsupported_global_rate",
            "M5 unsupported by the trace",
            "lower_is_better",
            needs="said",
        ),
        RunMetric(
            "m5_unsupported_per_summary_mean",
            "M5 unsupported, per summary",
            "lower_is_better",
            needs="said",
        ),
        RunMetric("m6a_mean", "M6a unsupported by the window", "lower_is_better", needs="said"),
        RunMetric(
            "m6b_mean", "M6b unsupported by window or latest", "lower_is_better", needs="said"
        ),
        *(
            RunMetric(
                f"m7b_{name}",
                f"M7b coverage in {budget} CTU",
                "higher_is_better",
                needs="trace",
            )
            for name, budget in BUDGET_KEYS.items()
        ),
        RunMetric(
            "m8_summary_latency_ms_mean",
            "M8 summary latency",
            "lower_is_better",
            "ms",
            pooled=True,
        ),
        RunMetric(
            "m8_buffer_decision_latency_ms_mean",
            "M8 decision latency",
            "lower_is_better",
            "ms",
            pooled=True,
        ),
        RunMetric("m9_prompt_ctu_total", "M9 prompts", "lower_is_better", "CTU"),
        RunMetric("m9_completion_ctu_total", "M9 completions", "lower_is_better", "CTU"),
        RunMetric("m9_total_llm_ctu", "M9 both", "lower_is_better", "CTU"),
        RunMetric("m9_buffer_decision_count", "M9 decisions", "lower_is_better", "count"),
        RunMetric("m10_schema_failure_rate", "M10 failures", "lower_is_better", pooled=True),
        RunMetric("m10_compliance_rate", "M10 compliance", "higher_is_better", pooled=True),
    )
}
SCORES = tuple(
    name
    for name, metric in METRICS.items()
    if metric.unit == "ratio" and metric.direction != "neutral"
)
"""The metrics that lie in [0, 1] and have a better side, so that a score can be made of them."""


class RunRow(msgspec.Struct, frozen=True):
    """One case under one variant. Lists are None when the record does not carry them."""

    case_id: str
    variant_id: str
    values: dict[str, float | None]
    jaccards: tuple[float, ...] | None
    summary_latencies: tuple[float, ...] | None
    decision_latencies: tuple[float, ...] | None
    flush_sizes: tuple[float, ...] | None
    flush_intervals: tuple[float, ...] | None
    flush_count: int
    flush_reasons: dict[str, int]
    events: int
    failures: int
    valid_events: int
    excluded_events: int
    trace_concepts: int
    said_concepts: int
    control_ms: float
    content_ms: float
    duration_ms: float | None
    trace_ctu: float | None
    trace_ctu_per_s: float | None
    summary_ctu_per_s: float | None
    is_stub: bool
    flags: tuple[str, ...]


def row_of(record: Any) -> RunRow:
    """A row from anything that has the attributes of a per-case record."""

    def get(name: str, default: Any = None) -> Any:
        value = getattr(record, name, default)
        return default if value is UNSET or value is None else value

    budgets: Mapping[str, float] = _plain(record.m7b_coverage_by_budget)
    values: dict[str, float | None] = {
        name: budgets.get(name.removeprefix("m7b_")) if name.startswith("m7b_") else get(name)
        for name in METRICS
    }
    return RunRow(
        case_id=record.case_id,
        variant_id=record.variant_id,
        values=values,
        jaccards=_numbers(get("m3_jaccards")),
        summary_latencies=_numbers(get("m8_summary_latencies_ms")),
        decision_latencies=_numbers(get("m8_buffer_decision_latencies_ms")),
        flush_sizes=_numbers(get("flush_accumulated_ctus")),
        flush_intervals=_numbers(get("flush_intervals_ms")),
        flush_count=get("flush_count", 0),
        flush_reasons=dict(_plain(get("flush_reason_counts", {}))),
        events=record.m1_update_count,
        failures=record.m10_schema_failure_count,
        valid_events=record.faithfulness_valid_event_count,
        excluded_events=record.excluded_from_faithfulness_count,
        trace_concepts=record.m4_trace_cui_count,
        said_concepts=record.m4_summary_cui_count,
        control_ms=get("control_plane_latency_ms", 0.0),
        content_ms=get("content_plane_latency_ms", 0.0),
        duration_ms=get("virtual_time_duration_ms"),
        trace_ctu=get("trace_ctu"),
        trace_ctu_per_s=get("trace_ctu_per_s"),
        summary_ctu_per_s=get("summary_ctu_per_s"),
        is_stub=get("stub_trace_detected", False),
        flags=tuple(record.outlier_flags),
    )


def _numbers(values: Any) -> tuple[float, ...] | None:
    return None if values is None else tuple(float(value) for value in values)


def _plain(value: Any) -> Any:
    return msgspec.to_builtins(value)
