"""The chunk size of V3, chosen so that its chunks are as large as the flushes of V0's gate."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Annotated, Final

from msgspec import Meta, Struct

from gatemark.core.atomic import write_whole
from gatemark.core.errors import BadInputError
from gatemark.evidence.settings_file import read_settings, settings_as
from gatemark.exams.runlog.records.names import UNKNOWN_COMMIT, strip_case_id
from gatemark.exams.runlog.records.run import RunLog, TokengateFlush
from gatemark.exams.runlog.replay.config import CalibrationConfig, LoadedVariant, load_variants
from gatemark.exams.runlog.traces.files import read_run_log, render_plain_json

SUBSET_COUNT: Final = 40
EXCLUDED_REASONS: Final = ("end_of_trace", "turn_end")
"""Reasons of flushes that do not show how the gate would have cut."""


class CaseChunks(Struct, frozen=True):
    """The number of flushes of one case that count, if known, and their median size."""

    case_id: str
    flush_count: int | None
    median_ctu: float | None


class ChunkReport(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the chunk size was found, and for which traces, gate and code it is valid."""

    chunk_size_ctu: int
    median_ctu: float
    subset_count: int
    excluded_reasons: tuple[str, ...]
    trace_dataset_hash: str
    tokengate_config_hash: str
    code_commit: str = UNKNOWN_COMMIT
    cases: tuple[CaseChunks, ...] = ()


class SourceReport(Struct, frozen=True, kw_only=True):
    """The fields that are read from a calibration report of the source."""

    chunk_size_ctu: Annotated[int, Meta(ge=1)]
    overall_median_ctu: float
    per_case_median_ctu: dict[str, float | None]
    trace_dataset_hash: str
    tokengate_config_hash: str
    exaid_commit: str = UNKNOWN_COMMIT
    excluded_flush_reasons: tuple[str, ...] = ()


def _convert_source_report(report: SourceReport) -> ChunkReport:
    """Convert a report of the source; refuse one whose numbers contradict each other."""
    medians = report.per_case_median_ctu
    known = [value for value in medians.values() if value is not None]
    middle = median(known) if known else None
    if middle != report.overall_median_ctu or report.chunk_size_ctu != math.ceil(middle):
        raise BadInputError(
            f"the report says chunk_size_ctu {report.chunk_size_ctu} and overall_median_ctu "
            f"{report.overall_median_ctu:g}, but the median of its cases is {middle}"
        )
    return ChunkReport(
        chunk_size_ctu=report.chunk_size_ctu,
        median_ctu=report.overall_median_ctu,
        subset_count=len(medians),
        excluded_reasons=report.excluded_flush_reasons,
        trace_dataset_hash=report.trace_dataset_hash,
        tokengate_config_hash=report.tokengate_config_hash,
        code_commit=report.exaid_commit,
        cases=tuple(
            CaseChunks(strip_case_id(case), None, value) for case, value in medians.items()
        ),
    )


def calibrate_chunks(
    case_ids: Sequence[str],
    logs: Iterable[RunLog],
    *,
    subset_count: int = SUBSET_COUNT,
    code_commit: str = UNKNOWN_COMMIT,
) -> ChunkReport:
    """Return the median, over the first cases, of each case's median flush, rounded up."""
    subset = list(case_ids[:subset_count])
    by_case = _group_by_case(logs, set(subset))
    absent = [case_id for case_id in subset if case_id not in by_case]
    if absent:
        raise BadInputError(f"case {absent[0]!r} has no V0 run log ({len(absent)} have none)")
    cases = tuple(_count_case(case_id, by_case[case_id]) for case_id in subset)
    medians = [case.median_ctu for case in cases if case.median_ctu is not None]
    if not medians:
        raise BadInputError("no case has a flush that counts; the chunk size cannot be found")
    middle = median(medians)
    first = by_case[subset[0]][0]
    return ChunkReport(
        chunk_size_ctu=math.ceil(middle),
        median_ctu=middle,
        subset_count=len(subset),
        excluded_reasons=EXCLUDED_REASONS,
        trace_dataset_hash=first.meta.trace_dataset_hash,
        tokengate_config_hash=first.meta.tokengate_config_hash,
        code_commit=code_commit,
        cases=cases,
    )


