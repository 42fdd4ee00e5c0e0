"""Make one report per variant from per-case records: metrics, means, paired differences.

M3, M8 and M10 are pooled over all events of all cases; the others are means over cases. An interval
resamples cases: 10,000 times with numpy's legacy generator, seeded again per metric.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf, isfinite
from typing import Literal, NamedTuple, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from gatemark.core.measurement import Direction
from gatemark.exams.runlog.records.metrics import BUDGETS, THRESHOLDS, Distribution, PerCaseMetrics
from gatemark.statistics.paired.permutation import signed_rank_p_value
from gatemark.statistics.proportion import clopper_pearson
from gatemark.statistics.quantiles import distribution
from gatemark.statistics.resampling.percentile_bootstrap import (
    MeanInterval,
    percentile_mean,
    percentile_ratio,
)
from gatemark.statistics.significance import holm

BUDGET_KEYS = {f"ctu_{budget}": budget for budget in BUDGETS}
THRESHOLD_KEYS = {f"tau_{least:.2f}": least for least in THRESHOLDS}

T = TypeVar("T")
FEW_OTHERS = 5
"""Minimum number of differing cases for which resampling is trusted."""
Needs = Literal["nothing", "said", "trace"]


class RunMetric(NamedTuple):
    """One number per case: its name, label, better direction and unit.

    ``pooled`` metrics are aggregated over all events of all cases, the others over cases. ``needs``
    names the side that must have concepts; without any, a 0 means nothing.
    """

    name: str
    label: str
    direction: Direction
    unit: str = "ratio"
    pooled: bool = False
    needs: Needs = "nothing"


LOWER: Direction = "lower_is_better"
HIGHER: Direction = "higher_is_better"
M3, M8_SUMMARY = "m3_redundancy_jaccard_mean", "m8_summary_latency_ms_mean"
M8_DECISION = "m8_buffer_decision_latency_ms_mean"
METRICS: dict[str, RunMetric] = {
    metric.name: metric
    for metric in (
        RunMetric("m1_update_count", "M1 updates", "neutral", "count"),
        RunMetric("m2_output_ctu", "M2 output", "neutral", "CTU"),
        RunMetric(M3, "M3 redundancy", LOWER, pooled=True, needs="said"),
        RunMetric("m4_trace_coverage", "M4 coverage", HIGHER, needs="trace"),
        RunMetric("m5_unsupported_global_rate", "M5 unsupported by the trace", LOWER, needs="said"),
        RunMetric(
            "m5_unsupported_per_summary_mean", "M5 unsupported, per summary", LOWER, needs="said"
        ),
        RunMetric("m6a_mean", "M6a unsupported by the window", LOWER, needs="said"),
        RunMetric("m6b_mean", "M6b unsupported by window or latest", LOWER, needs="said"),
        *(
            RunMetric(f"m7b_{name}", f"M7b coverage in {budget} CTU", HIGHER, needs="trace")
            for name, budget in BUDGET_KEYS.items()
        ),
        RunMetric(M8_SUMMARY, "M8 summary latency", LOWER, "ms", pooled=True),
        RunMetric(M8_DECISION, "M8 decision latency", LOWER, "ms", pooled=True),
        RunMetric("m9_prompt_ctu_total", "M9 prompts", LOWER, "CTU"),
        RunMetric("m9_completion_ctu_total", "M9 completions", LOWER, "CTU"),
        RunMetric("m9_total_llm_ctu", "M9 both", LOWER, "CTU"),
        RunMetric("m9_buffer_decision_count", "M9 decisions", LOWER, "count"),
        RunMetric("m10_schema_failure_rate", "M10 failures", LOWER, pooled=True),
        RunMetric("m10_compliance_rate", "M10 compliance", HIGHER, pooled=True),
    )
}
SCORES = tuple(
    name
    for name, metric in METRICS.items()
    if metric.unit == "ratio" and metric.direction != "neutral"
)
"""Metrics in [0, 1] with a better direction, which can become a score."""


def value_of(row: PerCaseMetrics, name: str) -> float | None:
    """Return the value of a metric in one case; None if it has none."""
    budget = name.removeprefix("m7b_")
    found: float | None = getattr(row if budget == name else row.m7b_coverage_by_budget, budget)
    return found


def alike_count(row: PerCaseMetrics, threshold: str) -> float:
    """Return how many consecutive summaries reach a similarity threshold."""
    if row.m3_jaccards is not UNSET:
        return sum(value >= THRESHOLD_KEYS[threshold] for value in row.m3_jaccards)
    rates: dict[str, float | None] = msgspec.to_builtins(row.m3_redundancy_threshold_rates)
    return (rates[threshold] or 0.0) * (row.m1_update_count - 1)


def pool_of(
    row: PerCaseMetrics, name: str, *, lists_only: bool = False
) -> tuple[float, float] | None:
    """Return the sum and the count that a case adds to a pooled metric; None if it lacks them.

    Rows of other tools have no list of values; their means and counts give the same pool.
    """
    events, failures = row.m1_update_count, row.m10_schema_failure_count
    parts: dict[str, tuple[Sequence[float] | UnsetType, int | None]] = {
        M3: (row.m3_jaccards, max(0, events - 1)),
        M8_SUMMARY: (row.m8_summary_latencies_ms, _count(row.m8_summary_latency_distribution_ms)),
        M8_DECISION: (
            row.m8_buffer_decision_latencies_ms,
            _count(row.m8_buffer_decision_latency_distribution_ms),
        ),
    }
    if name not in parts:
        return (failures if name == "m10_schema_failure_rate" else events - failures), events
    (values, count), mean = parts[name], value_of(row, name)
    if values is not UNSET:
        return sum(values), len(values)
    if mean is None and not lists_only:
        return 0.0, 0
    return (mean * count, count) if mean is not None and count and not lists_only else None


def known(value: T | UnsetType | None) -> T | None:
    """Return a value; None if the record does not have it."""
    return None if value is UNSET else value


def _count(found: Distribution | UnsetType | None) -> int | None:
    return found.count if isinstance(found, Distribution) else None


_NOTHING_FOUND: Mapping[Needs, str] = {
    "said": "no summary holds a concept that the extractor knows",
    "trace": "no trace holds a concept that the extractor knows",
}


def has_substance(name: str, rows: Iterable[PerCaseMetrics]) -> bool:
    """Return whether any row has the concepts that a metric needs."""
    needs = METRICS[name].needs
    if needs == "said":
        return any(row.m4_summary_cui_count for row in rows)
    return needs == "nothing" or any(row.m4_trace_cui_count for row in rows)


def substantiated(
    found: Mapping[str, VariantEstimate], rows: Sequence[PerCaseMetrics]
) -> dict[str, VariantEstimate]:
    """Return the estimates, without metrics for which no concepts were found."""
    return {
        name: estimate
        if has_substance(name, rows)
        else VariantEstimate(None, _NOTHING_FOUND[METRICS[name].needs], len(rows))
        for name, estimate in found.items()
    }


def caveats(rows: Sequence[PerCaseMetrics]) -> Iterator[str]:
    """Yield caveats about the numbers of one variant."""
    count = len(rows)
    without_trace = sum(row.m4_trace_cui_count == 0 for row in rows)
    mute = sum(row.faithfulness_valid_event_count == 0 for row in rows)
    silent = sum(row.m4_summary_cui_count == 0 for row in rows) - mute
    stubs = sum(row.stub_trace_detected is True for row in rows)
    if without_trace == count:
        yield f"{_NOTHING_FOUND['trace']}: M4 and M7b could not be measured"
    elif without_trace:
        yield f"{without_trace} of {count} traces hold no concept; M4 and M7b count them as 0"
    if silent + mute == count:
        yield f"{_NOTHING_FOUND['said']}: M3, M5 and M6 could not be measured"
    elif silent:
        yield (
            f"{silent} of {count} cases have no concept in any summary; M5, M6a and M6b count them "
            "as 0, the best there is"
        )
    if 0 < mute < count:
        yield (
            f"{mute} of {count} cases have no valid summary; M5 counts them as 0, and M6a and M6b "
            "leave them out"
        )
    if stubs:
        yield f"{stubs} of {count} traces are stubs, which stand in for missing ones"
    if count == 1:
        yield "there is one case, so that intervals over cases have no width"


Rows = Mapping[str, Mapping[str, PerCaseMetrics]]
"""Rows by variant and case."""


class PairedComparison(msgspec.Struct, frozen=True):
    """One metric of the reference minus that of another variant, over shared cases."""

    metric: str
    variant: str
    reference: str
    direction: Direction
    n_pairs: int
    unpaired_cases: int
    null_pairs: int
    mean_difference: float | None
    ci_low: float | None
    ci_high: float | None
    wilcoxon_p_value: float | None
    wilcoxon_p_value_holm: float | None = None


def paired_comparisons(rows: Rows, reference: str, draws: Draws) -> list[PairedComparison]:
    """Compare every metric of the reference with each other variant, case by case.

    P-values of one metric are corrected over the variants it is compared with (Holm).
    """
    others = [variant for variant in sorted(rows) if variant != reference]
    if reference not in rows or not others:
        return []
    found = []
    for name in METRICS:
        found += _corrected([_compared(name, rows, reference, other, draws) for other in others])
    return found


def _compared(
    name: str, by_variant: Rows, judged: str, variant: str, draws: Draws
) -> PairedComparison:
    reference, other = by_variant[judged], by_variant[variant]
    shared = sorted(set(reference) & set(other))
    is_sound = all(has_substance(name, rows.values()) for rows in (reference, other))
    differences = [
        left - right
        for case in shared
        if is_sound
        and (left := value_of(reference[case], name)) is not None
        and (right := value_of(other[case], name)) is not None
    ]
    found = percentile_mean(differences, **draws._asdict())
    return PairedComparison(
        metric=name,
        variant=variant,
        reference=judged,
        direction=METRICS[name].direction,
        n_pairs=len(differences),
        unpaired_cases=len(set(reference) ^ set(other)),
        null_pairs=len(shared) - len(differences),
        mean_difference=None if found is None else found.mean,
        ci_low=None if found is None else found.low,
        ci_high=None if found is None else found.high,
        wilcoxon_p_value=signed_rank_p_value(differences),
    )


def _corrected(compared: Sequence[PairedComparison]) -> list[PairedComparison]:
    tested = {entry.variant: p for entry in compared if (p := entry.wilcoxon_p_value) is not None}
    corrected = map(float, holm(list(tested.values()))) if tested else ()
    by_variant = dict(zip(tested, corrected, strict=True))
    return [
        msgspec.structs.replace(entry, wilcoxon_p_value_holm=by_variant.get(entry.variant))
        for entry in compared
    ]


class Draws(NamedTuple):
    """Seed and number of resamples of the intervals."""

    seed: int
    resamples: int


class VariantEstimate(NamedTuple):
    """An estimate of one metric of a variant, or the reason why there is none."""

    found: MeanInterval | None
    reason: str
    left_out: int


def estimates(
    rows: Sequence[PerCaseMetrics], draws: Draws, *, lists_only: bool = False
) -> dict[str, VariantEstimate]:
    """Return every metric of one variant; ``lists_only`` pools no means, as the first rules did."""
    return {name: _estimate(name, rows, draws, lists_only=lists_only) for name in METRICS}


def safe_interval(
    low: float, high: float, values: Sequence[float], limits: tuple[float, float]
) -> tuple[float, float] | None:
    """Return an interval that also holds if hardly any case differs from the others.

    Resampling cannot draw what no case showed: without a failure among the cases it has no width.
    If fewer than five cases differ, the share of cases that may differ is bounded exactly
    (Clopper-Pearson), and such a case may have any value that the metric can take. None if the
    metric has no limits.
    """
    usual, count = Counter(values).most_common(1)[0]
    others = len(values) - count
    if others >= FEW_OTHERS:
        return low, high
    lowest, highest = limits
    if not (isfinite(lowest) and isfinite(highest)):
        return None
    share = clopper_pearson(others, len(values))[1]
    return min(usual + share * (lowest - usual), low), max(usual + share * (highest - usual), high)


def case_values(name: str, rows: Sequence[PerCaseMetrics]) -> list[float]:
    """Return the value of a metric in each case that has one."""
    return [value for row in rows if (value := value_of(row, name)) is not None]


def limits_of(name: str) -> tuple[float, float]:
    """Return the lowest and the highest value that a metric can take."""
    return (0.0, 1.0) if METRICS[name].unit == "ratio" else (-inf, inf)


def worsening(
    name: str, judged: Mapping[str, PerCaseMetrics], reference: Mapping[str, PerCaseMetrics]
) -> list[float]:
    """Return by how much the judged variant is worse than the reference, case by case."""
    sign = 1 if METRICS[name].direction == "lower_is_better" else -1
    shared = sorted(set(judged) & set(reference))
    return [
        sign * (mine - theirs)
        for case in shared
        if (mine := value_of(judged[case], name)) is not None
        and (theirs := value_of(reference[case], name)) is not None
    ]


def _estimate(
    name: str, rows: Sequence[PerCaseMetrics], draws: Draws, *, lists_only: bool
) -> VariantEstimate:
    if not METRICS[name].pooled:
        values = case_values(name, rows)
        found = percentile_mean(values, **draws._asdict())
        return VariantEstimate(found, "no case has a value", len(rows) - len(values))
    pools = [pool_of(row, name, lists_only=lists_only) for row in rows]
    known = [pool for pool in pools if pool is not None]
    if len(known) < len(pools):
        reason = f"the records do not carry what {name} is pooled from"
        return VariantEstimate(None, reason, len(rows))
    parts, wholes = [part for part, _ in known], [whole for _, whole in known]
    ratio = percentile_ratio(parts, wholes, **draws._asdict())
    return VariantEstimate(ratio, "there is nothing to pool", len(rows) - (ratio.n if ratio else 0))


def variant_document(
    rows: Sequence[PerCaseMetrics], found: Mapping[str, VariantEstimate]
) -> dict[str, object]:
    """Return one variant's part of an ``exaid.metrics`` aggregate, with extra keys."""
    failures = sum(row.m10_schema_failure_count for row in rows)
    excluded = sum(row.excluded_from_faithfulness_count for row in rows)
    return {
        "n_cases": len(rows),
        **_metric_parts(rows, found),
        **_run_parts(rows),
        "faithfulness_valid_event_count": sum(row.faithfulness_valid_event_count for row in rows),
        "excluded_from_faithfulness_count": excluded,
        "schema_failures": failures,
        "stub_trace_count": sum(row.stub_trace_detected is True for row in rows),
        "traces_without_concepts_count": sum(row.m4_trace_cui_count == 0 for row in rows),
        "outlier_case_count": sum(bool(row.outlier_flags) for row in rows),
        "intervals": {
            name: {
                **_with_ends(estimate),
                "n_cases": estimate.found.n,
                "cases_left_out": estimate.left_out,
                "direction": METRICS[name].direction,
            }
            for name, estimate in found.items()
            if estimate.found is not None
        },
    }


