"""Analyse a case that stands out: excerpts, decisions and outputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import msgspec

from gatemark.exams.runlog.metrics.case import Extract, support_text
from gatemark.exams.runlog.records.metrics import PerCaseMetrics
from gatemark.exams.runlog.records.run import RunLog, SummaryEvent
from gatemark.statistics.quantiles import linear_percentile

HIGH_PERCENT = 95
LOW_PERCENT = 5
LATENCY, FLUSHES, COVERAGE = "latency_spike", "excessive_flushes", "low_coverage"


class Thresholds(msgspec.Struct, frozen=True):
    """Thresholds beyond which a case is an outlier; None without values."""

    latency_ms: float | None
    flush_count: float | None
    coverage: float | None


def outlier_thresholds(rows: Sequence[PerCaseMetrics]) -> Thresholds:
    """Return the 95th percentiles of latency and flushes and the 5th of coverage."""
    latencies = [
        row.m8_summary_latency_ms_mean for row in rows if row.m8_summary_latency_ms_mean is not None
    ]
    return Thresholds(
        latency_ms=linear_percentile(latencies, HIGH_PERCENT),
        flush_count=linear_percentile([_flush_count(row) for row in rows], HIGH_PERCENT),
        coverage=linear_percentile([row.m4_trace_coverage for row in rows], LOW_PERCENT),
    )


def with_outliers(rows: Sequence[PerCaseMetrics]) -> tuple[PerCaseMetrics, ...]:
    """Return the rows with their flags; a value exactly on the threshold is not an outlier."""
    lines = outlier_thresholds(rows)
    return tuple(_flagged(row, lines) for row in rows)


def _flagged(row: PerCaseMetrics, lines: Thresholds) -> PerCaseMetrics:
    latency = row.m8_summary_latency_ms_mean
    is_slow = latency is not None and lines.latency_ms is not None and latency > lines.latency_ms
    is_busy = lines.flush_count is not None and _flush_count(row) > lines.flush_count
    is_thin = lines.coverage is not None and row.m4_trace_coverage < lines.coverage
    names = ((LATENCY, is_slow), (FLUSHES, is_busy), (COVERAGE, is_thin))
    return msgspec.structs.replace(
        row,
        outlier_flags=[name for name, found in names if found],
        outlier_latency_spike=is_slow,
        outlier_excessive_flushes=is_busy,
        outlier_low_coverage=is_thin,
    )


def _flush_count(row: PerCaseMetrics) -> int:
    return row.flush_count if isinstance(row.flush_count, int) else 0


DEFAULT_EXCERPT_CHARS = 500


class WindowText(Protocol):
    """A trace whose text can be read by window."""

    @property
    def whole(self) -> str:
        """The canonical text."""
        ...

    def window(self, start_seq: int, end_seq: int) -> str:
        """Return the text of the deltas from one seq to another, both included."""
        ...


def case_analysis(
    row: PerCaseMetrics,
    log: RunLog,
    trace: WindowText,
    *,
    excerpt_chars: int = DEFAULT_EXCERPT_CHARS,
    extract: Extract | None = None,
) -> dict[str, object]:
    """Return one line of an error analysis; with an extractor, also the concepts at fault."""
    found = {
        "case_id": row.case_id,
        "variant_id": row.variant_id,
        "outlier_flags": row.outlier_flags,
        "outlier_latency_spike": row.outlier_latency_spike,
        "outlier_excessive_flushes": row.outlier_excessive_flushes,
        "outlier_low_coverage": row.outlier_low_coverage,
        "metrics": {
            "m1_update_count": row.m1_update_count,
            "m4_trace_coverage": row.m4_trace_coverage,
            "m6a_mean": row.m6a_mean,
            "m6b_mean": row.m6b_mean,
            "m8_summary_latency_ms_mean": row.m8_summary_latency_ms_mean,
            "m10_schema_failure_count": row.m10_schema_failure_count,
        },
        "trace_excerpts": [
            {
                "event_id": event.event_id,
                "start_seq": event.start_seq,
                "end_seq": event.end_seq,
                "text": excerpt(trace.window(event.start_seq, event.end_seq), excerpt_chars),
            }
            for event in log.events
        ],
        "gate_decisions": [*_flushes(log), *_decisions(log)],
        "summary_outputs": [_output(event, excerpt_chars) for event in log.events],
    }
    if extract is not None:
        found["concepts"] = _concepts(log, trace, extract)
    return found


def excerpt(text: str, limit: int) -> str:
    """Return the beginning of a text, with an ellipsis if it was cut."""
    return text if len(text) <= limit else text[: max(0, limit - 1)] + "…"


def _flushes(log: RunLog) -> Iterator[dict[str, object]]:
    for flush in log.flushes:
        yield {
            "kind": "tokengate_flush",
            "index": flush.flush_index,
            "timestamp": flush.timestamp,
            "start_seq": flush.start_seq,
            "end_seq": flush.end_seq,
            "trigger_reason": _plain(flush.trigger_reason),
            "accumulated_ctu": flush.accumulated_ctu,
        }


def _decisions(log: RunLog) -> Iterator[dict[str, object]]:
    for decision in log.decisions:
        yield {
            "kind": "buffer_decision",
            "index": decision.decision_index,
            "timestamp": decision.timestamp,
            "decision": decision.decision,
            "filter_results": _plain(decision.filter_results),
            "input_ctu": _plain(decision.input_ctu),
            "latency_ms": _plain(decision.latency_ms),
        }


def _output(event: SummaryEvent, limit: int) -> dict[str, object]:
    return {
        "event_id": event.event_id,
        "schema_ok": event.schema_ok,
        "failure_mode": _plain(event.failure_mode),
        "schema_error": _plain(event.schema_error),
        "latency_ms": _plain(event.latency_ms),
        "summary_ctu": _plain(event.summary_ctu),
        "text": excerpt(event.summary_semantics_text, limit),
    }


def _concepts(log: RunLog, trace: WindowText, extract: Extract) -> dict[str, object]:
    """Return concepts that no summary has, and unsupported concepts of each summary."""
    by_id = {event.event_id: event for event in log.events}
    said: set[str] = set()
    unsupported = []
    for event in log.events:
        if not event.schema_ok:
            continue
        concepts = extract(event.summary_semantics_text)
        said |= concepts
        window = trace.window(event.start_seq, event.end_seq)
        missing = concepts - extract(support_text(window, event, by_id))
        if missing:
            unsupported.append({"event_id": event.event_id, "concepts": sorted(missing)})
    return {"missed": sorted(extract(trace.whole) - said), "unsupported": unsupported}


def _plain(value: object) -> object:
    return None if value is msgspec.UNSET else msgspec.to_builtins(value)