def _group_by_case(logs: Iterable[RunLog], wanted: set[str]) -> dict[str, list[RunLog]]:
    """Return the logs of the wanted cases; all must be V0's and of one evaluation."""
    found: dict[str, list[RunLog]] = {}
    pins: set[tuple[str, str]] = set()
    for log in logs:
        meta = log.meta
        if meta.variant_id != "V0":
            raise BadInputError(f"{meta.case_id}: is a log of {meta.variant_id}, expected V0")
        if meta.case_id in wanted:
            found.setdefault(meta.case_id, []).append(log)
            pins.add((meta.trace_dataset_hash, meta.tokengate_config_hash))
    if len(pins) > 1:
        raise BadInputError("the V0 run logs come from different traces or token gates")
    return found


def _count_case(case_id: str, logs: Sequence[RunLog]) -> CaseChunks:
    sizes = {
        _make_key(flush): flush.accumulated_ctu
        for log in logs
        for flush in log.flushes
        if flush.trigger_reason not in EXCLUDED_REASONS
    }
    return CaseChunks(case_id, len(sizes), median(sizes.values()) if sizes else None)


def _make_key(flush: TokengateFlush) -> tuple[object, ...]:
    """Return the key of a flush; equal keys are the same flush."""
    return (
        flush.case_id,
        flush.start_seq,
        flush.end_seq,
        flush.accumulated_ctu,
        flush.trigger_reason,
        flush.text_hash,
    )


def refuse_mismatch(
    report: ChunkReport,
    *,
    trace_dataset_hash: str,
    tokengate_config_hash: str,
    code_commit: str | None,
) -> None:
    """Refuse a report of other traces, another gate, or other code; None skips the code."""
    pins = {
        "trace_dataset_hash": (report.trace_dataset_hash, trace_dataset_hash),
        "tokengate_config_hash": (report.tokengate_config_hash, tokengate_config_hash),
    }
    if code_commit is not None:
        pins["code_commit"] = (report.code_commit, code_commit)
    for name, (stated, expected) in pins.items():
        if stated != expected:
            raise BadInputError(f"the V3 report's {name} must be {expected}, got {stated}")


REPORT_NAME = "v3_calibration.json"


def write_chunk_report(
    case_ids: Sequence[str],
    places: Sequence[str],
    output: str,
    *,
    subset_count: int = SUBSET_COUNT,
    code_commit: str = UNKNOWN_COMMIT,
) -> tuple[Path, ChunkReport]:
    """Calibrate from V0's run logs, given as files or folders, and write the report."""
    report = calibrate_chunks(
        case_ids, _read_logs(places), subset_count=subset_count, code_commit=code_commit
    )
    target = Path(output)
    if target.suffix != ".json":
        target = target / REPORT_NAME
    write_whole(target, [render_plain_json(report)])
    return target, report


def read_chunk_report(path: str) -> ChunkReport:
    """Return a report that Gatemark or the source wrote."""
    raw = read_settings(path)
    if isinstance(raw, dict) and "overall_median_ctu" in raw:
        return _convert_source_report(settings_as(raw, SourceReport, path))
    return settings_as(raw, ChunkReport, path)


def find_chunk_sizes(
    variants: Sequence[LoadedVariant],
    *,
    configs: str | None,
    report: str | None,
    trace_dataset_hash: str,
    code_commit: str | None,
) -> dict[str, int]:
    """Return the chunk size of each variant with chunks: configured, or from a matching report."""
    sizes: dict[str, int] = {}
    for variant in variants:
        config = variant.config
        if config.trigger_policy != "no_tokengate":
            continue
        size = config.fixed_trigger.chunk_size_ctu
        if size is None or report is not None:
            path = report or _find_configured(config.v3_calibration, configs)
            found = read_chunk_report(path)
            (gate,) = load_variants(configs, ("V0",))
            refuse_mismatch(
                found,
                trace_dataset_hash=trace_dataset_hash,
                tokengate_config_hash=gate.tokengate_config_hash,
                code_commit=code_commit,
            )
            size = found.chunk_size_ctu
        sizes[config.variant_id] = size
    return sizes


def _find_configured(calibration: CalibrationConfig, configs: str | None) -> str:
    path = calibration.report or calibration.calibration_report
    if path is None:
        raise BadInputError(
            "V3 has no chunk size: set fixed_trigger.chunk_size_ctu, or name a report with "
            "v3_calibration.report or --v3-report"
        )
    return str(Path(configs or ".") / path)


def _read_logs(places: Sequence[str]) -> Iterator[RunLog]:
    for place in places:
        path = Path(place)
        files = sorted(path.glob("*.jsonl.gz")) + sorted(path.glob("*.jsonl"))
        for file in files if path.is_dir() else [path]:
            yield read_run_log(str(file), compat="source")
