"""What one worker does: admit the lines of a shard and fold them into an exam's state."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import msgspec
import xxhash

from gatemark.core.errors import UsageError
from gatemark.core.exam import Exam, ExamSuite
from gatemark.core.measurement import EvidenceFile
from gatemark.core.record import Form
from gatemark.evidence.files import digest_source
from gatemark.evidence.limits import Limits
from gatemark.evidence.lines import read_blocks
from gatemark.evidence.plugins import measures, schemas, suites
from gatemark.evidence.record_reader import RecordReader, RefusedLine
from gatemark.evidence.source import Shard, Source


class ExamJob(msgspec.Struct, frozen=True):
    """An exam by name, so that any process can build it, and how strictly to read for it.

    ``strict_pass`` has the exam itself look at every record before it counts.
    """

    kind: str
    options: dict[str, Any]
    limits: Limits
    check_duplicate_keys: bool
    max_refusals: int
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


def build_exam(job: ExamJob) -> Exam[Any]:
    """The exam that a job names, with its options checked."""
    suite = suites().get(job.kind)
    if not isinstance(suite, ExamSuite):
        raise UsageError(f"suite {job.kind} does not read evidence files")
    try:
        options = msgspec.convert(job.options, suite.options)
    except msgspec.ValidationError as error:
        raise UsageError(f"{job.kind}: {error}") from error
    return suite.build(options, measures())


def admission(job: ExamJob, exam: Exam[Any], form_name: str | None = None) -> RecordReader:
    """The reader that a job asks for, of the exam's own form unless another is named."""
    form = schemas().get(exam.schema).form(form_name or exam.form)
    if job.strict_pass:
        form = _closer_form(form, exam)
    return RecordReader(
        form,
        job.limits,
        check_duplicate_keys=job.check_duplicate_keys,
        max_refusals=job.max_refusals,
    )


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
    name_of = schemas().get(exam.schema).form(exam.form).namer()
    state = exam.zero(shard.index)
    ids = bytearray()
    # Records form no cycles, and looking for some costs a tenth of the time.
    collecting = gc.isenabled()
    gc.disable()
    try:
        for batch in reader.records(read_blocks(shard, job.limits)):
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
