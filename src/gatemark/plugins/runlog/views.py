"""Figures of run-log metrics: variants side by side, curves, and the split of latency."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from gatemark.core.measurement import Direction
from gatemark.core.result import (
    Curves,
    Figure,
    Forest,
    ForestGroup,
    ForestRow,
    Line,
    Stack,
    Stacks,
    Table,
    Timeline,
    TimelineSpan,
)
from gatemark.plugins.runlog.estimates import VariantEstimate
from gatemark.plugins.runlog.paired import PairedComparison
from gatemark.plugins.runlog.records.metrics import PerCaseMetrics
from gatemark.plugins.runlog.records.run import RunLog
from gatemark.plugins.runlog.run_metrics import BUDGET_KEYS, METRICS, SCORES
from gatemark.plugins.runlog.traces.trace import Trace
from gatemark.plugins.runlog.variant_document import add_model_ms, average_reasons

AGENTS_MAX = 12
LABEL_MAX = 120
FLUSHES, DECISIONS, SUMMARIES = "gate", "decisions", "summaries"


def draw_timeline(log: RunLog, trace: Trace) -> Timeline | None:
    """Return a timeline of turns, flushes, decisions and summaries; None for an empty trace."""
    moments = {record.seq: record.t_rel_ms / 1000 for record in trace.records}
    if not moments:
        return None
    agents = list(dict.fromkeys(turn.agent_id for turn in trace.turns))[:AGENTS_MAX]
    spans = list(_list_spans(log, trace, frozenset(agents), moments))
    used = {span.lane for span in spans}
    lanes = tuple(lane for lane in (*agents, FLUSHES, DECISIONS, SUMMARIES) if lane in used)
    if not spans:
        return None
    return Timeline(
        title=f"{log.meta.case_id} under {log.meta.variant_id}",
        axis="seconds since the first delta",
        lanes=lanes,
        spans=tuple(spans),
    )


def _list_spans(
    log: RunLog, trace: Trace, agents: frozenset[str], moments: dict[int, float]
) -> Iterator[TimelineSpan]:
    for turn in trace.turns:
        if turn.agent_id in agents:
            kind = "turn" if turn.plane == "content_plane" else "control turn"
            start, end = sorted((moments[turn.start_seq], moments[turn.end_seq]))
            yield TimelineSpan(turn.agent_id, kind, start, end, _shorten_label(turn.text))
    for flush in log.flushes:
        at = _find_time(flush.end_seq, moments)
        reason = flush.trigger_reason if isinstance(flush.trigger_reason, str) else "unknown"
        yield TimelineSpan(FLUSHES, f"flush: {reason}", at, at, f"{flush.accumulated_ctu} CTU")
    for decision in log.decisions:
        if isinstance(decision.end_seq, int):
            at = _find_time(decision.end_seq, moments)
            yield TimelineSpan(DECISIONS, f"decision: {decision.decision}", at, at)
    for event in log.events:
        start, end = sorted(
            (_find_time(event.start_seq, moments), _find_time(event.end_seq, moments))
        )
        kind = "summary" if event.schema_ok else "failed summary"
        yield TimelineSpan(
            SUMMARIES, kind, start, end, _shorten_label(event.summary_semantics_text)
        )


def _shorten_label(text: str) -> str:
    return " ".join(text.split())[:LABEL_MAX]


def _find_time(seq: int, moments: dict[int, float]) -> float:
    """Return the time of a record; a window beyond the trace ends with the trace."""
    return moments.get(seq, max(moments.values()))


SHOWN_ROWS = 100
HEADLINES = frozenset(
    {
        "m3_redundancy_jaccard_mean",
        "m4_trace_coverage",
        "m5_unsupported_global_rate",
        "m6a_mean",
        "m6b_mean",
        "m7b_ctu_1000",
        "m10_schema_failure_rate",
    }
)
"""The metrics that are drawn; the others are in the table."""
DIRECTIONS: dict[Direction, str] = {
    "higher_is_better": "higher",
    "lower_is_better": "lower",
    "neutral": "neither",
}
FoundByVariant = Mapping[str, Mapping[str, VariantEstimate]]
"""Estimates by variant and metric."""


def draw_figures(
    rows: Mapping[str, Sequence[PerCaseMetrics]],
    found: FoundByVariant,
    compared: Sequence[PairedComparison],
) -> tuple[Figure, ...]:
    """Return every table and chart, in order."""
    return (
        *draw_forest(found),
        draw_side_by_side(found),
        *draw_coverage(found),
        *draw_flush_reasons(rows),
        *draw_latency_split(rows),
        *draw_differences(compared),
        *draw_outliers(rows),
    )


def draw_side_by_side(found: FoundByVariant) -> Table:
    """Return one line per metric and one column per variant, with the better side."""
    lines = tuple(
        (
            metric.label,
            DIRECTIONS[metric.direction],
            *(_render_estimate(found[variant][name], metric.unit) for variant in found),
        )
        for name, metric in METRICS.items()
    )
    return Table(
        title="Variants side by side, with 95 % bootstrap intervals over cases",
        columns=("Metric", "Better", *found),
        rows=lines,
        total_rows=len(lines),
    )


def _render_estimate(estimate: VariantEstimate, unit: str) -> str:
    if estimate.found is None:
        return "none"
    digits = 1 if unit in ("ms", "CTU") else 2 if unit == "count" else 3
    mean, low, high = (
        f"{value:,.{digits}f}"
        for value in (estimate.found.mean, estimate.found.low, estimate.found.high)
    )
    return f"{mean} [{low}, {high}]"


def draw_forest(found: FoundByVariant) -> Iterator[Figure]:
    """Draw the variants side by side, for metrics that are shares."""
    groups = []
    for name in SCORES:
        metric = METRICS[name]
        rows = tuple(
            ForestRow(variant, estimate.mean, estimate.low, estimate.high)
            for variant, estimates in found.items()
            if (estimate := estimates[name].found) is not None
        )
        if rows and name in HEADLINES:
            note = f"{DIRECTIONS[metric.direction]} is better"
            groups.append(ForestGroup(metric.label, note, rows))
    if groups:
        yield Forest("Variants with their intervals", "share", tuple(groups))


def draw_coverage(found: FoundByVariant) -> Iterator[Figure]:
    """Draw M7b over its budgets, if any variant has it."""
    lines = []
    for variant, estimates in found.items():
        points = [
            (float(budget), estimate.mean)
            for name, budget in BUDGET_KEYS.items()
            if (estimate := estimates[f"m7b_{name}"].found) is not None
        ]
        if points:
            lines.append(Line(variant, tuple(points)))
    if lines:
        yield Curves(
            title="Coverage of the trace within a budget (M7b, higher is better)",
            x_axis="budget in CTU",
            y_axis="coverage",
            lines=tuple(lines),
        )


def draw_flush_reasons(rows: Mapping[str, Sequence[PerCaseMetrics]]) -> Iterator[Figure]:
    """Draw the reasons of flushes, if any variant has a token gate."""
    means = {variant: average_reasons(cases) for variant, cases in rows.items()}
    reasons = tuple(sorted({reason for counts in means.values() for reason in counts}))
    if reasons:
        yield Stacks(
            title="Flushes of the token gate by reason",
            axis="flushes per case",
            parts=reasons,
            bars=tuple(
                Stack(variant, tuple(counts.get(reason, 0.0) for reason in reasons))
                for variant, counts in means.items()
            ),
        )


def draw_latency_split(rows: Mapping[str, Sequence[PerCaseMetrics]]) -> Iterator[Figure]:
    """Draw the split of model latency, if any was recorded."""
    bars = tuple(
        Stack(variant, tuple(ms / len(cases) / 1000 for ms in add_model_ms(cases)))
        for variant, cases in rows.items()
    )
    if any(sum(bar.amounts) > 0 for bar in bars):
        yield Stacks(
            title="Model latency by what it was for (lower is better)",
            axis="seconds per case",
            parts=("deciding", "summarising"),
            bars=bars,
        )


def draw_differences(compared: Sequence[PairedComparison]) -> Iterator[Figure]:
    """List the paired differences, if there are several variants."""
    lines = tuple(
        (
            METRICS[entry.metric].label,
            DIRECTIONS[entry.direction],
            f"{entry.reference} - {entry.variant}",
            _render_difference(entry),
            entry.wilcoxon_p_value_holm,
            entry.n_pairs,
        )
        for entry in compared
    )
    if lines:
        yield Table(
            title="Paired differences over shared cases",
            columns=("Metric", "Better", "Difference", "Mean with interval", "p (Holm)", "Pairs"),
            rows=lines[:SHOWN_ROWS],
            total_rows=len(lines),
        )


def _render_difference(entry: PairedComparison) -> str:
    if entry.mean_difference is None:
        return "none"
    digits = 3 if METRICS[entry.metric].unit == "ratio" else 1
    return (
        f"{entry.mean_difference:+,.{digits}f} "
        f"[{entry.ci_low:+,.{digits}f}, {entry.ci_high:+,.{digits}f}]"
    )


def draw_outliers(rows: Mapping[str, Sequence[PerCaseMetrics]]) -> Iterator[Figure]:
    """List the cases that stand out, if any do."""
    lines = tuple(
        (row.case_id, variant, ", ".join(row.outlier_flags))
        for variant, cases in rows.items()
        for row in cases
        if row.outlier_flags
    )
    if lines:
        yield Table(
            title="Cases that stand out",
            columns=("Case", "Variant", "Flags"),
            rows=lines[:SHOWN_ROWS],
            total_rows=len(lines),
        )
