"""``gatemark runlog errors``: flag the cases that stand out, and analyse them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, Struct

from gatemark.core.errors import BadInputError
from gatemark.evidence.exam_options import option
from gatemark.evidence.reading_choices import ReadingChoices
from gatemark.evidence.source import inspect_source
from gatemark.plugins.runlog.concepts.choose import ExtractorSpec, load_extractor
from gatemark.plugins.runlog.examine import read_rows
from gatemark.plugins.runlog.metrics.case import CaseText, Extract, find_support_text
from gatemark.plugins.runlog.metrics.find_logs import find_logs
from gatemark.plugins.runlog.records.metrics import PerCaseMetrics
from gatemark.plugins.runlog.records.names import strip_case_id
from gatemark.plugins.runlog.records.run import BufferDecision, RunLog, TokengateFlush
from gatemark.plugins.runlog.records.trace_file_rules import Mode
from gatemark.plugins.runlog.traces.files import (
    find_traces,
    group_traces_by_case,
    read_run_log,
    read_trace,
    render_json_lines,
)
from gatemark.plugins.runlog.traces.trace import TextCompat, TracesFolder, TraceText
from gatemark.statistics.quantiles import linear_percentile

HIGH_PERCENT = 95
LOW_PERCENT = 5
LATENCY, FLUSHES, COVERAGE = "latency_spike", "excessive_flushes", "low_coverage"


class Thresholds(msgspec.Struct, frozen=True):
    """Thresholds beyond which a case is an outlier; None without values."""

    latency_ms: float | None
    flush_count: float | None
    coverage: float | None


def find_outlier_thresholds(rows: Sequence[PerCaseMetrics]) -> Thresholds:
    """Return the 95th percentiles of latency and flushes and the 5th of coverage."""
    latencies = [
        row.m8_summary_latency_ms_mean for row in rows if row.m8_summary_latency_ms_mean is not None
    ]
    return Thresholds(
        latency_ms=linear_percentile(latencies, HIGH_PERCENT),
        flush_count=linear_percentile([_flush_count(row) for row in rows], HIGH_PERCENT),
        coverage=linear_percentile([row.m4_trace_coverage for row in rows], LOW_PERCENT),
    )


def flag_outliers(rows: Sequence[PerCaseMetrics]) -> tuple[PerCaseMetrics, ...]:
    """Return the rows with their flags; a value exactly on the threshold is not an outlier."""
    lines = find_outlier_thresholds(rows)
    return tuple(_flag_row(row, lines) for row in rows)


def _flag_row(row: PerCaseMetrics, lines: Thresholds) -> PerCaseMetrics:
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
_SHOWN = (
    "m1_update_count",
    "m4_trace_coverage",
    "m6a_mean",
    "m6b_mean",
    "m8_summary_latency_ms_mean",
    "m10_schema_failure_count",
)


def analyse_case(
    row: PerCaseMetrics,
    log: RunLog,
    trace: CaseText,
    *,
    excerpt_chars: int = DEFAULT_EXCERPT_CHARS,
    extract: Extract | None = None,
) -> dict[str, object]:
    """Return one line of an error analysis; with an extractor, also the concepts at fault."""
    found: dict[str, object] = {
        **_pick_fields(row, "case_id", "variant_id", "outlier_flags"),
        **_pick_fields(row, "outlier_latency_spike", "outlier_excessive_flushes"),
        "outlier_low_coverage": row.outlier_low_coverage,
        "metrics": _pick_fields(row, *_SHOWN),
        "trace_excerpts": [
            {
                **_pick_fields(event, "event_id", "start_seq", "end_seq"),
                "text": cut_excerpt(trace.window(event.start_seq, event.end_seq), excerpt_chars),
            }
            for event in log.events
        ],
        "gate_decisions": [
            *map(_describe_flush, log.flushes),
            *map(_describe_decision, log.decisions),
        ],
        "summary_outputs": [
            {
                **_pick_fields(event, "event_id", "schema_ok", "failure_mode", "schema_error"),
                **_pick_fields(event, "latency_ms", "summary_ctu"),
                "text": cut_excerpt(event.summary_semantics_text, excerpt_chars),
            }
            for event in log.events
        ],
    }
    if extract is not None:
        found["concepts"] = _find_concepts(log, trace, extract)
    return found


def cut_excerpt(text: str, limit: int) -> str:
    """Return the beginning of a text, with an ellipsis if it was cut."""
    return text if len(text) <= limit else text[: max(0, limit - 1)] + "…"


def _describe_flush(flush: TokengateFlush) -> dict[str, object]:
    names = ("timestamp", "start_seq", "end_seq", "trigger_reason", "accumulated_ctu")
    return {"kind": "tokengate_flush", "index": flush.flush_index, **_pick_fields(flush, *names)}


def _describe_decision(decision: BufferDecision) -> dict[str, object]:
    names = ("timestamp", "decision", "filter_results", "input_ctu", "latency_ms")
    return {
        "kind": "buffer_decision",
        "index": decision.decision_index,
        **_pick_fields(decision, *names),
    }


def _pick_fields(record: Struct, *names: str) -> dict[str, object]:
    """Return some fields of a record as plain values; null where it has none."""
    values = {name: getattr(record, name) for name in names}
    return {
        name: None if value is UNSET else msgspec.to_builtins(value)
        for name, value in values.items()
    }


def _find_concepts(log: RunLog, trace: CaseText, extract: Extract) -> dict[str, object]:
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
        missing = concepts - extract(find_support_text(window, event, by_id))
        if missing:
            unsupported.append({"event_id": event.event_id, "concepts": sorted(missing)})
    return {"missed": sorted(extract(trace.whole) - said), "unsupported": unsupported}


ERRORS_FILE = "error_analysis.jsonl"


class ErrorsRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The metrics to read, and the folders of their logs and traces."""

    metrics: Annotated[
        str, option("per_case.metrics.jsonl of gatemark runlog metrics.", metavar="FILE")
    ] = "data/metrics/per_case.metrics.jsonl"
    runs: Annotated[str, option("Folder of run logs.", "--runs", "--run-logs", metavar="DIR")] = (
        "data/runs"
    )
    traces: TracesFolder = "data/traces"
    compat: TextCompat = "gatemark"
    excerpt_chars: Annotated[
        int,
        Meta(
            ge=1,
            le=1_000_000,
            description="Maximum length of an excerpt in characters.",
            extra={"flags": ("--max-excerpt-chars",)},
        ),
    ] = DEFAULT_EXCERPT_CHARS
    extractor: ExtractorSpec | None = None


