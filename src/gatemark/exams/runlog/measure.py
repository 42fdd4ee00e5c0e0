"""Make one report per variant from per-case records: rows, metrics, means, paired differences.

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
"""Metrics in [0, 1] with a better direction, which can become a score."""


class RunRow(msgspec.Struct, frozen=True):
    """One case under one variant. Lists are None if the record does not have them.

    ``pools`` has the sum and the count that the case adds to each pooled metric, or None if the
    record lacks them; ``alike`` counts consecutive summaries that reach each similarity threshold.
    """

    case_id: str
    variant_id: str
    values: dict[str, float | None]
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
    has_jaccards: bool
    pools: dict[str, tuple[float, float] | None]
    alike: dict[str, float]


def row_of(record: PerCaseMetrics) -> RunRow:
    """Return the row of a per-case record."""
    budgets: Mapping[str, float] = msgspec.to_builtins(record.m7b_coverage_by_budget)
    values: dict[str, float | None] = {
        name: budgets.get(name.removeprefix("m7b_"))
        if name.startswith("m7b_")
        else _known(getattr(record, name))
        for name in METRICS
    }
    return RunRow(
        case_id=record.case_id,
        variant_id=record.variant_id,
        values=values,
        summary_latencies=_numbers(record.m8_summary_latencies_ms),
        decision_latencies=_numbers(record.m8_buffer_decision_latencies_ms),
        flush_sizes=_numbers(record.flush_accumulated_ctus),
        flush_intervals=_numbers(record.flush_intervals_ms),
        flush_count=_known(record.flush_count) or 0,
        flush_reasons=dict(_known(record.flush_reason_counts) or {}),
        events=record.m1_update_count,
        failures=record.m10_schema_failure_count,
        valid_events=record.faithfulness_valid_event_count,
        excluded_events=record.excluded_from_faithfulness_count,
        trace_concepts=record.m4_trace_cui_count,
        said_concepts=record.m4_summary_cui_count,
        control_ms=_known(record.control_plane_latency_ms) or 0.0,
        content_ms=_known(record.content_plane_latency_ms) or 0.0,
        duration_ms=_known(record.virtual_time_duration_ms),
        trace_ctu=_known(record.trace_ctu),
        trace_ctu_per_s=_known(record.trace_ctu_per_s),
        summary_ctu_per_s=_known(record.summary_ctu_per_s),
        is_stub=record.stub_trace_detected is True,
        flags=tuple(record.outlier_flags),
        has_jaccards=record.m3_jaccards is not UNSET,
        pools=dict(_pools(record)),
        alike=_alike(record),
    )


def _alike(record: PerCaseMetrics) -> dict[str, float]:
    """Return how many consecutive summaries reach each similarity threshold."""
    if record.m3_jaccards is not UNSET:
        values = record.m3_jaccards
        return {
            name: sum(value >= least for value in values) for name, least in THRESHOLD_KEYS.items()
        }
    rates: dict[str, float | None] = msgspec.to_builtins(record.m3_redundancy_threshold_rates)
    return {name: (rate or 0.0) * (record.m1_update_count - 1) for name, rate in rates.items()}


def _pools(record: PerCaseMetrics) -> Iterator[tuple[str, tuple[float, float] | None]]:
    """Yield the sum and the count that a case adds to each pooled metric.

    Rows of other tools have no list of values; their means and counts give the same pool.
    """
    events, failures = record.m1_update_count, record.m10_schema_failure_count
    yield "m10_schema_failure_rate", (failures, events)
    yield "m10_compliance_rate", (events - failures, events)
    told: dict[str, tuple[Sequence[float] | UnsetType, int | None]] = {
        "m3_redundancy_jaccard_mean": (record.m3_jaccards, max(0, events - 1)),
        "m8_summary_latency_ms_mean": (
            record.m8_summary_latencies_ms,
            _count(record.m8_summary_latency_distribution_ms),
        ),
        "m8_buffer_decision_latency_ms_mean": (
            record.m8_buffer_decision_latencies_ms,
            _count(record.m8_buffer_decision_latency_distribution_ms),
        ),
    }
    for name, (values, count) in told.items():
        mean = getattr(record, name)
        if values is not UNSET:
            yield name, (sum(values), len(values))
        elif mean is None:
            yield name, (0.0, 0)
        else:
            yield name, (mean * count, count) if count else None


def _count(found: Distribution | UnsetType | None) -> int | None:
    return found.count if isinstance(found, Distribution) else None


def _known(value: T | UnsetType | None) -> T | None:
    return None if value is UNSET else value


def _numbers(values: Sequence[float] | UnsetType) -> tuple[float, ...] | None:
    return None if values is UNSET else tuple(map(float, values))


_NOTHING_FOUND: Mapping[Needs, str] = {
    "said": "no summary holds a concept that the extractor knows",
    "trace": "no trace holds a concept that the extractor knows",
}


def has_substance(name: str, rows: Iterable[RunRow]) -> bool:
    """Return whether any row has the concepts that a metric needs."""
    needs = METRICS[name].needs
    if needs == "said":
        return any(row.said_concepts for row in rows)
    return needs == "nothing" or any(row.trace_concepts for row in rows)


def substantiated(
    found: Mapping[str, VariantEstimate], rows: Sequence[RunRow]
) -> dict[str, VariantEstimate]:
    """Return the estimates, without metrics for which no concepts were found."""
    return {
        name: estimate
        if has_substance(name, rows)
        else VariantEstimate(None, _NOTHING_FOUND[METRICS[name].needs], len(rows))
        for name, estimate in found.items()
    }


def caveats(rows: Sequence[RunRow]) -> Iterator[str]:
    """Yield caveats about the numbers of one variant."""
    count = len(rows)
    without_trace = sum(row.trace_concepts == 0 for row in rows)
    mute = sum(row.valid_events == 0 for row in rows)
    silent = sum(row.said_concepts == 0 for row in rows) - mute
    stubs = sum(row.is_stub for row in rows)
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


Rows = Mapping[str, Mapping[str, RunRow]]
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
        and (left := reference[case].values[name]) is not None
        and (right := other[case].values[name]) is not None
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
    rows: Sequence[RunRow], draws: Draws, *, lists_only: bool = False
) -> dict[str, VariantEstimate]:
    """Return every metric of one variant; ``lists_only`` pools no means, as the first rules did."""
    kept = [_with_lists(row) for row in rows] if lists_only else rows
    return {name: _estimate(name, kept, draws) for name in METRICS}


def _with_lists(row: RunRow) -> RunRow:
    """Return a row without the pools that its means alone would give."""
    has = {
        "m3_redundancy_jaccard_mean": row.has_jaccards,
        "m8_summary_latency_ms_mean": row.summary_latencies is not None,
        "m8_buffer_decision_latency_ms_mean": row.decision_latencies is not None,
    }
    pools = {name: pool if has.get(name, True) else None for name, pool in row.pools.items()}
    return msgspec.structs.replace(row, pools=pools)


class Spread(NamedTuple):
    """A mean over cases with an interval that also allows for rare cases."""

    mean: float
    low: float
    high: float
    n: int


def safe_interval(
    found: Spread, values: Sequence[float], lowest: float, highest: float
) -> Spread | None:
    """Return an interval that also holds if hardly any case differs from the others.

    Resampling cannot draw what no case showed: without a failure among the cases it has no width.
    If fewer than five cases differ, the share of cases that may differ is bounded exactly
    (Clopper-Pearson), and such a case may have any value that the metric can take. None if the
    metric has no limits.
    """
    usual, count = Counter(values).most_common(1)[0]
    others = len(values) - count
    if others >= FEW_OTHERS:
        return found
    if not (isfinite(lowest) and isfinite(highest)):
        return None
    share = clopper_pearson(others, len(values))[1]
    low = usual + share * (lowest - usual)
    high = usual + share * (highest - usual)
    return Spread(found.mean, min(low, found.low), max(high, found.high), found.n)


def case_values(name: str, rows: Sequence[RunRow]) -> list[float]:
    """Return the value of a metric in each case that has one."""
    return [value for row in rows if (value := row.values[name]) is not None]


def limits_of(name: str) -> tuple[float, float]:
    """Return the lowest and the highest value that a metric can take."""
    return (0.0, 1.0) if METRICS[name].unit == "ratio" else (-inf, inf)


def worsening(
    name: str, judged: Mapping[str, RunRow], reference: Mapping[str, RunRow]
) -> list[float]:
    """Return by how much the judged variant is worse than the reference, case by case."""
    sign = 1 if METRICS[name].direction == "lower_is_better" else -1
    shared = sorted(set(judged) & set(reference))
    return [
        sign * (mine - theirs)
        for case in shared
        if (mine := judged[case].values[name]) is not None
        and (theirs := reference[case].values[name]) is not None
    ]


def _estimate(name: str, rows: Sequence[RunRow], draws: Draws) -> VariantEstimate:
    if METRICS[name].pooled:
        parts = [row.pools[name] for row in rows]
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
