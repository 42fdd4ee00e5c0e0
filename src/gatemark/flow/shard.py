"""What one worker does: admit the lines of a shard and fold them into an exam's state."""

from __future__ import annotations

import operator
from typing import Any

import msgspec
import xxhash

from gatemark.core.errors import UsageError
from gatemark.core.exam import Exam
from gatemark.flow.plugins import measures, schemas, suites
from gatemark.intake.admit import Admission, RefusedLine
from gatemark.intake.limits import Limits
from gatemark.intake.lines import read_blocks
from gatemark.intake.source import Shard


class ExamJob(msgspec.Struct, frozen=True):
    """An exam by name, so that any process can build it, and how strictly to read for it."""

    kind: str
    options: dict[str, Any]
    limits: Limits
    check_duplicate_keys: bool
    max_refusals: int


class ShardOutcome(msgspec.Struct, frozen=True):
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
    try:
        options = msgspec.convert(job.options, suite.options)
    except msgspec.ValidationError as error:
        raise UsageError(f"{job.kind}: {error}") from error
    return suite.build(options, measures())


def admission(job: ExamJob, form_name: str, schema_name: str) -> Admission:
    """The reader that a job asks for."""
    form = schemas().get(schema_name).form(form_name)
    return Admission(
        form,
        job.limits,
        check_duplicate_keys=job.check_duplicate_keys,
        max_refusals=job.max_refusals,
    )


def hash_ids(names: list[str]) -> bytes:
    """Eight bytes per name, the same on every machine."""
    return b"".join(map(xxhash.xxh3_64_digest, map(str.encode, names)))


def examine_shard(job: ExamJob, shard: Shard) -> bytes:
    """Fold one shard; the answer travels as bytes."""
    exam = build_exam(job)
    reader = admission(job, exam.form, exam.schema)
    identity = operator.attrgetter(schemas().get(exam.schema).form(exam.form).identity)
    state = exam.zero(shard.index)
    ids = bytearray()
    for batch in reader.records(read_blocks(shard, job.limits)):
        ids += hash_ids(list(map(identity, batch)))
        state = exam.step(state, batch)
    return msgspec.msgpack.encode(
        ShardOutcome(
            shard=shard.index,
            line_count=reader.line_count,
            accepted=reader.accepted,
            rejected=reader.rejected,
            refusals=reader.refusals,
            ids=bytes(ids),
            state=msgspec.msgpack.encode(state),
        )
    )
