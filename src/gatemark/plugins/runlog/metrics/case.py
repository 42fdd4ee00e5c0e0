"""Compute every metric of one case under one variant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Protocol

import msgspec

from gatemark.core.errors import BadInputError
from gatemark.plugins.runlog.records.metrics import (
    BUDGETS,
    METRICS_VERSION,
    THRESHOLDS,
    BudgetCoverage,
    Distribution,
    PerCaseMetrics,
    ThresholdRates,
)
from gatemark.plugins.runlog.records.names import count_ctu, strip_case_id
from gatemark.plugins.runlog.records.run import BufferDecision, RunLog, SummaryEvent, TokengateFlush
from gatemark.statistics.quantiles import summarize_distribution

UNKNOWN_REASON = "unknown"


def count_reasons(flushes: Sequence[TokengateFlush]) -> dict[str, int]:
    """Count flushes by reason."""
    counts = Counter(
        flush.trigger_reason if isinstance(flush.trigger_reason, str) else UNKNOWN_REASON
        for flush in flushes
    )
    return dict(sorted(counts.items()))


def measure_flush_intervals(flushes: Sequence[TokengateFlush]) -> tuple[tuple[float, ...], int]:
    """Return milliseconds between consecutive flushes, and the number of dropped intervals.

    Agents take turns, so a flush may be stamped before the one it follows. Such an interval is
    dropped, and the next is measured from the last stamp that did not go back.
    """
    intervals: list[float] = []
    dropped = 0
    previous: datetime | None = None
    for flush in flushes:
        moment = _parse_moment(flush)
        if previous is not None:
            interval = (moment - previous).total_seconds() * 1000
            if interval < 0:
                dropped += 1
                continue
            intervals.append(interval)
        previous = moment
    return tuple(intervals), dropped


def _parse_moment(flush: TokengateFlush) -> datetime:
    try:
        moment = datetime.fromisoformat(flush.timestamp)
    except ValueError as error:
        raise BadInputError(
            f"tokengate_flush {flush.flush_index}: timestamp {flush.timestamp!r} is not a time"
        ) from error
    if moment.tzinfo is None:
        raise BadInputError(
            f"tokengate_flush {flush.flush_index}: timestamp {flush.timestamp!r} has no time zone"
        )
    return moment


def divide_by_seconds(units: int, duration_ms: float) -> float | None:
    """Return text units per second of virtual time; None if no time passed."""
    return units / (duration_ms / 1000) if duration_ms > 0 else None


def find_share(part: float, whole: float) -> float | None:
    """Return a share; None if the whole is 0."""
    return part / whole if whole > 0 else None


Concepts = frozenset[str]


def find_mean(values: Sequence[float]) -> float | None:
    """Return the mean; None without values."""
    return sum(values) / len(values) if values else None


def measure_jaccard(left: Concepts, right: Concepts) -> float:
    """Return M3: how much two summaries share of all their concepts; 0 for two empty sets."""
    union = left | right
    return len(left & right) / len(union) if union else 0.0


def find_threshold_rates(jaccards: Sequence[float]) -> ThresholdRates:
    """Return M3: the share of neighbours at or above each threshold; null without neighbours."""
    return ThresholdRates(
        *(
            sum(value >= least for value in jaccards) / len(jaccards) if jaccards else None
            for least in THRESHOLDS
        )
    )


def measure_coverage(said: Concepts, trace: Concepts) -> float:
    """Return M4: the share of the trace's concepts in summaries; 0 without concepts."""
    return len(said & trace) / len(trace) if trace else 0.0


def measure_unsupported(said: Concepts, support: Concepts) -> float:
    """Return M5 and M6: the share of unsupported concepts; 0 without concepts."""
    return len(said - support) / len(said) if said else 0.0


def measure_coverage_within(
    sizes: Sequence[int], summaries: Sequence[Concepts], trace: Concepts
) -> BudgetCoverage:
    """Return M7b: coverage by the summaries that fit a budget of text units.

    Only a prefix counts: the first summary that does not fit blocks those after it. A failed
    summary uses up its size and says nothing.
    """
    found: list[float] = []
    for budget in BUDGETS:
        said: set[str] = set()
        used = 0
        for size, concepts in zip(sizes, summaries, strict=True):
            used += size
            if used > budget:
                break
            said |= concepts
        found.append(measure_coverage(frozenset(said), trace))
    return BudgetCoverage(*found)


NOTHING: Concepts = frozenset()

Extract = Callable[[str], Concepts]


