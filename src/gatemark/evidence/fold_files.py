"""Fold whole files, shard by shard or from the cache, into one state; refuse bad lines."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import msgspec

from gatemark.core.measurement import EvidenceFile
from gatemark.core.progress import Progress
from gatemark.evidence.engines.port import Engine
from gatemark.evidence.exam import AnyExam, ExamRun
from gatemark.evidence.exam_job import ExamJob
from gatemark.evidence.fold_cache import (
    MIN_BYTES,
    CachePolicy,
    Kept,
    Stamp,
    evidence_file,
    facts_key,
    stamp_of,
)
from gatemark.evidence.fold_shard import FileDigest, ShardOutcome, examine_shard, examine_task
from gatemark.evidence.input_problems import format_problem, refuse_input
from gatemark.evidence.reading_choices import ReadingChoices
from gatemark.evidence.shards import Shard, split_sources
from gatemark.evidence.source import Source, digested, opened_sources

SHARD_BYTES = 64 * 1024 * 1024
"""A shard costs what its counts cost to send and to add up, however few its records are."""
ALONE_BYTES = 16 * 1024 * 1024
"""Up to this size, files are read in this process: others would take longer to start."""


class FoldedFiles(msgspec.Struct, frozen=True):
    """All files, read or from the cache: one state for all, and line counts.

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
    exam: AnyExam,
    sources: Sequence[Source],
    engine: Engine,
    *,
    keeping: CachePolicy | None = None,
    on_progress: Progress | None = None,
) -> FoldedFiles:
    """Fold every file that is not cached, and cache the facts of large clean ones."""
    key = None
    if keeping is not None and exam.facts_key is not None and not job.strict_pass:
        key = facts_key(job.kind, exam.facts_key, job.choices)
    shards = split_sources(tuple(sources), parts=1 << 16, min_bytes=SHARD_BYTES)
    known = {} if keeping is None or key is None else keeping.known(sources, key)
    unknown = [source for source in sources if source.path not in known]
    # Whether a file changed while it was read matters to the cache alone.
    stamps = {} if key is None else {source.path: stamp_of(source) for source in unknown}
    digests: dict[str, EvidenceFile] = {}
    wanted = tuple(shard for shard in shards if shard.source.path not in known)
    parts = {source.path: _Part(source, exam) for source in unknown}
    left, waiting = deque(wanted), dict[int, ShardOutcome]()
    for found in _run_tasks(job, (*unknown, *wanted), engine, on_progress):
        if isinstance(found, FileDigest):
            digests[found.file.name] = found.file
            continue
        # Merged as they come, in order: held until the end, states took most of the memory.
        waiting[found.shard] = found
        while left and (ready := waiting.pop(left[0].index, None)) is not None:
            parts[left.popleft().source.path].add(ready)

    total: object = None
    hashes = bytearray()
    files = []
    read: list[ShardOutcome] = []
    for source in sources:
        kept = known.get(source.path)
        if kept is None:
            part, file = parts.pop(source.path), digests[source.name]
            read += part.outcomes
            if keeping is not None and key is not None and part.is_clean:
                part.keep(file, keeping, key, stamps[source.path])
        else:
            first = next(shard.index for shard in shards if shard.source is source)
            part, file = _Part.known(source, kept, exam, first), evidence_file(kept, source)
        total = part.state if total is None else exam.merge(total, part.state)
        hashes += part.ids
        files.append(file)
    return FoldedFiles(
        files=tuple(files),
        shards=wanted,
        outcomes=tuple(read),
        hashes=hashes,
        state=total,
        accepted=len(hashes) // 8,
        rejected=sum(outcome.rejected for outcome in read),
    )


