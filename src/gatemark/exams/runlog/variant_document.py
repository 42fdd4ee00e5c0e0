"""One variant's part of an ``exaid.metrics`` aggregate, under the keys of its schema."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gatemark.exams.runlog.measure import (
    BUDGET_KEYS,
    METRICS,
    THRESHOLD_KEYS,
    RunRow,
    VariantEstimate,
)
from gatemark.statistics.quantiles import distribution


def variant_document(
    rows: Sequence[RunRow], found: dict[str, VariantEstimate]
) -> dict[str, object]:
    """Return one variant's part of an ``exaid.metrics`` aggregate, with extra keys."""
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


def _metric_parts(rows: Sequence[RunRow], found: dict[str, VariantEstimate]) -> dict[str, object]:
    """Return M1 to M10 under the keys of the schema."""
    failure_rate = _mean(found, "m10_schema_failure_rate")
    return {
        "m1_update_count_mean": _mean(found, "m1_update_count"),
        "m2_output_ctu_mean": _mean(found, "m2_output_ctu"),
        "m3_redundancy": {
            "jaccard_mean": _mean(found, "m3_redundancy_jaccard_mean"),
            "threshold_rates": _threshold_rates(rows),
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


def _run_parts(rows: Sequence[RunRow]) -> dict[str, object]:
    """Return flushes, throughput in virtual time, and the split of latency."""
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


def _threshold_rates(rows: Sequence[RunRow]) -> dict[str, float | None]:
    """Return the pooled shares of consecutive summaries that are similar."""
    pools = [row.pools["m3_redundancy_jaccard_mean"] for row in rows]
    total = sum(pool[1] for pool in pools if pool is not None)
    if not total or None in pools:
        return dict.fromkeys(THRESHOLD_KEYS)
    return {name: sum(row.alike[name] for row in rows) / total for name in THRESHOLD_KEYS}


def _intervals(found: dict[str, VariantEstimate]) -> dict[str, object]:
    """Return the interval of every metric, also of those not in the schema."""
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
    """Return the mean number of flushes per case, by reason."""
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