class CaseText(Protocol):
    """The parts of a trace that metrics need."""

    @property
    def whole(self) -> str:
        """The canonical text."""

    @property
    def duration_ms(self) -> int:
        """Virtual time between the first and the last delta."""

    @property
    def is_stub(self) -> bool:
        """Whether the trace is a placeholder."""

    def window(self, start_seq: int, end_seq: int) -> str:
        """Return the text of the deltas from one seq to another, both included."""


def compute_case_metrics(
    log: RunLog,
    trace: CaseText,
    extract: Extract,
    *,
    tokengate_config_hash_match: bool,
    dataset_manifest_hash_valid: bool,
) -> PerCaseMetrics:
    """Return all metrics of one case; outliers are flagged later, over all cases."""
    log = _sort_log(log)
    trace_concepts = extract(trace.whole)
    said = tuple(
        extract(event.summary_semantics_text) if event.schema_ok else NOTHING
        for event in log.events
    )
    values: dict[str, object] = {
        "metrics_type": "per_case",
        "schema_name": "exaid.metrics",
        "schema_version": METRICS_VERSION,
        "outlier_flags": [],
        "outlier_latency_spike": False,
        "outlier_excessive_flushes": False,
        "outlier_low_coverage": False,
        "case_id": strip_case_id(log.meta.case_id),
        "variant_id": log.meta.variant_id,
        "tokengate_config_hash_match": tokengate_config_hash_match,
        "dataset_manifest_hash_valid": dataset_manifest_hash_valid,
        "stub_trace_detected": trace.is_stub,
        **_count_summaries(log),
        **_measure_content(log, said, trace_concepts),
        **_measure_faithfulness(log, said, trace, extract),
        **_measure_usage(log),
        **_measure_pace(log, trace),
    }
    return msgspec.convert(values, PerCaseMetrics)


def _sort_log(log: RunLog) -> RunLog:
    """Return the log with each kind of record in the order of its index."""
    return msgspec.structs.replace(
        log,
        flushes=tuple(sorted(log.flushes, key=lambda flush: flush.flush_index)),
        decisions=tuple(sorted(log.decisions, key=lambda decision: decision.decision_index)),
        events=tuple(sorted(log.events, key=lambda event: event.event_index)),
    )


def find_size(event: SummaryEvent) -> int:
    """Return the recorded size, or the size of the text if an older log has none."""
    recorded: object = event.summary_ctu
    return recorded if isinstance(recorded, int) else count_ctu(event.summary_semantics_text)


def _count_summaries(log: RunLog) -> dict[str, object]:
    """Return M1, M2 and M10; failed summaries count, because they were sent."""
    failures = sum(not event.schema_ok for event in log.events)
    rate = failures / len(log.events) if log.events else 0.0
    return {
        "m1_update_count": len(log.events),
        "m2_output_ctu": sum(find_size(event) for event in log.events),
        "m10_schema_failure_count": failures,
        "m10_schema_failure_rate": rate,
        "m10_compliance_rate": 1.0 - rate,
    }


def _measure_content(log: RunLog, said: tuple[Concepts, ...], trace: Concepts) -> dict[str, object]:
    """Return M3, M4, M5 and M7b; a failed summary has no concepts, which lowers coverage."""
    everything = NOTHING.union(*said)
    jaccards = [measure_jaccard(earlier, later) for earlier, later in pairwise(said)]
    per_summary = [
        measure_unsupported(concepts, trace)
        for event, concepts in zip(log.events, said, strict=True)
        if event.schema_ok and concepts
    ]
    return {
        "m3_redundancy_jaccard_mean": find_mean(jaccards),
        "m3_redundancy_threshold_rates": find_threshold_rates(jaccards),
        "m3_jaccards": jaccards,
        "m4_trace_coverage": measure_coverage(everything, trace),
        "m4_trace_cui_count": len(trace),
        "m4_summary_cui_count": len(everything),
        "m5_unsupported_global_rate": measure_unsupported(everything, trace),
        "m5_unsupported_per_summary_mean": find_mean(per_summary),
        "m7b_coverage_by_budget": measure_coverage_within(
            [find_size(event) for event in log.events], said, trace
        ),
    }


