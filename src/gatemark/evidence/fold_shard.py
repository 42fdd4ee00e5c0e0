"""Fold one shard of a file: what one task of an engine does."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache

import msgspec

from gatemark.core.measurement import EvidenceFile
from gatemark.evidence.blocks import read_blocks
from gatemark.evidence.exam import AnyExam
from gatemark.evidence.exam_job import ExamJob, build_exam, reader_of
from gatemark.evidence.record_names import hash_ids
from gatemark.evidence.record_reader import RefusedLine
from gatemark.evidence.record_schemas import schema_of
from gatemark.evidence.shards import Shard
from gatemark.evidence.source import Source, digest_source

Watch = Callable[[bytes], object]


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
