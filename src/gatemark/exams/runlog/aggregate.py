"""From rows to one report per variant: means over cases, pools over events, seeded intervals.

M3, M8 and M10 are pooled over all events of all cases; the others are means over cases. An
interval resamples cases: 10,000 times from numpy's legacy generator, started anew per metric.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from gatemark.exams.runlog.rows import BUDGET_KEYS, METRICS, THRESHOLD_KEYS, RunRow
from gatemark.statistics.quantiles import distribution
from gatemark.statistics.resampling.percentile_bootstrap import (
    MeanInterval,
    percentile_mean,
    percentile_ratio,
)


class Draws(NamedTuple):
    """How intervals are drawn."""

    seed: int
    resamples: int


class VariantEstimate(NamedTuple):
    """A variant's number for one metric: an estimate, or the reason why there is none."""

    found: MeanInterval | None
    reason: str
    left_out: int


def estimates(rows: Sequence[RunRow], draws: Draws) -> dict[str, VariantEstimate]:
    """Every metric of one variant."""
    return {name: _estimate(name, rows, draws) for name in METRICS}


def _estimate(name: str, rows: Sequence[RunRow], draws: Draws) -> VariantEstimate:
    if METRICS[name].pooled:
        parts = [_pool(name, row) for row in rows]
        if any(part is None for part in parts):
            return VariantEstimate(
                None, f"the records do not carry what {name} is pooled from", len(rows)
            )
        known = [part for part in parts if part is not None]
        ratio = percentile_ratio(
            [part for part, _ in known], [whole for _, whole in known], **draws._asdict()
        )
        return VariantEstimate(
            ratio, "there is nothing to pool", len(rows) - (ratio.n if ratio else 0)
        )
    values = [value for row in rows if (value := row.values[name]) is not None]
    found = percentile_mean(values, **draws._asdict())
    return VariantEstimate(found, "no case has a value", len(rows) - len(values))


def _pool(name: str, row: RunRow) -> tuple[float, float] | None:
    """The sum and the count that one case adds to a pooled metric."""
    if name == "m10_schema_failure_rate":
        return row.failures, row.events
    if name == "m10_compliance_rate":
        return row.events - row.failures, row.events
    values = {
        "m3_redundancy_jaccard_mean": row.jaccards,
        "m8_summary_latency_ms_mean": row.summary_latencies,
        "m8_buffer_decision_latency_ms_mean": row.decision_latencies,
    }[name]
    return None if values is None else (sum(values), len(values))


def variant_document(rows: Sequence[RunRow], found: dict[str, VariantEstimate]) -> dict[str, Any]:
    """One variant's part of an ``exaid.metrics`` aggregate; extras stand beside its own keys."""
    return {
        "n_cases": len(rows),
        **_metric_parts(rows, found),
        **_run_parts(rows),
        "faithfulness_valid_event_count": sum(row.valid_events for row in rows),
        "excluded_from_faithfulness_count": sum(row.excluded_events for row in rows),
        "schema_failures": sum(row.failures for row in rows),
        "stub_trace_count": sum(row.is_stub for row in rows),
        "traces_without_concepts_count": sum(row.trace_concepts == 0 for row in rows),
        "outlier_case_count": sum(bool(row.flags) for row in rows),
        "intervals": _intervals(found),
    }


