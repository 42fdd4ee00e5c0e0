"""``gatemark runlog errors``: analyse the cases that stand out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from gatemark.core.errors import BadInputError
from gatemark.evidence.settings_file import about
from gatemark.evidence.source import ReadingChoices, inspect_source
from gatemark.exams.runlog.concepts.choose import ExtractorSpec, load_extractor
from gatemark.exams.runlog.metrics.error_analysis import DEFAULT_EXCERPT_CHARS, case_analysis
from gatemark.exams.runlog.metrics.measure_case import TracedCase, find_logs
from gatemark.exams.runlog.read_rows import read_rows
from gatemark.exams.runlog.records.metrics import PerCaseMetrics
from gatemark.exams.runlog.records.names import plain_case_id
from gatemark.exams.runlog.records.trace_rules import Mode
from gatemark.exams.runlog.traces.files import (
    cases_of_traces,
    find_traces,
    read_run_log,
    read_trace,
)
from gatemark.exams.runlog.traces.trace import TextCompat, TracesFolder

ERRORS_FILE = "error_analysis.jsonl"


class ErrorsRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The metrics to read, and the folders of their logs and traces."""

    metrics: Annotated[
        str, about("per_case.metrics.jsonl of gatemark runlog metrics.", metavar="FILE")
    ] = "data/metrics/per_case.metrics.jsonl"
    runs: Annotated[str, about("Folder of run logs.", "--runs", "--run-logs", metavar="DIR")] = (
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


class ErrorsFound(msgspec.Struct, frozen=True):
    """The analyses, one per case that stands out."""

    case_count: int
    analyses: tuple[dict[str, object], ...]

    def lines(self) -> bytes:
        """Return the analyses as JSON Lines."""
        encode = msgspec.json.Encoder(order="sorted").encode
        return b"".join(encode(analysis) + b"\n" for analysis in self.analyses)


def analyse_errors(request: ErrorsRequest) -> ErrorsFound:
    """Analyse every case that the metrics flag."""
    rows = read_rows(inspect_source(request.metrics), ReadingChoices())
    flagged = [row for row in rows if row.outlier_flags]
    traces = cases_of_traces(find_traces(request.traces))
    logs = find_logs(request.runs, tuple(sorted({row.variant_id for row in flagged})))
    analyses = tuple(_analysed(request, row, logs, traces) for row in flagged)
    return ErrorsFound(case_count=len(rows), analyses=analyses)


def _analysed(
    request: ErrorsRequest,
    row: PerCaseMetrics,
    logs: dict[str, dict[str, str]],
    traces: dict[str, Path],
) -> dict[str, object]:
    log_path = logs.get(row.variant_id, {}).get(plain_case_id(row.case_id))
    trace_path = traces.get(plain_case_id(row.case_id))
    if log_path is None or trace_path is None:
        lost, where = ("log", request.runs) if log_path is None else ("trace", request.traces)
        raise BadInputError(f"{where}: has no {lost} of {row.case_id} under {row.variant_id}")
    mode: Mode = "inspect" if request.compat == "source" else "strict"
    trace = read_trace(str(trace_path), mode=mode, allow_stub=True)
    log = read_run_log(log_path, compat=request.compat)
    if log.meta.trace_file_hash != trace.file_hash:
        raise BadInputError(f"{log_path}: was made from another trace than {trace_path.name}")
    if plain_case_id(log.meta.case_id) != plain_case_id(row.case_id):
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
    return case_analysis(
        row,
        log,
        TracedCase(trace.trace, request.compat),
        excerpt_chars=request.excerpt_chars,
        extract=extract,
    )
