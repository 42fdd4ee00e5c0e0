"""The chunk size of V3: configured, or from a report made for these traces and this gate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Annotated

from msgspec import Meta, Struct

from gatemark.core.errors import BadInputError
from gatemark.evidence.settings_file import read_settings, settings_as
from gatemark.plugins.runlog.records.names import UNKNOWN_COMMIT
from gatemark.plugins.runlog.replay.config import CalibrationConfig, LoadedVariant, load_variants


class ChunkReport(Struct, frozen=True, kw_only=True):
    """The fields that are read of a report on V3's chunk size.

    It is the median, over cases, of the median flush of V0's gate, rounded up; and it is valid for
    the traces, the gate and the code that made those flushes.
    """

    chunk_size_ctu: Annotated[int, Meta(ge=1)]
    overall_median_ctu: float
    per_case_median_ctu: dict[str, float | None]
    trace_dataset_hash: str
    tokengate_config_hash: str
    exaid_commit: str = UNKNOWN_COMMIT


def read_chunk_report(path: str) -> ChunkReport:
    """Return a report on V3's chunk size; refuse one whose numbers contradict each other."""
    report = settings_as(read_settings(path), ChunkReport, path)
    known = [value for value in report.per_case_median_ctu.values() if value is not None]
    middle = median(known) if known else None
    if middle != report.overall_median_ctu or report.chunk_size_ctu != math.ceil(middle):
        raise BadInputError(
            f"{path}: says chunk_size_ctu {report.chunk_size_ctu} and overall_median_ctu "
            f"{report.overall_median_ctu:g}, but the median of its cases is {middle}"
        )
    return report


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
        pins["exaid_commit"] = (report.exaid_commit, code_commit)
    for name, (stated, expected) in pins.items():
        if stated != expected:
            raise BadInputError(f"the V3 report's {name} must be {expected}, got {stated}")


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