def _metric_parts(
    rows: Sequence[PerCaseMetrics], found: Mapping[str, VariantEstimate]
) -> dict[str, object]:
    """Return M1 to M10 under the keys of the schema."""
    means = {name: one.found.mean if one.found else None for name, one in found.items()}
    failure_rate = means["m10_schema_failure_rate"]
    return {
        "m1_update_count_mean": means["m1_update_count"],
        "m2_output_ctu_mean": means["m2_output_ctu"],
        "m3_redundancy": {"jaccard_mean": means[M3], "threshold_rates": _threshold_rates(rows)},
        "m4_trace_coverage": _with_ends(found["m4_trace_coverage"], empty=0.0),
        "m5_unsupported": {
            "global_rate_mean": means["m5_unsupported_global_rate"],
            "per_summary_mean": means["m5_unsupported_per_summary_mean"],
        },
        "m6a": _with_ends(found["m6a_mean"]),
        "m6b": _with_ends(found["m6b_mean"]),
        "m7b_coverage_by_budget_mean": {name: means[f"m7b_{name}"] for name in BUDGET_KEYS},
        "m8_latency_ms_mean": {"summary": means[M8_SUMMARY], "buffer_decision": means[M8_DECISION]},
        "m8_latency_ms_distribution": {
            "summary": _spread(row.m8_summary_latencies_ms for row in rows),
            "buffer_decision": _spread(row.m8_buffer_decision_latencies_ms for row in rows),
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


def _run_parts(rows: Sequence[PerCaseMetrics]) -> dict[str, object]:
    """Return flushes, throughput in virtual time, and the split of latency."""
    control, content = plane_ms(rows)
    total = control + content
    return {
        "flush_statistics": {
            "flush_count_mean": sum(known(row.flush_count) or 0 for row in rows) / len(rows),
            "flush_reason_counts_mean": reason_means(rows),
            "flush_accumulated_ctu_distribution": _spread(
                row.flush_accumulated_ctus for row in rows
            ),
            "flush_interval_ms_distribution": _spread(row.flush_intervals_ms for row in rows),
        },
        "virtual_time_throughput": {
            "duration_ms_mean": _known_mean(row.virtual_time_duration_ms for row in rows),
            "trace_ctu_mean": _known_mean(row.trace_ctu for row in rows),
            "trace_ctu_per_s_mean": _known_mean(row.trace_ctu_per_s for row in rows),
            "summary_ctu_per_s_mean": _known_mean(row.summary_ctu_per_s for row in rows),
        },
        "overhead_attribution": {
            "control_plane_latency_ms_total": control,
            "content_plane_latency_ms_total": content,
            "total_plane_latency_ms_total": total,
            "control_plane_latency_pct": control / total if total > 0 else None,
            "content_plane_latency_pct": content / total if total > 0 else None,
        },
    }


def _threshold_rates(rows: Sequence[PerCaseMetrics]) -> dict[str, float | None]:
    """Return the pooled shares of consecutive summaries that are similar."""
    pools = [pool_of(row, M3) for row in rows]
    total = sum(pool[1] for pool in pools if pool is not None)
    if not total or None in pools:
        return dict.fromkeys(THRESHOLD_KEYS)
    return {name: sum(alike_count(row, name) for row in rows) / total for name in THRESHOLD_KEYS}


def reason_means(rows: Sequence[PerCaseMetrics]) -> dict[str, float]:
    """Return the mean number of flushes per case, by reason."""
    counts: Counter[str] = Counter()
    for row in rows:
        counts.update(known(row.flush_reason_counts) or {})
    return {name: count / len(rows) for name, count in sorted(counts.items())}


def plane_ms(rows: Sequence[PerCaseMetrics]) -> tuple[float, float]:
    """Return the latency of all models, for deciding and for summarising."""
    return (
        sum(known(row.control_plane_latency_ms) or 0.0 for row in rows),
        sum(known(row.content_plane_latency_ms) or 0.0 for row in rows),
    )


def _with_ends(estimate: VariantEstimate, empty: float | None = None) -> dict[str, float | None]:
    found = estimate.found
    if found is None:
        return {"mean": empty, "ci_low": empty, "ci_high": empty}
    return {"mean": found.mean, "ci_low": found.low, "ci_high": found.high}


def _spread(lists: Iterable[Sequence[float] | UnsetType]) -> dict[str, float] | None:
    return distribution([value for values in lists for value in known(values) or ()])


def _known_mean(values: Iterable[float | UnsetType | None]) -> float | None:
    found = [value for one in values if (value := known(one)) is not None]
    return sum(found) / len(found) if found else None