class ErrorAnalysis(msgspec.Struct, frozen=True):
    """The analyses, one per case that stands out."""

    case_count: int
    analyses: tuple[dict[str, object], ...]

    def lines(self) -> bytes:
        """Return the analyses as JSON Lines."""
        return render_json_lines(self.analyses)


def analyse_errors(request: ErrorsRequest) -> ErrorAnalysis:
    """Analyse every case that the metrics flag."""
    rows = read_rows(inspect_source(request.metrics), ReadingChoices())
    flagged = [row for row in rows if row.outlier_flags]
    traces = group_traces_by_case(find_traces(request.traces))
    logs = find_logs(request.runs, tuple(sorted({row.variant_id for row in flagged})))
    analyses = tuple(_analyse_flagged(request, row, logs, traces) for row in flagged)
    return ErrorAnalysis(case_count=len(rows), analyses=analyses)


def _analyse_flagged(
    request: ErrorsRequest,
    row: PerCaseMetrics,
    logs: dict[str, dict[str, str]],
    traces: dict[str, Path],
) -> dict[str, object]:
    log_path = logs.get(row.variant_id, {}).get(strip_case_id(row.case_id))
    trace_path = traces.get(strip_case_id(row.case_id))
    if log_path is None or trace_path is None:
        lost, where = ("log", request.runs) if log_path is None else ("trace", request.traces)
        raise BadInputError(f"{where}: has no {lost} of {row.case_id} under {row.variant_id}")
    mode: Mode = "inspect" if request.compat == "source" else "strict"
    trace = read_trace(str(trace_path), mode=mode, allow_stub=True)
    log = read_run_log(log_path, compat=request.compat)
    if log.meta.trace_file_hash != trace.file_hash:
        raise BadInputError(f"{log_path}: was made from another trace than {trace_path.name}")
    if strip_case_id(log.meta.case_id) != strip_case_id(row.case_id):
        raise BadInputError(f"{log_path}: is of case {log.meta.case_id!r}, not {row.case_id!r}")
    counts = (len(log.events), len(log.decisions), sum(not one.schema_ok for one in log.events))
    if counts != (
        row.m1_update_count,
        row.m9_buffer_decision_count,
        row.m10_schema_failure_count,
    ):
        raise BadInputError(
            f"{log_path}: is not the log that was measured (it has {counts[0]} summaries, "
            f"{counts[1]} decisions and {counts[2]} failures; the metrics count "
            f"{row.m1_update_count}, {row.m9_buffer_decision_count} and "
            f"{row.m10_schema_failure_count})"
        )
    extract = None if request.extractor is None else load_extractor(request.extractor).concepts
    return analyse_case(
        row,
        log,
        TraceText(trace.trace, request.compat),
        excerpt_chars=request.excerpt_chars,
        extract=extract,
    )
