"""Sitting an exam: evidence files in, the exam's report and the evidence account out.

(1) Find the files. (2) Digest their bytes and fold their shards on an engine, or take the facts
that were kept of them. (3) Refuse bad lines. (4) Look for names that came twice, or not at all.
(5) Finish.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from gatemark.core.errors import BadInputError, UsageError
from gatemark.core.exam import Exam, ExamReport
from gatemark.core.measurement import Evidence
from gatemark.core.progress import Progress
from gatemark.evidence.engines.port import Engine
from gatemark.evidence.files import find_sources, marks_of, refuse_changed
from gatemark.evidence.folds.fold_files import CachePolicy, FoldedFiles, fold_files
from gatemark.evidence.folds.shard import (
    ExamJob,
    admission,
    build_exam,
    hash_ids,
)
from gatemark.evidence.lines import read_blocks
from gatemark.evidence.plugins import schemas
from gatemark.evidence.reading_options import ReadingChoices, place, refuse, repeated_lines
from gatemark.evidence.source import Source, split_sources


class ExamOutcome(msgspec.Struct, frozen=True):
    """An exam that has been sat but not judged."""

    exam: Any
    report: ExamReport
    evidence: Evidence


def exam_job(kind: str, options: dict[str, Any], choices: ReadingChoices) -> ExamJob:
    """The job that every worker gets."""
    return ExamJob(
        kind=kind,
        options=options,
        limits=choices.limits,
        check_duplicate_keys=choices.check_duplicate_keys,
        max_refusals=choices.max_errors,
    )


def examine_files(
    job: ExamJob,
    paths: Sequence[str],
    choices: ReadingChoices,
    engine: Engine,
    *,
    expected_ids: frozenset[str] | None = None,
    keeping: CachePolicy | None = None,
    on_progress: Progress | None = None,
) -> ExamOutcome:
    """Sit an exam whose records are whole in themselves."""
    exam = build_exam(job)
    if expected_ids is not None and schemas().get(exam.schema).form(exam.form).unique is not None:
        raise UsageError(f"{job.kind}: records under compound keys cannot be pinned by one id")
    with tempfile.TemporaryDirectory(prefix="gatemark-") as folder:
        # Step 1.
        sources = find_sources(paths, choices.limits, Path(folder))
        marks = marks_of(sources)
        # Step 2.
        read = fold_files(job, exam, sources, engine, keeping=keeping, on_progress=on_progress)
        # Step 3.
        _refuse_bad_lines(read, choices)
        if exam.needs_strict_pass(read.state):
            job = msgspec.structs.replace(job, strict_pass=True)
            read = fold_files(job, exam, sources, engine, on_progress=on_progress)
            _refuse_bad_lines(read, choices)
        # Step 4.
        state = read.state
        names = _Names(read.hashes, expected_ids)
        duplicates = 0
        if names.repeated or names.unexpected:
            places = _locate(job, exam, sources, names.repeated | names.unexpected)
            _refuse_strangers(places, expected_ids, choices)
            twice = {name: found for name, found in places.items() if len(found) > 1}
            if choices.on_duplicate == "error":
                form = schemas().get(exam.schema).form(exam.form)
                refuse(repeated_lines(twice.items(), form), choices)
            if twice:
                keep = {
                    n: 1 if choices.on_duplicate == "first" else len(p) for n, p in twice.items()
                }
                state = _fold_keeping(job, exam, sources, keep)
                duplicates = sum(len(found) - 1 for found in twice.values())
        if read.accepted + read.rejected == 0:
            raise BadInputError(tuple(f"{source.name}: holds no records" for source in sources))
        refuse_changed(sources, marks)
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
            place(shard.source.name, lines_before + refusal.line, problem)
            for refusal in outcome.refusals
            for problem in refusal.problems
        )
        lines_before += outcome.line_count
    refuse(problems, choices, total=read.rejected)


class _Names:
    """The hashed names of all records: which came twice, unasked, or not at all."""

    def __init__(self, hashes: bytearray, expected: frozenset[str] | None) -> None:
        found = np.frombuffer(hashes, dtype="<u8")
        found.sort()
        self.repeated = {int(name) for name in found[1:][found[1:] == found[:-1]]}
        self.unexpected: set[int] = set()
        self.missing_count = 0
        if expected is not None:
            pinned = np.frombuffer(hash_ids(sorted(expected)), dtype="<u8")
            self.unexpected = {int(name) for name in np.setdiff1d(found, pinned)}
            self.missing_count = int(np.setdiff1d(pinned, found).size)


def _named_batches(
    job: ExamJob, exam: Exam[Any], sources: Sequence[Source]
) -> Iterator[tuple[Source, Sequence[int], list[str], list[Any]]]:
    """Every batch of every file in order, with the lines and names of its records."""
    name_of = schemas().get(exam.schema).form(exam.form).namer()
    for shard in split_sources(tuple(sources), parts=1, min_bytes=1):
        reader = admission(job, exam)
        for batch in reader.records(read_blocks(shard, job.limits)):
            yield shard.source, reader.batch_lines, list(map(name_of, batch)), batch


def _locate(
    job: ExamJob, exam: Exam[Any], sources: Sequence[Source], wanted: set[int]
) -> dict[str, list[tuple[str, int]]]:
    """Where the records with these hashes stand. Equal names are told from equal hashes here."""
    places: dict[str, list[tuple[str, int]]] = {}
    for source, lines, names, _ in _named_batches(job, exam, sources):
        hashes = np.frombuffer(hash_ids(names), dtype="<u8").tolist()
        for line, name, hashed in zip(lines, names, hashes, strict=True):
            if hashed in wanted:
                places.setdefault(name, []).append((source.name, line))
    return places


def _refuse_strangers(
    places: dict[str, list[tuple[str, int]]],
    expected: frozenset[str] | None,
    choices: ReadingChoices,
) -> None:
    if expected is None:
        return
    strangers = [
        f"{found[0][0]}:{found[0][1]}: id {name!r} is not among the expected ids"
        for name, found in places.items()
        if name not in expected
    ]
    refuse(strangers, choices)


def _fold_keeping(
    job: ExamJob, exam: Exam[Any], sources: Sequence[Source], keep: dict[str, int]
) -> Any:
    """Fold again in one process, with only the chosen occurrence of each repeated name."""
    seen = dict.fromkeys(keep, 0)
    state = exam.zero(0)
    for _, _, names, batch in _named_batches(job, exam, sources):
        chosen = []
        for name, record in zip(names, batch, strict=True):
            if name in keep:
                seen[name] += 1
                if seen[name] != keep[name]:
                    continue
            chosen.append(record)
        state = exam.step(state, chosen)
    return state
