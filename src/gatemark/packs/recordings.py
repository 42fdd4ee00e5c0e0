"""Answers recorded earlier: our own samples, or the log of any tool that ``import`` reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from gatemark.core.canonical import digest_bytes
from gatemark.core.errors import BadInputError
from gatemark.evidence.rows import names_schema
from gatemark.evidence.source import (
    Limits,
    inspect_source,
    read_blocks,
    split_sources,
)
from gatemark.packs.answers import ItemKey, read_sample_lines
from gatemark.samples.importer import SAMPLE_SCHEMA, ReadOptions, as_record, import_files, log_file
from gatemark.samples.read_samples import AUTO
from gatemark.samples.records import SampleError, SampleOrigin
from gatemark.scorers.recorded import NAME

ARM_MARK: Final = "#"
MOST_LISTED: Final = 5
UNNAMED: Final = "a tool that it does not name"
_ENCODER: Final = msgspec.json.Encoder(order="sorted")


class RecordedScores(msgspec.Struct, frozen=True):
    """The scores that came with an answer, and the tool that gave them."""

    scores: dict[str, float | None]
    origin: SampleOrigin | None = None

    @property
    def scored_by(self) -> str:
        """The tool that scored, for people."""
        return UNNAMED if self.origin is None else self.origin.name

    def sample(self) -> dict[str, object]:
        """What a scorer gets to see of it."""
        return {"scores": dict(self.scores)}


class _RecordedRow(msgspec.Struct, frozen=True):
    """What a recorded sample must at least be, for its answer to be used."""

    id: str
    epoch: int
    scores: dict[str, float | None] | None = None
    error: SampleError | None = None
    latency_ms: float | None = None
    confidence: float | None = None


def recorded_rows(
    path: Path, *, tool: str = AUTO, options: ReadOptions | None = None
) -> tuple[list[dict[str, Any]], str]:
    """The samples of a recording, and a digest of them.

    ``log.json#ARM`` names one of several experiments in a log. A log that contradicts its own
    aggregates is read too: its samples say so, and ``contradiction_of`` tells.
    """
    file, arm = _named_arm(path)
    options = options or ReadOptions()
    arm = options.arm or arm
    asked = tool != AUTO or options.columns
    if asked or file.is_dir() or not _is_own(file):
        return _imported(file, tool, msgspec.structs.replace(options, arm=arm))
    if arm is not None:
        raise BadInputError(f"{file}: is gatemark.sample/1 and has no arm {arm!r}")
    data = _lines(file)
    rows = read_sample_lines(data, str(file))
    for number, row in enumerate(rows, start=1):
        try:
            msgspec.convert(row, _RecordedRow)
        except msgspec.ValidationError as error:
            raise BadInputError(f"{file}:{number}: {error}") from error
    return rows, digest_bytes(data)


def scores_of(
    rows: Iterable[Mapping[str, Any]], *, sealed: bool = False
) -> dict[ItemKey, RecordedScores]:
    """The scores of recorded samples by item and epoch.

    In ``sealed`` samples the score ``recorded`` is the one that was taken from the others; a log
    that calls a score so has it under another name.
    """
    found = {}
    for row in rows:
        scores = dict(row.get("scores") or {})
        taken = scores.pop(NAME, None)
        if taken is not None and not sealed:
            scores[f"log.{NAME}"] = taken
        found[row["id"], row["epoch"]] = RecordedScores(scores, _origin(row))
    return found


def _is_own(file: Path) -> bool:
    return names_schema(inspect_source(str(file)), Limits(), SAMPLE_SCHEMA)


def _named_arm(path: Path) -> tuple[Path, str | None]:
    if path.exists() or ARM_MARK not in path.name:
        return path, None
    name, _, arm = path.name.rpartition(ARM_MARK)
    return path.with_name(name), arm or None


def _imported(file: Path, tool: str, options: ReadOptions) -> tuple[list[dict[str, Any]], str]:
    try:
        (log,) = import_files([log_file(file)], tool=tool, options=options)
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
    rows = [as_record(msgspec.structs.replace(one, origin=log.origin)) for one in log.samples]
    # Two arms of one file are two candidates, so the digest is of what was read.
    return rows, digest_bytes(b"\n".join(map(_ENCODER.encode, rows)))


def contradiction_of(rows: Iterable[Mapping[str, object]]) -> str | None:
    """Say how the log that samples come from contradicts itself; None when it does not."""
    for row in rows:
        origin = _origin(row)
        if origin is not None and origin.contradictions:
            told = "; ".join(origin.contradictions[:MOST_LISTED])
            return f"the log of {origin.name} contradicts itself: {told}"
    return None


def _origin(row: Mapping[str, object]) -> SampleOrigin | None:
    found = row.get("origin")
    if found is None:
        return None
    try:
        return msgspec.convert(found, SampleOrigin)
    except msgspec.ValidationError as error:
        raise BadInputError(f"sample {row.get('id')!r}: origin: {error}") from error


def _lines(file: Path) -> bytes:
    source = inspect_source(str(file))
    (shard,) = split_sources((source,), parts=1, min_bytes=1)
    blocks = []
    for block in read_blocks(shard, Limits()):
        if block.overlong:
            raise BadInputError(f"{file}: has a line that is too long")
        blocks.append(block.data)
    return b"".join(blocks)
