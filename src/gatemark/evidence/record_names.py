"""The names of all records of an exam: which are repeated, unexpected or missing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import xxhash

from gatemark.core.record import Form
from gatemark.evidence.blocks import read_blocks
from gatemark.evidence.exam import AnyExam
from gatemark.evidence.exam_job import ExamJob, reader_of
from gatemark.evidence.input_problems import PlacedName, normalize_names, refuse_input
from gatemark.evidence.reading_choices import ReadingChoices
from gatemark.evidence.record_schemas import schema_of
from gatemark.evidence.shards import split_sources
from gatemark.evidence.source import Source


def hash_ids(names: Sequence[str], form: Form) -> bytes:
    """Return eight hash bytes per record, the same on every machine and for one input."""
    return b"".join(map(xxhash.xxh3_64_digest, map(str.encode, normalize_names(names, form))))


class RecordNames:
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


def locate_records(
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


def refuse_unexpected(
    places: Mapping[str, Sequence[PlacedName]],
    expected: frozenset[str] | None,
    form: Form,
    choices: ReadingChoices,
) -> None:
    """Refuse records whose ids are not among the expected ones."""
    if expected is None:
        return
    known = set(normalize_names(sorted(expected), form))
    strangers = [
        f"{found[0].place}: id {found[0].name!r} is not among the expected ids"
        for key, found in places.items()
        if key not in known
    ]
    refuse_input(strangers, choices)


def fold_chosen(
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
