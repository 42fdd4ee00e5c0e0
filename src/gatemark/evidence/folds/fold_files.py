"""Fold evidence files into an exam's state: shard by shard on an engine, or from the cache."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from typing import Any

import msgspec
import xxhash

from gatemark.core.canonical import digest
from gatemark.core.errors import UsageError
from gatemark.core.measurement import EvidenceFile
from gatemark.core.progress import Progress
from gatemark.core.record import Form
from gatemark.evidence.engines.port import Engine
from gatemark.evidence.exam import Exam, ExamSuite
from gatemark.evidence.fold_cache import (
    MIN_BYTES,
    CachePolicy,
    Kept,
    Stamp,
    checksum_of,
    evidence_file,
    settled_stamp,
    stamp_of,
)
from gatemark.evidence.plugins import measures, schema_of, suites
from gatemark.evidence.reading_options import ReadingChoices
from gatemark.evidence.record_reader import RecordReader, RefusedLine
from gatemark.evidence.source import Shard, Source, digest_source, read_blocks, split_sources


class ExamJob(msgspec.Struct, frozen=True):
    """An exam by name, so that any process can build it, and how strictly to read for it.

    ``strict_pass`` has the exam itself look at every record before it counts.
    """

    kind: str
    options: dict[str, Any]
    choices: ReadingChoices
    strict_pass: bool = False


class FileDigest(msgspec.Struct, frozen=True, tag="file"):
    """One whole file, named."""

    file: EvidenceFile


class ShardOutcome(msgspec.Struct, frozen=True, tag="shard"):
    """What came of one shard. ``ids`` holds eight hash bytes per accepted record, in order."""

    shard: int
    line_count: int
    accepted: int
    rejected: int
    refusals: list[RefusedLine]
    ids: bytes
    state: bytes


def exam_suite(kind: str) -> ExamSuite:
    """Return the declaration of an exam."""
    suite = suites().get(kind)
    if not isinstance(suite, ExamSuite):
        raise UsageError(f"suite {kind} does not read evidence files")
    return suite


def build_exam(job: ExamJob) -> Exam[Any]:
    """Return the exam that a job names, with its options checked."""
    suite = exam_suite(job.kind)
    try:
        options = msgspec.convert(job.options, suite.options)
    except msgspec.ValidationError as error:
        raise UsageError(f"{job.kind}: {error}") from error
    return suite.build(options, measures())


def admission(job: ExamJob, exam: Exam[Any], form_name: str | None = None) -> RecordReader:
    """Return the reader for a job, of the exam's own form unless another is named."""
    form = schema_of(exam).form(form_name or exam.form)
    if job.strict_pass:
        form = _closer_form(form, exam)
    return RecordReader(form, job.choices)


def _closer_form(form: Form, exam: Exam[Any]) -> Form:
    proof = form.proof

    def both_hold(batch: Sequence[Any]) -> bool:
        sound = proof is not None and proof(batch)
        return sound and not any(map(exam.problems, batch))

    return msgspec.structs.replace(form, rules=(*form.rules, exam.problems), proof=both_hold)


def hash_ids(names: list[str]) -> bytes:
    """Eight bytes per name, the same on every machine."""
    return b"".join(map(xxhash.xxh3_64_digest, map(str.encode, names)))


def examine_task(job: ExamJob, task: Source | Shard) -> bytes:
    """Name a whole file by its bytes, or fold one shard of it.

    Both are tasks of the same engine: a thread beside the fold would fight it for the interpreter.
    """
    if isinstance(task, Source):
        return msgspec.msgpack.encode(FileDigest(digest_source(task)))
    return examine_shard(job, task)


@lru_cache(maxsize=4)
def _exam_of(job: bytes) -> Exam[Any]:
    """The exam of an encoded job: shards of one job share what it learns about their texts."""
    return build_exam(msgspec.msgpack.decode(job, type=ExamJob))


def examine_shard(job: ExamJob, shard: Shard) -> bytes:
    """Fold one shard; the answer travels as bytes."""
    exam = _exam_of(msgspec.msgpack.encode(job))
    reader = admission(job, exam)
    name_of = schema_of(exam).form(exam.form).namer()
    state = exam.zero(shard.index)
    ids = bytearray()
    # Records form no cycles, and looking for some costs a tenth of the time.
    collecting = gc.isenabled()
    gc.disable()
    try:
        for batch in reader.records(read_blocks(shard, job.choices.limits)):
            ids += hash_ids(list(map(name_of, batch)))
            state = exam.step(state, batch)
    finally:
        if collecting:
            gc.enable()
    return msgspec.msgpack.encode(
        ShardOutcome(
            shard=shard.index,
            line_count=reader.line_count,
            accepted=reader.accepted,
            rejected=reader.rejected,
            refusals=reader.refusals,
            ids=bytes(ids),
            state=msgspec.msgpack.encode(exam.finalize_shard(state)),
        )
    )


SHARD_BYTES = 32 * 1024 * 1024
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
    exam: Exam[Any],
    sources: Sequence[Source],
    engine: Engine,
    *,
    keeping: CachePolicy | None = None,
    on_progress: Progress | None = None,
) -> FoldedFiles:
    """Fold every file that is not cached, and cache the facts of large clean ones."""
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


def facts_key(job: ExamJob, exam: Exam[Any]) -> str | None:
    """Return a key of the exam and how it reads; None when states must not be cached."""
    if exam.facts_key is None or job.strict_pass:
        return None
    return digest(
        {
            "exam": job.kind,
            "facts": exam.facts_key,
            "limits": msgspec.to_builtins(job.choices.limits),
            "duplicate_keys": job.choices.check_duplicate_keys,
        }
    )


class _Part:
    """The digest, ids and state of one file."""

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
        """Return the part of a cached file."""
        part = cls(source, evidence_file(kept, source), (), exam)
        part.ids = kept.ids
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

    def keep(self, keeping: CachePolicy, key: str, before: Stamp | None) -> None:
        """Write the facts to the cache."""
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
