"""Read recorded answers: samples of Gatemark, or the log of any tool that ``import`` reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from gatemark.core.canonical import digest_bytes
from gatemark.core.errors import BadInputError, IncomparableError
from gatemark.evidence.blocks import read_blocks
from gatemark.evidence.reading_choices import Limits
from gatemark.evidence.rows import names_schema
from gatemark.evidence.shards import split_sources
from gatemark.evidence.source import inspect_source
from gatemark.packs.recorded_scores import read_origin
from gatemark.packs.sample_lines import read_sample_lines
from gatemark.samples.importer import (
    SAMPLE_SCHEMA,
    ReadOptions,
    find_tool_log,
    import_files,
    to_record,
)
from gatemark.samples.read_samples import AUTO
from gatemark.samples.records import SampleError
from gatemark.targets.port import CallError, Reply
from gatemark.targets.recorded import build_recording

ARM_MARK: Final = "#"
MOST_LISTED: Final = 5
_ENCODER: Final = msgspec.json.Encoder(order="sorted")


class _RecordedRow(msgspec.Struct, frozen=True):
    """The fields that a recorded sample needs for its answer to be used."""

    id: str
    epoch: int
    scores: dict[str, float | None] | None = None
    error: SampleError | None = None
    latency_ms: float | None = None
    confidence: float | None = None


def read_recorded_rows(
    path: Path, *, tool: str = AUTO, options: ReadOptions | None = None
) -> tuple[list[dict[str, Any]], str]:
    """Return the samples of a recording and their digest.

    ``log.json#ARM`` names one of several experiments in a log. A log that contradicts its own
    aggregates is read too: its samples say so, and ``contradiction_of`` reports it.
    """
    file, arm = _split_arm(path)
    options = options or ReadOptions()
    arm = options.arm or arm
    asked = tool != AUTO or options.columns
    if asked or file.is_dir() or not _is_sample_file(file):
        return _import_log(file, tool, msgspec.structs.replace(options, arm=arm))
    if arm is not None:
        raise BadInputError(f"{file}: is gatemark.sample/1 and has no arm {arm!r}")
    data = _read_recorded_lines(file)
    rows = read_sample_lines(data, str(file))
    for number, row in enumerate(rows, start=1):
        try:
            msgspec.convert(row, _RecordedRow)
        except msgspec.ValidationError as error:
            raise BadInputError(f"{file}:{number}: {error}") from error
    return rows, digest_bytes(data)


def _is_sample_file(file: Path) -> bool:
    return names_schema(inspect_source(str(file)), Limits(), SAMPLE_SCHEMA)


def _split_arm(path: Path) -> tuple[Path, str | None]:
    if path.exists() or ARM_MARK not in path.name:
        return path, None
    name, _, arm = path.name.rpartition(ARM_MARK)
    return path.with_name(name), arm or None


def _import_log(file: Path, tool: str, options: ReadOptions) -> tuple[list[dict[str, Any]], str]:
    try:
        (log,) = import_files([find_tool_log(file)], tool=tool, options=options)
    except BadInputError as error:
        named = f"{file.name}{ARM_MARK}ARM"
        raise BadInputError(
            tuple(problem.replace("--arm", named) for problem in error.problems),
            unlisted_count=error.unlisted_count,
        ) from error
    if log.refused:
        raise BadInputError(
            tuple(f"{one.place}: {one.reason}" for one in log.refused[:MOST_LISTED]),
            unlisted_count=max(0, len(log.refused) - MOST_LISTED),
        )
    rows = [to_record(msgspec.structs.replace(one, origin=log.origin)) for one in log.samples]
    # Two arms of one file are two candidates, so the digest covers what was read.
    return rows, digest_bytes(b"\n".join(map(_ENCODER.encode, rows)))


def find_contradiction(rows: Iterable[Mapping[str, object]]) -> str | None:
    """Return how the log behind some samples contradicts itself, or None."""
    for row in rows:
        origin = read_origin(row)
        if origin is not None and origin.contradictions:
            listed = "; ".join(origin.contradictions[:MOST_LISTED])
            return f"the log of {origin.name} contradicts itself: {listed}"
    return None


def _read_recorded_lines(file: Path) -> bytes:
    source = inspect_source(str(file))
    (shard,) = split_sources((source,), parts=1, min_bytes=1)
    blocks = []
    for block in read_blocks(shard, Limits()):
        if block.overlong:
            raise BadInputError(f"{file}: has a line that is too long")
        blocks.append(block.data)
    return b"".join(blocks)


def open_recording(path: Path) -> tuple[dict[tuple[str, int], Reply | CallError], str]:
    """Return the recorded samples of a file or another tool's log; refuse a contradictory log.

    Used for judges: no condition on the verdict follows from their replies, so it is refused.
    """
    rows, name = read_recorded_rows(path)
    if (why := find_contradiction(rows)) is not None:
        raise IncomparableError(f"{path}: {why}")
    return build_recording(rows), name
