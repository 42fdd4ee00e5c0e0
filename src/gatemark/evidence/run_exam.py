"""Run an exam: evidence files in, the exam's report and the evidence account out.

(1) Find the files. (2) Digest their bytes and fold their shards on an engine, or take cached
facts. (3) Refuse bad lines. (4) Look for repeated, unexpected and missing names. (5) Finish.
"""

from __future__ import annotations

import gc
import hashlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from typing import Any

import msgspec
import numpy as np
import xxhash

from gatemark.core.errors import BadInputError, UsageError
from gatemark.core.measurement import Evidence, EvidenceFile
from gatemark.core.progress import Progress
from gatemark.core.record import Form
from gatemark.evidence.blocks import read_blocks
from gatemark.evidence.engines.port import Engine
from gatemark.evidence.exam import (
    AnyExam,
    ExamOutcome,
    ExamRun,
    checked_options,
    exam_suite,
    measures,
    schema_of,
)
from gatemark.evidence.fold_cache import (
    MIN_BYTES,
    CachePolicy,
    Kept,
    Stamp,
    evidence_file,
    facts_key,
    stamp_of,
)
from gatemark.evidence.input_problems import (
    PlacedName,
    describe_same_inputs,
    format_problem,
    normalize_names,
    refuse_input,
)
from gatemark.evidence.reading_choices import ReadingChoices
from gatemark.evidence.record_reader import RecordReader, RefusedLine
from gatemark.evidence.shards import Shard, split_sources
from gatemark.evidence.source import Source, digest_source, digested, opened_sources

Watch = Callable[[bytes], object]


class ExamJob(msgspec.Struct, frozen=True):
    """An exam by name, so that any process can build it, and how strictly to read for it.

    In a ``strict_pass``, the exam checks every record before it is counted.
    """

    kind: str
    options: dict[str, Any]
    choices: ReadingChoices
    strict_pass: bool = False

    @classmethod
    def of(cls, run: ExamRun) -> ExamJob:
        """Return the job of a run: what every worker gets."""
        return cls(run.kind, dict(run.options), run.reading)


class FileDigest(msgspec.Struct, frozen=True, tag="file"):
    """One whole file, named."""

    file: EvidenceFile


class ShardOutcome(msgspec.Struct, frozen=True, tag="shard"):
    """The outcome of one shard. ``ids`` has eight hash bytes per accepted record, in order."""

    shard: int
    line_count: int
    accepted: int
    rejected: int
    refusals: list[RefusedLine]
    ids: bytes
    state: bytes


def build_exam(job: ExamJob) -> AnyExam:
    """Return the exam that a job names, with its options checked."""
    suite = exam_suite(job.kind)
    return suite.build(checked_options(job.kind, job.options, suite.options), measures())


def reader_of(job: ExamJob, exam: AnyExam, form_name: str | None = None) -> RecordReader:
    """Return the reader for a job, of the exam's own form unless another is named."""
    form = schema_of(exam).form(form_name or exam.form)
    if job.strict_pass:
        form = _add_exam_rules(form, exam)
    return RecordReader(form, job.choices)


def _add_exam_rules(form: Form, exam: AnyExam) -> Form:
    proof = form.proof

    def both_hold(batch: Sequence[object]) -> bool:
        sound = proof is not None and proof(batch)
        return sound and not any(map(exam.problems, batch))

    return msgspec.structs.replace(form, rules=(*form.rules, exam.problems), proof=both_hold)


def hash_ids(names: Sequence[str], form: Form) -> bytes:
    """Return eight hash bytes per record, the same on every machine and for one input."""
    return b"".join(map(xxhash.xxh3_64_digest, map(str.encode, normalize_names(names, form))))


def examine_task(job: ExamJob, task: Source | Shard) -> bytes:
    """Digest a whole file, or fold one shard of it.

    Both are tasks of the same engine: a thread would compete with the fold for the interpreter.
    """
    if isinstance(task, Source):
        return msgspec.msgpack.encode(FileDigest(digest_source(task)))
    return examine_shard(job, task)


