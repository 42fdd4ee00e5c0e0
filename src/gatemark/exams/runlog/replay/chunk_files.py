"""V3's chunk size: found from V0's run logs, written as a report, and read back with its pins."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from gatemark.core.atomic import write_whole
from gatemark.core.errors import BadInputError
from gatemark.evidence.settings_file import read_settings
from gatemark.exams.runlog.records.names import UNKNOWN_COMMIT
from gatemark.exams.runlog.records.run import RunLog
from gatemark.exams.runlog.replay.chunks import (
    SUBSET_COUNT,
    ChunkReport,
    calibrate_chunks,
    refuse_mismatch,
)
from gatemark.exams.runlog.replay.config import LoadedVariant
from gatemark.exams.runlog.replay.variant_files import load_variants
from gatemark.exams.runlog.traces.files import read_run_log
from gatemark.exams.runlog.writer import plain_json

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
        case_ids, _logs(places), subset_count=subset_count, code_commit=code_commit
    )
    target = Path(output)
    if target.suffix != ".json":
        target = target / REPORT_NAME
    write_whole(target, [plain_json(report)])
    return target, report


def read_chunk_report(path: str) -> ChunkReport:
    """A report that was written before."""
    try:
        return msgspec.convert(read_settings(path), ChunkReport)
    except msgspec.ValidationError as error:
        raise BadInputError(f"{path}: {error}") from error


def chunk_sizes(
    variants: Sequence[LoadedVariant],
    *,
    configs: str | None,
    report: str | None,
    trace_dataset_hash: str,
    code_commit: str | None,
) -> dict[str, int]:
    """The chunk size of each variant that cuts chunks: as configured, or from a fitting report."""
    sizes: dict[str, int] = {}
    for variant in variants:
        config = variant.config
        if config.variant_id != "V3":
            continue
        size = config.fixed_trigger.chunk_size_ctu
        if size is None or report is not None:
            path = report or _configured(config.v3_calibration.report, configs)
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


def _configured(path: str | None, configs: str | None) -> str:
    if path is None:
        raise BadInputError(
            "V3 has no chunk size: set fixed_trigger.chunk_size_ctu, or name a report with "
            "v3_calibration.report or --v3-report"
        )
    return str(Path(configs or ".") / path)


def _logs(places: Sequence[str]) -> Iterator[RunLog]:
    for place in places:
        path = Path(place)
        files = sorted(path.glob("*.jsonl.gz")) + sorted(path.glob("*.jsonl"))
        for file in files if path.is_dir() else [path]:
            yield read_run_log(str(file), compat="source")
