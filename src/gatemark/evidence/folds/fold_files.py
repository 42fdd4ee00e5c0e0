"""Folding evidence files on an engine, except those whose facts were kept from an earlier time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import Any

import msgspec

from gatemark.core.exam import Exam
from gatemark.core.measurement import EvidenceFile
from gatemark.core.progress import Progress
from gatemark.evidence.engines.port import Engine
from gatemark.evidence.folds.fold_cache import (
    MIN_BYTES,
    FactsKeeper,
    Kept,
    Stamp,
    checksum_of,
    evidence_file,
    facts_key,
    settled_stamp,
    stamp_of,
)
from gatemark.evidence.folds.shard import ExamJob, FileDigest, ShardOutcome, examine_task
from gatemark.evidence.source import Shard, Source, split_sources

SHARD_BYTES = 32 * 1024 * 1024
ALONE_BYTES = 16 * 1024 * 1024
"""Up to so much is read in this process: others would take longer to start."""


class CachePolicy(msgspec.Struct, frozen=True):
    """Where facts are kept, and whether kept ones may stand in for reading."""

    keeper: FactsKeeper
    clock: Callable[[], datetime]
    trusted: bool = True


class FoldedFiles(msgspec.Struct, frozen=True):
    """Every file read or known: one state for all, and the account of lines.

    ``shards`` and ``outcomes`` are those that were read now. ``hashes`` holds eight bytes for the
    id of each accepted record.
    """

    files: tuple[EvidenceFile, ...]
    shards: tuple[Shard, ...]
    outcomes: tuple[ShardOutcome, ...]
    hashes: bytearray
    state: Any
    accepted: int
    rejected: int


def fold_files(
    job: ExamJob,
    exam: Exam[Any],
    sources: Sequence[Source],
    engine: Engine,
    *,
    keeping: CachePolicy | None = None,
    on_progress: Progress | None = None,
) -> FoldedFiles:
    """Fold every file that is not known, and keep what was learned of large clean ones."""
    key = None if keeping is None else facts_key(job, exam)
    shards = split_sources(tuple(sources), parts=1 << 16, min_bytes=SHARD_BYTES)
    known = _known(sources, keeping, key)
    unknown = [source for source in sources if source.path not in known]
    stamps = {source.path: stamp_of(source) for source in unknown}
    digests: dict[str, EvidenceFile] = {}
    outcomes: list[ShardOutcome] = []
    wanted = tuple(shard for shard in shards if shard.source.path not in known)
    for found in _done(job, (*unknown, *wanted), engine, on_progress):
        if isinstance(found, FileDigest):
            digests[found.file.name] = found.file
        else:
            outcomes.append(found)
    outcomes.sort(key=lambda outcome: outcome.shard)

    total: Any = None
    hashes = bytearray()
    files = []
    for source in sources:
        own = [outcome for outcome in outcomes if shards[outcome.shard].source is source]
        kept = known.get(source.path)
        if kept is None:
            part = _Part(source, digests[source.name], own, exam)
            if keeping is not None and key is not None and part.is_clean:
                part.keep(keeping, key, stamps[source.path])
        else:
            first = next(shard.index for shard in shards if shard.source is source)
            part = _Part.known(source, kept, exam, first)
        total = part.state if total is None else exam.merge(total, part.state)
        hashes += part.ids
        files.append(part.file)
    read = tuple(msgspec.structs.replace(outcome, ids=b"", state=b"") for outcome in outcomes)
    return FoldedFiles(
        files=tuple(files),
        shards=wanted,
        outcomes=read,
        hashes=hashes,
        state=total,
        accepted=len(hashes) // 8,
        rejected=sum(outcome.rejected for outcome in read),
    )


class _Part:
    """What one file brings: its name by digest, its ids and its state."""

    def __init__(
        self, source: Source, file: EvidenceFile, outcomes: Sequence[ShardOutcome], exam: Exam[Any]
    ) -> None:
        self.source = source
        self.file = file
        self.outcomes = outcomes
        self.exam = exam
        self.ids = b"".join(outcome.ids for outcome in outcomes)
        self.state: Any = None
        for outcome in outcomes:
            state = msgspec.msgpack.decode(outcome.state, type=exam.state)
            self.state = state if self.state is None else exam.merge(self.state, state)

    @classmethod
    def known(cls, source: Source, kept: Kept, exam: Exam[Any], first_shard: int) -> _Part:
        """The part of a file whose facts were kept."""
        part = cls(source, evidence_file(kept, source), (), exam)
        part.ids = kept.ids
        part.state = exam.rebase_shard(
            msgspec.msgpack.decode(kept.state, type=exam.state), first_shard
        )
        return part

    @property
    def is_clean(self) -> bool:
        """Whether the file is worth keeping and nothing of it was refused or doubted."""
        return (
            self.source.byte_count >= MIN_BYTES
            and not any(outcome.rejected for outcome in self.outcomes)
            and not self.exam.needs_strict_pass(self.state)
        )

    def keep(self, keeping: CachePolicy, key: str, before: Stamp | None) -> None:
        """Keep the facts for another time."""
        first = self.outcomes[0].shard
        kept = Kept(
            format="gatemark.facts/1",
            key=key,
            digest=self.file.digest,
            byte_count=self.file.byte_count,
            checksum=checksum_of(self.source),
            stamp=settled_stamp(before, stamp_of(self.source), keeping.clock()),
            line_count=sum(outcome.line_count for outcome in self.outcomes),
            accepted=len(self.ids) // 8,
            ids=self.ids,
            state=msgspec.msgpack.encode(self.exam.rebase_shard(self.state, 0)),
        )
        self.state = self.exam.rebase_shard(self.state, first)
        keeping.keeper.keep(kept)


def _known(
    sources: Sequence[Source], keeping: CachePolicy | None, key: str | None
) -> dict[str, Kept]:
    if keeping is None or key is None or not keeping.trusted:
        return {}
    found = {source.path: keeping.keeper.find(source, key) for source in sources}
    return {path: kept for path, kept in found.items() if kept is not None}


def _done(
    job: ExamJob, tasks: Sequence[Source | Shard], engine: Engine, on_progress: Progress | None
) -> Iterator[FileDigest | ShardOutcome]:
    sizes = {task.index: task.size for task in tasks if isinstance(task, Shard)}
    total, done = sum(sizes.values()), 0
    work = partial(examine_task, job)
    for data in map(work, tasks) if total <= ALONE_BYTES else engine.run(work, tasks):
        found = msgspec.msgpack.decode(data, type=FileDigest | ShardOutcome)
        if isinstance(found, ShardOutcome) and on_progress is not None:
            done += sizes[found.shard]
            on_progress(done, total)
        yield found
