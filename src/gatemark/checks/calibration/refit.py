"""``gatemark calibration``: refit a map of confidences as a new version.

A refit never touches a live asset. It writes a map, a draft of a new version that pins it, and
samples with recalibrated confidences; the gate judges those like any other candidate.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Literal

import msgspec
import numpy as np

from gatemark.checks.calibration.confidences import Confidences, read_confidences
from gatemark.core.atomic import write_whole
from gatemark.core.canonical import canonical_bytes, digest
from gatemark.core.errors import BadInputError, ExitCode, RefusedError
from gatemark.evidence.reading_choices import ReadingChoices
from gatemark.evidence.record_schemas import schemas
from gatemark.evidence.small_file import read_small_file
from gatemark.evidence.source import opened_sources
from gatemark.evidence.whole_file import admitted_batches
from gatemark.samples.importer import SAMPLE_SCHEMA
from gatemark.statistics.confidence.recalibration import (
    MIN_ITEMS,
    IsotonicMap,
    Kind,
    Refit,
    TemperatureMap,
    judge_refit,
)

MAP_SCHEMA: Final = "gatemark.calibration_map/1"
MAP_FILE: Final = "calibration_map.json"
MAX_MAP_BYTES: Final = 64 * 1024 * 1024
DEFAULT_SEED: Final = 23


class CalibrationMap(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A recalibration map and its origin; versions pin the map by its digest."""

    schema: Literal["gatemark.calibration_map/1"] = "gatemark.calibration_map/1"
    mending: TemperatureMap | IsotonicMap
    fitted_items: int
    held_out_items: int
    gain: tuple[float, float, float]
    evidence_digest: str
    seed: int

    @property
    def digest(self) -> str:
        """Digest of the map."""
        return digest(self)


class RefitRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Which confidences to recalibrate, and how."""

    path: str
    kind: Kind = "temperature"
    score: str | None = None
    seed: int = DEFAULT_SEED
    held_out_share: float = 0.5
    out: str | None = None


class Refitted(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a refit; the fields are the keys of the JSON document."""

    kind: Kind
    is_accepted: bool
    reason: str
    fitted_items: int
    held_out_items: int
    excluded: dict[str, int]
    gain: tuple[float, float, float] | None
    mending: dict[str, Any] | None
    map_digest: str | None
    map_file: str | None
    version: str | None
    next_step: str | None
    exit_code: int


def refit_calibration(
    request: RefitRequest, choices: ReadingChoices, draft: Callable[[bytes], str] | None = None
) -> Refitted:
    """Fit on one half and check on the other; write a map and a version only if the fit helps.

    ``draft`` creates the version that pins a map, given its bytes, and returns its name.
    """
    read = read_confidences(request.path, choices, score=request.score)
    found = judge_refit(
        request.kind,
        np.asarray(read.confidence, dtype=np.float64),
        np.asarray(read.correct, dtype=np.float64),
        np.random.default_rng(request.seed),
        held_out_share=request.held_out_share,
    )
    made = _build_map(found, read, request) if found.is_accepted else None
    place = version = None
    if made is not None and request.out is not None:
        target = Path(request.out) / MAP_FILE
        write_whole(target, [canonical_bytes(made)])
        place = str(target)
    if made is not None and draft is not None:
        version = draft(canonical_bytes(made))
    return Refitted(
        kind=request.kind,
        is_accepted=found.is_accepted,
        reason=found.reason,
        fitted_items=found.fitted_items,
        held_out_items=found.held_out_items,
        excluded=read.excluded,
        gain=_read_gain(found),
        mending=None if found.mending is None else msgspec.to_builtins(found.mending),
        map_digest=None if made is None else made.digest,
        map_file=place,
        version=version,
        next_step=_describe_next_step(version, place),
        exit_code=_choose_exit_code(found),
    )


def apply_map(map_path: str, samples: str, out: str, choices: ReadingChoices) -> int:
    """Write samples with recalibrated confidences; return how many confidences there were."""
    mending = read_map(map_path).mending
    lines: list[bytes] = []
    count = 0
    encoder = msgspec.json.Encoder()
    with opened_sources((samples,), choices.limits) as (source,):
        form = schemas().get(SAMPLE_SCHEMA).form("sample")
        for batch in admitted_batches(source, form, choices):
            for _, sample in batch:
                record = sample
                if sample.confidence is not None:
                    mended = float(mending.apply([sample.confidence])[0])
                    record = msgspec.structs.replace(sample, confidence=min(max(mended, 0.0), 1.0))
                    count += 1
                lines.append(encoder.encode(record) + b"\n")
    write_whole(Path(out), lines)
    return count


def read_map(path: str) -> CalibrationMap:
    """Read the map of a file."""
    try:
        return msgspec.json.decode(read_small_file(path, MAX_MAP_BYTES), type=CalibrationMap)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadInputError(f"{path}: not a {MAP_SCHEMA}: {error}") from error


def _build_map(found: Refit, read: Confidences, request: RefitRequest) -> CalibrationMap:
    gain = _read_gain(found)
    if found.mending is None or gain is None:
        raise RefusedError(found.reason)
    return CalibrationMap(
        mending=found.mending,
        fitted_items=found.fitted_items,
        held_out_items=found.held_out_items,
        gain=gain,
        evidence_digest=read.file.digest,
        seed=request.seed,
    )


def _read_gain(found: Refit) -> tuple[float, float, float] | None:
    if found.gain is None:
        return None
    return (found.gain.estimate, found.gain.low, found.gain.high)


def _describe_next_step(version: str | None, place: str | None) -> str | None:
    if version is None or place is None:
        return None
    return (
        f"gatemark calibration apply {place} SAMPLES -o mended.jsonl; "
        f"gatemark run PACK --candidate mended.jsonl --as {version}"
    )


def _choose_exit_code(found: Refit) -> ExitCode:
    if found.is_accepted:
        return ExitCode.PASS
    too_few = found.fitted_items < MIN_ITEMS[found.kind]
    return ExitCode.INCONCLUSIVE if too_few else ExitCode.FAIL
