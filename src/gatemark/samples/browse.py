"""One log to browse: a summary, and its samples with the worst first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from gatemark.core.errors import UsageError
from gatemark.evidence.reading_choices import ReadingChoices
from gatemark.evidence.record_schemas import schemas
from gatemark.evidence.source import Source
from gatemark.evidence.whole_file import admitted_batches
from gatemark.samples.importer import (
    SAMPLE_SCHEMA,
    ForeignSample,
    Imported,
    ReadOptions,
    import_files,
)
from gatemark.samples.read_samples import AUTO, SampleRequest, is_own_file
from gatemark.samples.records import Sample

MAX_SAMPLES: Final = 50_000
"""Samples beyond this number are counted but not listed."""


class ScoreColumn(msgspec.Struct, frozen=True):
    """One score over the whole log; samples without it are counted separately."""

    name: str
    count: int
    mean: float | None
    missing: int


class LogSample(msgspec.Struct, frozen=True):
    """One sample of a log, prepared for display."""

    id: str
    epoch: int
    scores: dict[str, float | None]
    error: str | None
    input: object
    target: object
    output: object
    latency_ms: float | None


class LogView(msgspec.Struct, frozen=True, kw_only=True):
    """A whole log. ``samples`` has errors first, then the lowest scores."""

    name: str
    tool: str
    arm: str | None
    sample_count: int
    error_count: int
    refused: tuple[str, ...]
    notes: tuple[str, ...]
    scores: tuple[ScoreColumn, ...]
    lineage: dict[str, str]
    samples: tuple[LogSample, ...]

    @property
    def unlisted_count(self) -> int:
        """The number of samples that are not listed."""
        return self.sample_count - len(self.samples)

    def search(self, text: str) -> Sequence[LogSample]:
        """Return the samples whose id contains a text, ignoring case."""
        wanted = text.casefold()
        return [one for one in self.samples if wanted in one.id.casefold()]


class _Gathering:
    """Counts samples as they arrive, and keeps the first ones."""

    def __init__(self) -> None:
        self.count = 0
        self.errors = 0
        self.kept: list[LogSample] = []
        self.sums: dict[str, tuple[int, float]] = {}

    def add(self, samples: Iterable[Sample | ForeignSample]) -> None:
        for sample in samples:
            self.count += 1
            self.errors += sample.error is not None
            for name, score in sample.scores.items():
                count, total = self.sums.get(name, (0, 0.0))
                self.sums[name] = (count, total) if score is None else (count + 1, total + score)
            if len(self.kept) < MAX_SAMPLES:
                self.kept.append(_make_log_sample(sample))

    def columns(self) -> tuple[ScoreColumn, ...]:
        return tuple(
            ScoreColumn(name, count, total / count if count else None, self.count - count)
            for name, (count, total) in sorted(self.sums.items())
        )


def browse_log(source: Source, request: SampleRequest, choices: ReadingChoices) -> LogView:
    """Read one log, of Gatemark or of another tool, for browsing."""
    found = _Gathering()
    log: Imported | None = None
    if request.tool == AUTO and not request.columns and is_own_file(source, choices):
        if request.arm is not None:
            raise UsageError(f"{source.name}: {SAMPLE_SCHEMA} has no arms; leave out --arm")
        form = schemas().get(SAMPLE_SCHEMA).form("sample")
        for batch in admitted_batches(source, form, choices):
            found.add(record for _, record in batch)
    else:
        options = ReadOptions(arm=request.arm, id_path=request.id_path, columns=request.columns)
        (log,) = import_files([Path(source.path)], tool=request.tool, options=options)
        found.add(log.samples)
    return LogView(
        name=source.name,
        tool=SAMPLE_SCHEMA if log is None else log.origin.name,
        arm=None if log is None else log.arm,
        sample_count=found.count,
        error_count=found.errors,
        refused=() if log is None else tuple(f"{one.place}: {one.reason}" for one in log.refused),
        notes=() if log is None else (*log.origin.partial, *log.origin.contradictions, *log.notes),
        scores=found.columns(),
        lineage={} if log is None else log.lineage,
        samples=tuple(sorted(found.kept, key=_rank_sample)),
    )


def _make_log_sample(sample: Sample | ForeignSample) -> LogSample:
    error = sample.error
    return LogSample(
        id=sample.id,
        epoch=sample.epoch,
        scores=sample.scores,
        error=None if error is None else f"{error.kind}: {error.message}",
        input=sample.input,
        target=sample.target,
        output=sample.output,
        latency_ms=sample.latency_ms,
    )


def _rank_sample(sample: LogSample) -> tuple[int, float, str, int]:
    """Sort key: errors, then samples without a number, then the lowest mean score."""
    known = [score for score in sample.scores.values() if score is not None]
    rank = 0 if sample.error is not None else 1 if not known else 2
    return rank, sum(known) / len(known) if known else 0.0, sample.id, sample.epoch