@lru_cache(maxsize=4)
def _decode_exam(job: bytes) -> AnyExam:
    """Return the exam of an encoded job; shards of one job share it and what it has cached."""
    return build_exam(msgspec.msgpack.decode(job, type=ExamJob))


@contextmanager
def no_collection() -> Iterator[None]:
    """Turn the garbage collector off; records form no cycles, looking for some costs a tenth."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def examine_shard(job: ExamJob, shard: Shard, watch: Watch | None = None) -> bytes:
    """Fold one shard; return its outcome as bytes. ``watch`` is called with what is read."""
    exam = _decode_exam(msgspec.msgpack.encode(job))
    reader = reader_of(job, exam)
    form = schema_of(exam).form(exam.form)
    name_of = form.namer()
    state = exam.zero(shard.index)
    ids = bytearray()
    # Freed at once, it makes the allocator keep the memory of a block for the next one. Giving it
    # back to the system and asking again for every block costs a tenth of the time.
    bytes(KEPT_BYTES)
    with no_collection():
        for batch in reader.records(read_blocks(shard, job.choices.limits, watch)):
            ids += hash_ids(list(map(name_of, batch)), form)
            state = exam.step(state, batch)
            del batch
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


KEPT_BYTES = 4 * 1024 * 1024
"""More than one block needs; glibc learns from what is freed up to 32 MB."""

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


def run_exam(run: ExamRun) -> ExamOutcome:
    """Run an exam over its evidence as the exam declares it; nothing is judged yet."""
    examine = exam_suite(run.kind).examine or fold_records
    outcome = examine(run)
    if run.expected_ids is not None and outcome.evidence.expected is None:
        # Ids that nobody looked for would hide evidence that is missing.
        raise UsageError(f"{run.kind} does not check expected ids")
    return outcome


def fold_records(run: ExamRun) -> ExamOutcome:
    """Fold the records of an exam that reads files of one role."""
    (role,) = exam_suite(run.kind).roles
    if set(run.roles) != {role.name} or (len(run.files) > 1 and not role.many):
        raise UsageError(f"{run.kind} reads one file, with the role {role.name!r}")
    return examine_files(run)


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


def examine_files(
    run: ExamRun,
    *,
    exam: AnyExam | None = None,
    on_ids: Callable[[bytearray], None] | None = None,
) -> ExamOutcome:
    """Run an exam in which every record is a whole item.

    ``exam`` is the one to report with, where it knows more than its options. ``on_ids`` gets eight
    hash bytes per record before the report is made.
    """
    job, choices, expected_ids = ExamJob.of(run), run.reading, run.expected_ids
    exam = exam or build_exam(job)
    form = schema_of(exam).form(exam.form)
    if expected_ids is not None and form.unique is not None:
        raise UsageError(f"{job.kind}: records with compound keys cannot be pinned by id")
    # Step 1.
    with opened_sources(run.paths, choices.limits, must_stay=True) as sources:
        # Steps 2 and 3.
        read = fold_checked(
            job, exam, sources, run.engine, keeping=run.cache, on_progress=run.on_progress
        )
        job = msgspec.structs.replace(job, strict_pass=exam.needs_strict_pass(read.state))
        if on_ids is not None:
            on_ids(read.hashes)
        # Step 4.
        state = read.state
        names = _Names(read.hashes, expected_ids, form)
        duplicates = 0
        if names.repeated or names.unexpected:
            places = _locate(job, exam, sources, names.repeated | names.unexpected)
            _refuse_strangers(places, expected_ids, form, choices)
            again = {key: found for key, found in places.items() if len(found) > 1}
            if choices.on_duplicate == "error":
                refuse_input(describe_same_inputs(again.values(), form), choices)
            if again:
                first = choices.on_duplicate == "first"
                keep = {key: 1 if first else len(found) for key, found in again.items()}
                state = _fold_keeping(job, exam, sources, keep)
                duplicates = sum(len(found) - 1 for found in again.values())
        if read.accepted + read.rejected == 0:
            raise BadInputError(tuple(f"{source.name}: contains no records" for source in sources))
    # Step 5.
    evidence = Evidence(
        received=read.accepted + read.rejected,
        accepted=read.accepted,
        rejected=read.rejected,
        usable=read.accepted - duplicates,
        missing=names.missing_count,
        expected=None if expected_ids is None else len(expected_ids),
        files=read.files,
        duplicates=duplicates,
        checks=choices.checks(),
    )
    return ExamOutcome(exam, exam.account(state, evidence), evidence)


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


class _Names:
    """The hashed names of all records: which are repeated, unexpected or missing."""

    def __init__(self, hashes: bytearray, expected: frozenset[str] | None, form: Form) -> None:
        found = np.frombuffer(hashes, dtype="<u8")
        found.sort()
        self.repeated = {int(name) for name in found[1:][found[1:] == found[:-1]]}
        self.unexpected: set[int] = set()
        self.missing_count = 0
        if expected is not None:
            pinned = np.frombuffer(hash_ids(sorted(expected), form), dtype="<u8")
            self.unexpected = {int(name) for name in np.setdiff1d(found, pinned)}
            self.missing_count = int(np.setdiff1d(pinned, found).size)


def _read_named_batches(
    job: ExamJob, exam: AnyExam, sources: Sequence[Source]
) -> Iterator[tuple[Source, Sequence[int], list[str], list[object]]]:
    """Yield every batch of every file in order, with the lines and names of its records."""
    name_of = schema_of(exam).form(exam.form).namer()
    for shard in split_sources(tuple(sources), parts=1, min_bytes=1):
        reader = reader_of(job, exam)
        for batch in reader.records(read_blocks(shard, job.choices.limits)):
            yield shard.source, reader.batch_lines, list(map(name_of, batch)), batch


def _locate(
    job: ExamJob, exam: AnyExam, sources: Sequence[Source], wanted: set[int]
) -> dict[str, list[PlacedName]]:
    """Return the names and places of records with these hashes, by input."""
    form = schema_of(exam).form(exam.form)
    places: dict[str, list[PlacedName]] = {}
    for source, lines, names, _ in _read_named_batches(job, exam, sources):
        hashes = np.frombuffer(hash_ids(names, form), dtype="<u8").tolist()
        keys = normalize_names(names, form)
        for line, name, key, hashed in zip(lines, names, keys, hashes, strict=True):
            if hashed in wanted:
                places.setdefault(key, []).append(PlacedName(name, source.name, line))
    return places


def _refuse_strangers(
    places: Mapping[str, Sequence[PlacedName]],
    expected: frozenset[str] | None,
    form: Form,
    choices: ReadingChoices,
) -> None:
    if expected is None:
        return
    known = set(normalize_names(sorted(expected), form))
    strangers = [
        f"{found[0].place}: id {found[0].name!r} is not among the expected ids"
        for key, found in places.items()
        if key not in known
    ]
    refuse_input(strangers, choices)


def _fold_keeping(
    job: ExamJob, exam: AnyExam, sources: Sequence[Source], keep: dict[str, int]
) -> object:
    """Fold again in one process, with only the chosen occurrence of each repeated input."""
    seen = dict.fromkeys(keep, 0)
    form = schema_of(exam).form(exam.form)
    state = exam.zero(0)
    for _, _, names, batch in _read_named_batches(job, exam, sources):
        chosen = []
        for key, record in zip(normalize_names(names, form), batch, strict=True):
            if key in keep:
                seen[key] += 1
                if seen[key] != keep[key]:
                    continue
            chosen.append(record)
        state = exam.step(state, chosen)
    return state
