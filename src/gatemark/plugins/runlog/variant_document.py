"""One variant's part of an aggregate of metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from msgspec import UnsetType

from gatemark.plugins.runlog.estimates import VariantEstimate
from gatemark.plugins.runlog.records.metrics import PerCaseMetrics
from gatemark.plugins.runlog.run_metrics import (
    BUDGET_KEYS,
    M3,
    M8_DECISION,
    M8_SUMMARY,
    METRICS,
    THRESHOLD_KEYS,
    count_alike,
    find_pool,
    get_known,
)
from gatemark.statistics.quantiles import summarize_distribution


def describe_variant(
    rows: Sequence[PerCaseMetrics], found: Mapping[str, VariantEstimate]
) -> dict[str, object]:
    """Return one variant's part of an ``exaid.metrics`` aggregate, with extra keys."""
    failures = sum(row.m10_schema_failure_count for row in rows)
    excluded = sum(row.excluded_from_faithfulness_count for row in rows)
    return {
        "n_cases": len(rows),
        **_describe_metrics(rows, found),
        **_describe_runs(rows),
        "faithfulness_valid_event_count": sum(row.faithfulness_valid_event_count for row in rows),
        "excluded_from_faithfulness_count": excluded,
        "schema_failures": failures,
        "stub_trace_count": sum(row.stub_trace_detected is True for row in rows),
        "traces_without_concepts_count": sum(row.m4_trace_cui_count == 0 for row in rows),
        "outlier_case_count": sum(bool(row.outlier_flags) for row in rows),
        "intervals": {
            name: {
                **_describe_interval(estimate),
                "n_cases": estimate.found.n,
                "cases_left_out": estimate.left_out,
                "direction": METRICS[name].direction,
            }
            for name, estimate in found.items()
            if estimate.found is not None
        },
    }


def _describe_metrics(
    rows: Sequence[PerCaseMetrics], found: Mapping[str, VariantEstimate]
) -> dict[str, object]:
    """Return M1 to M10 under the keys of the schema."""
    means = {name: one.found.mean if one.found else None for name, one in found.items()}
    failure_rate = means["m10_schema_failure_rate"]
    return {
        "m1_update_count_mean": means["m1_update_count"],
        "m2_output_ctu_mean": means["m2_output_ctu"],
        "m3_redundancy": {
            "jaccard_mean": means[M3],
            "threshold_rates": _pool_threshold_rates(rows),
        },
        "m4_trace_coverage": _describe_interval(found["m4_trace_coverage"], empty=0.0),
        "m5_unsupported": {
            "global_rate_mean": means["m5_unsupported_global_rate"],
            "per_summary_mean": means["m5_unsupported_per_summary_mean"],
        },
        "m6a": _describe_interval(found["m6a_mean"]),
        "m6b": _describe_interval(found["m6b_mean"]),
        "m7b_coverage_by_budget_mean": {name: means[f"m7b_{name}"] for name in BUDGET_KEYS},
        "m8_latency_ms_mean": {"summary": means[M8_SUMMARY], "buffer_decision": means[M8_DECISION]},
        "m8_latency_ms_distribution": {
            "summary": _describe_spread(row.m8_summary_latencies_ms for row in rows),
            "buffer_decision": _describe_spread(
                row.m8_buffer_decision_latencies_ms for row in rows
            ),
        },
        "m9_usage_ctu_mean": {
            "prompt": means["m9_prompt_ctu_total"],
            "completion": means["m9_completion_ctu_total"],
            "total": means["m9_total_llm_ctu"],
            "buffer_decision_count": means["m9_buffer_decision_count"],
        },
        "m10_compliance": {
            "schema_failure_rate_mean": failure_rate,
            "compliance_rate_mean": None if failure_rate is None else 1.0 - failure_rate,
            "schema_failure_count": sum(row.m10_schema_failure_count for row in rows),
            "summary_event_count": sum(row.m1_update_count for row in rows),
        },
    }


def _describe_runs(rows: Sequence[PerCaseMetrics]) -> dict[str, object]:
    """Return flushes, throughput in virtual time, and the split of latency."""
    control, content = add_model_ms(rows)
    total = control + content
    return {
        "flush_statistics": {
            "flush_count_mean": sum(get_known(row.flush_count) or 0 for row in rows) / len(rows),
            "flush_reason_counts_mean": average_reasons(rows),
            "flush_accumulated_ctu_distribution": _describe_spread(
                row.flush_accumulated_ctus for row in rows
            ),
            "flush_interval_ms_distribution": _describe_spread(
                row.flush_intervals_ms for row in rows
            ),
        },
        "virtual_time_throughput": {
            "duration_ms_mean": _average_known(row.virtual_time_duration_ms for row in rows),
            "trace_ctu_mean": _average_known(row.trace_ctu for row in rows),
            "trace_ctu_per_s_mean": _average_known(row.trace_ctu_per_s for row in rows),
            "summary_ctu_per_s_mean": _average_known(row.summary_ctu_per_s for row in rows),
        },
        "overhead_attribution": {
            "control_plane_latency_ms_total": control,
            "content_plane_latency_ms_total": content,
            "total_plane_latency_ms_total": total,
            "control_plane_latency_pct": control / total if total > 0 else None,
            "content_plane_latency_pct": content / total if total > 0 else None,
        },
    }


def _pool_threshold_rates(rows: Sequence[PerCaseMetrics]) -> dict[str, float | None]:
    """Return the pooled shares of consecutive summaries that are similar."""
    pools = [find_pool(row, M3) for row in rows]
    total = sum(pool[1] for pool in pools if pool is not None)
    if not total or None in pools:
        return dict.fromkeys(THRESHOLD_KEYS)
    return {name: sum(count_alike(row, name) for row in rows) / total for name in THRESHOLD_KEYS}


def average_reasons(rows: Sequence[PerCaseMetrics]) -> dict[str, float]:
    """Return the mean number of flushes per case, by reason."""
    counts: Counter[str] = Counter()
    for row in rows:
        counts.update(get_known(row.flush_reason_counts) or {})
    return {name: count / len(rows) for name, count in sorted(counts.items())}


def add_model_ms(rows: Sequence[PerCaseMetrics]) -> tuple[float, float]:
    """Return the latency of all models, for deciding and for summarising."""
    return (
        sum(get_known(row.control_plane_latency_ms) or 0.0 for row in rows),
        sum(get_known(row.content_plane_latency_ms) or 0.0 for row in rows),
    )


def _describe_interval(
    estimate: VariantEstimate, empty: float | None = None
) -> dict[str, float | None]:
    found = estimate.found
    if found is None:
        return {"mean": empty, "ci_low": empty, "ci_high": empty}
    return {"mean": found.mean, "ci_low": found.low, "ci_high": found.high}


def _describe_spread(lists: Iterable[Sequence[float] | UnsetType]) -> dict[str, float] | None:
    return summarize_distribution([value for values in lists for value in get_known(values) or ()])


def _average_known(values: Iterable[float | UnsetType | None]) -> float | None:
    found = [value for one in values if (value := get_known(one)) is not None]
    return sum(found) / len(found) if found else None