def _measure_faithfulness(
    log: RunLog, said: tuple[Concepts, ...], trace: CaseText, extract: Extract
) -> dict[str, object]:
    """Return M6a against the window, and M6b against the window and the summary before it."""
    by_id = {event.event_id: event for event in log.events}
    alone: list[float] = []
    with_latest: list[float] = []
    for event, concepts in zip(log.events, said, strict=True):
        if not event.schema_ok:
            continue
        if not concepts:
            # Without concepts nothing needs support.
            alone.append(0.0)
            with_latest.append(0.0)
            continue
        window = trace.window(event.start_seq, event.end_seq)
        alone.append(measure_unsupported(concepts, extract(window)))
        with_latest.append(
            measure_unsupported(concepts, extract(find_support_text(window, event, by_id)))
        )
    return {
        "m6a_mean": find_mean(alone),
        "m6b_mean": find_mean(with_latest),
        "faithfulness_valid_event_count": len(alone),
        "excluded_from_faithfulness_count": len(log.events) - len(alone),
    }


def find_support_text(window: str, event: SummaryEvent, by_id: dict[str, SummaryEvent]) -> str:
    """Return the text that may support an event: its window and the summary before it.

    An id that names no event adds nothing; a failed summary counts like any other.
    """
    latest = event.latest_summary_event_id
    if not isinstance(latest, str) or latest not in by_id:
        return window
    return f"{window} {by_id[latest].summary_semantics_text}"


def _measure_usage(log: RunLog) -> dict[str, object]:
    summary = _list_latencies(log.events)
    decision = _list_latencies(log.decisions)
    records: tuple[SummaryEvent | BufferDecision, ...] = (*log.events, *log.decisions)
    # Older logs may have no usage, and any log may lack a part of it.
    prompt = sum(
        _convert_count(getattr(record.llm_usage, "prompt_ctu", None)) for record in records
    )
    completion = sum(
        _convert_count(getattr(record.llm_usage, "completion_ctu", None)) for record in records
    )
    return {
        "m8_summary_latency_ms_mean": find_mean(summary),
        "m8_buffer_decision_latency_ms_mean": find_mean(decision),
        "m8_summary_latency_distribution_ms": _describe_spread(summary),
        "m8_buffer_decision_latency_distribution_ms": _describe_spread(decision),
        "m8_summary_latencies_ms": list(summary),
        "m8_buffer_decision_latencies_ms": list(decision),
        "m9_prompt_ctu_total": prompt,
        "m9_completion_ctu_total": completion,
        "m9_total_llm_ctu": prompt + completion,
        "m9_buffer_decision_count": len(log.decisions),
        "m9_buffer_decision_ctu": sum(_convert_count(d.input_ctu) for d in log.decisions),
        "m9_decision_counts": dict(sorted(Counter(d.decision for d in log.decisions).items())),
    }


def _describe_spread(values: Sequence[float]) -> Distribution | None:
    found = summarize_distribution(values)
    return None if found is None else msgspec.convert(found, Distribution)


def _list_latencies(records: Iterable[SummaryEvent | BufferDecision]) -> tuple[float, ...]:
    return tuple(
        float(record.latency_ms)
        for record in records
        if isinstance(record.latency_ms, (int, float))
    )


def _convert_count(value: object) -> int:
    return value if isinstance(value, int) else 0


def _measure_pace(log: RunLog, trace: CaseText) -> dict[str, object]:
    """Return flushes, throughput in virtual time, and the split of the latency."""
    sizes = tuple(flush.accumulated_ctu for flush in log.flushes)
    intervals, dropped = measure_flush_intervals(log.flushes)
    trace_ctu = count_ctu(trace.whole)
    output = sum(find_size(event) for event in log.events)
    control = sum(_list_latencies(log.decisions))
    content = sum(_list_latencies(log.events))
    return {
        "flush_count": len(log.flushes),
        "flush_reason_counts": count_reasons(log.flushes),
        "flush_accumulated_ctu_distribution": _describe_spread(sizes),
        "flush_interval_ms_distribution": _describe_spread(intervals),
        "flush_accumulated_ctus": list(sizes),
        "flush_intervals_ms": list(intervals),
        "flush_intervals_dropped_count": dropped,
        "virtual_time_duration_ms": trace.duration_ms,
        "trace_ctu": trace_ctu,
        "trace_ctu_per_s": divide_by_seconds(trace_ctu, trace.duration_ms),
        "summary_ctu_per_s": divide_by_seconds(output, trace.duration_ms),
        "control_plane_latency_ms": control,
        "content_plane_latency_ms": content,
        "total_plane_latency_ms": control + content,
        "control_plane_latency_pct": find_share(control, control + content),
        "content_plane_latency_pct": find_share(content, control + content),
    }