def _metric_parts(rows: Sequence[RunRow], found: dict[str, VariantEstimate]) -> dict[str, Any]:
    """M1 to M10 under the keys of the schema."""
    failure_rate = _mean(found, "m10_schema_failure_rate")
    return {
        "m1_update_count_mean": _mean(found, "m1_update_count"),
        "m2_output_ctu_mean": _mean(found, "m2_output_ctu"),
        "m3_redundancy": {
            "jaccard_mean": _mean(found, "m3_redundancy_jaccard_mean"),
            "threshold_rates": _threshold_rates(_pooled(row.jaccards for row in rows)),
        },
        "m4_trace_coverage": _with_ends(found["m4_trace_coverage"], empty=0.0),
        "m5_unsupported": {
            "global_rate_mean": _mean(found, "m5_unsupported_global_rate"),
            "per_summary_mean": _mean(found, "m5_unsupported_per_summary_mean"),
        },
        "m6a": _with_ends(found["m6a_mean"]),
        "m6b": _with_ends(found["m6b_mean"]),
        "m7b_coverage_by_budget_mean": {name: _mean(found, f"m7b_{name}") for name in BUDGET_KEYS},
        "m8_latency_ms_mean": {
            "summary": _mean(found, "m8_summary_latency_ms_mean"),
            "buffer_decision": _mean(found, "m8_buffer_decision_latency_ms_mean"),
        },
        "m8_latency_ms_distribution": {
            "summary": distribution(_pooled(row.summary_latencies for row in rows)),
            "buffer_decision": distribution(_pooled(row.decision_latencies for row in rows)),
        },
        "m9_usage_ctu_mean": {
            "prompt": _mean(found, "m9_prompt_ctu_total"),
            "completion": _mean(found, "m9_completion_ctu_total"),
            "total": _mean(found, "m9_total_llm_ctu"),
            "buffer_decision_count": _mean(found, "m9_buffer_decision_count"),
        },
        "m10_compliance": {
            "schema_failure_rate_mean": failure_rate,
            "compliance_rate_mean": None if failure_rate is None else 1.0 - failure_rate,
            "schema_failure_count": sum(row.failures for row in rows),
            "summary_event_count": sum(row.events for row in rows),
        },
    }


def _run_parts(rows: Sequence[RunRow]) -> dict[str, Any]:
    """Flushes, throughput in virtual time, and where the latency went."""
    return {
        "flush_statistics": {
            "flush_count_mean": sum(row.flush_count for row in rows) / len(rows),
            "flush_reason_counts_mean": reason_means(rows),
            "flush_accumulated_ctu_distribution": distribution(
                _pooled(row.flush_sizes for row in rows)
            ),
            "flush_interval_ms_distribution": distribution(
                _pooled(row.flush_intervals for row in rows)
            ),
        },
        "virtual_time_throughput": {
            "duration_ms_mean": _known_mean(row.duration_ms for row in rows),
            "trace_ctu_mean": _known_mean(row.trace_ctu for row in rows),
            "trace_ctu_per_s_mean": _known_mean(row.trace_ctu_per_s for row in rows),
            "summary_ctu_per_s_mean": _known_mean(row.summary_ctu_per_s for row in rows),
        },
        "overhead_attribution": _overhead(rows),
    }


def _threshold_rates(jaccards: Sequence[float]) -> dict[str, float | None]:
    return {
        name: sum(value >= least for value in jaccards) / len(jaccards) if jaccards else None
        for name, least in THRESHOLD_KEYS.items()
    }


def _intervals(found: dict[str, VariantEstimate]) -> dict[str, Any]:
    """Every metric's interval, those that the schema does not ask for included."""
    return {
        name: {
            "mean": estimate.found.mean,
            "ci_low": estimate.found.low,
            "ci_high": estimate.found.high,
            "n_cases": estimate.found.n,
            "cases_left_out": estimate.left_out,
            "direction": METRICS[name].direction,
        }
        for name, estimate in found.items()
        if estimate.found is not None
    }


def reason_means(rows: Sequence[RunRow]) -> dict[str, float]:
    """How often each reason flushed per case; a case without it counts as 0."""
    names = sorted({name for row in rows for name in row.flush_reasons})
    return {name: sum(row.flush_reasons.get(name, 0) for row in rows) / len(rows) for name in names}


def _overhead(rows: Sequence[RunRow]) -> dict[str, float | None]:
    control = sum(row.control_ms for row in rows)
    content = sum(row.content_ms for row in rows)
    total = control + content
    return {
        "control_plane_latency_ms_total": control,
        "content_plane_latency_ms_total": content,
        "total_plane_latency_ms_total": total,
        "control_plane_latency_pct": control / total if total > 0 else None,
        "content_plane_latency_pct": content / total if total > 0 else None,
    }


def _mean(found: dict[str, VariantEstimate], name: str) -> float | None:
    estimate = found[name].found
    return None if estimate is None else estimate.mean


def _with_ends(estimate: VariantEstimate, empty: float | None = None) -> dict[str, float | None]:
    found = estimate.found
    if found is None:
        return {"mean": empty, "ci_low": empty, "ci_high": empty}
    return {"mean": found.mean, "ci_low": found.low, "ci_high": found.high}


def _pooled(lists: Iterable[tuple[float, ...] | None]) -> list[float]:
    return [value for values in lists for value in values or ()]


def _known_mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