class _Part:
    """The ids and the state of one file, and its outcomes without both."""

    def __init__(self, source: Source, exam: AnyExam) -> None:
        self.source = source
        self.exam = exam
        self.ids = bytearray()
        self.state: object = None
        self.outcomes: list[ShardOutcome] = []

    def add(self, outcome: ShardOutcome) -> None:
        """Add the next shard."""
        self.ids += outcome.ids
        state = msgspec.msgpack.decode(outcome.state, type=self.exam.state)
        self.state = state if self.state is None else self.exam.merge(self.state, state)
        self.outcomes.append(msgspec.structs.replace(outcome, ids=b"", state=b""))

    @classmethod
    def known(cls, source: Source, kept: Kept, exam: AnyExam, first_shard: int) -> _Part:
        """Return the part of a cached file."""
        part = cls(source, exam)
        part.ids += kept.ids
        part.state = exam.rebase_shard(
            msgspec.msgpack.decode(kept.state, type=exam.state), first_shard
        )
        return part

    @property
    def is_clean(self) -> bool:
        """Whether the file is large enough to cache, and every line of it is clean."""
        return (
            self.source.byte_count >= MIN_BYTES
            and not any(outcome.rejected for outcome in self.outcomes)
            and not self.exam.needs_strict_pass(self.state)
        )

    def keep(
        self, file: EvidenceFile, keeping: CachePolicy, key: str, before: Stamp | None
    ) -> None:
        """Write the facts to the cache."""
        first = self.outcomes[0].shard
        keeping.keep(
            self.source,
            file,
            before,
            key=key,
            line_count=sum(outcome.line_count for outcome in self.outcomes),
            ids=bytes(self.ids),
            state=msgspec.msgpack.encode(self.exam.rebase_shard(self.state, 0)),
        )
        self.state = self.exam.rebase_shard(self.state, first)


def _run_tasks(
    job: ExamJob, tasks: Sequence[Source | Shard], engine: Engine, on_progress: Progress | None
) -> Iterator[FileDigest | ShardOutcome]:
    sizes = {task.index: task.size for task in tasks if isinstance(task, Shard)}
    total, done = sum(sizes.values()), 0
    if total <= ALONE_BYTES or engine.in_process:
        results = _run_in_turn(job, tasks)
    else:
        results = engine.run(partial(examine_task, job), tasks)
    for data in results:
        found = msgspec.msgpack.decode(data, type=FileDigest | ShardOutcome)
        if isinstance(found, ShardOutcome) and on_progress is not None:
            done += sizes[found.shard]
            on_progress(done, total)
        yield found


def _run_in_turn(job: ExamJob, tasks: Sequence[Source | Shard]) -> Iterator[bytes]:
    """Do all tasks, files first, in this process; files that are not packed are read only once."""
    hashes: dict[str, Any] = {}
    for task in tasks:
        if isinstance(task, Source):
            if task.compression == "none":
                hashes[task.name] = hashlib.sha256()
            else:
                yield examine_task(job, task)
            continue
        source = task.source
        if (hashed := hashes.get(source.name)) is None:
            yield examine_task(job, task)
            continue
        outcome = examine_shard(job, task, hashed.update)
        if task.end == source.byte_count:
            del hashes[source.name]
            yield msgspec.msgpack.encode(FileDigest(digested(source, hashed.hexdigest())))
        yield outcome


def fold_checked(
    job: ExamJob,
    exam: AnyExam,
    sources: Sequence[Source],
    engine: Engine,
    *,
    keeping: CachePolicy | None = None,
    on_progress: Progress | None = None,
) -> FoldedFiles:
    """Fold files, refuse bad lines, and read again strictly when the exam asks for it."""
    read = fold_files(job, exam, sources, engine, keeping=keeping, on_progress=on_progress)
    _refuse_bad_lines(read, job.choices)
    if exam.needs_strict_pass(read.state):
        job = msgspec.structs.replace(job, strict_pass=True)
        read = fold_files(job, exam, sources, engine, on_progress=on_progress)
        _refuse_bad_lines(read, job.choices)
    return read


def fold_each(run: ExamRun, exam: AnyExam, paths: Sequence[str]) -> Iterator[FoldedFiles]:
    """Fold files alongside the evidence of a run, each on its own."""
    with opened_sources(paths, run.reading.limits) as sources:
        for source in sources:
            yield fold_checked(ExamJob.of(run), exam, [source], run.engine)


def _refuse_bad_lines(read: FoldedFiles, choices: ReadingChoices) -> None:
    if choices.on_bad_line == "exclude":
        return
    problems: list[str] = []
    lines_before = 0
    current = ""
    for shard, outcome in zip(read.shards, read.outcomes, strict=True):
        if shard.source.path != current:
            current, lines_before = shard.source.path, 0
        problems.extend(
            format_problem(shard.source.name, lines_before + refusal.line, problem)
            for refusal in outcome.refusals
            for problem in refusal.problems
        )
        lines_before += outcome.line_count
    refuse_input(problems, choices, total=read.rejected)
