"""Run an exam: evidence files in, the exam's report and the evidence account out.

(1) Find the files. (2) Digest their bytes and fold their shards on an engine, or take cached
facts. (3) Refuse bad lines. (4) Look for repeated, unexpected and missing names. (5) Finish.
Its inputs are written down, so that the exam can be run again from the store.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
import numpy as np

from gatemark.core.canonical import canonical_bytes, plain
from gatemark.core.errors import BadInputError, IntegrityError, NewerFormatError, UsageError
from gatemark.core.formats import FORMAT, is_newer, newer_format
from gatemark.core.measurement import Evidence
from gatemark.core.progress import Progress
from gatemark.core.stored import convert_stored
from gatemark.evidence.engines.port import Engine
from gatemark.evidence.exam import Exam, ExamOutcome, ExamRun
from gatemark.evidence.fold_cache import CachePolicy
from gatemark.evidence.folds.fold_files import (
    ExamJob,
    FoldedFiles,
    admission,
    build_exam,
    exam_suite,
    fold_files,
    hash_ids,
)
from gatemark.evidence.plugins import schema_of
from gatemark.evidence.reading_options import ReadingChoices, place, refuse, repeated_lines
from gatemark.evidence.source import (
    Source,
    find_sources,
    marks_of,
    read_blocks,
    refuse_changed,
    split_sources,
)

SITTING_FORMAT: Final = "gatemark.sitting/1"
SITTING: Final = "sitting.json"
"""The name of the inputs that are stored with a result."""


class ExamInputs(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """An exam, its options, how its evidence was read, and what each evidence file was to it.

    ``left_out`` counts items that a review was to judge and could not show.
    """

    kind: str
    options: dict[str, Any]
    reading: dict[str, str]
    roles: tuple[str, ...]
    left_out: Annotated[int, msgspec.Meta(ge=0)] = 0


def write_sitting(
    kind: str,
    options: Mapping[str, Any],
    choices: ReadingChoices,
    roles: Sequence[str],
    *,
    left_out: int = 0,
) -> bytes:
    """Return an exam's inputs as bytes; the same inputs give the same bytes."""
    sitting = ExamInputs(kind, dict(options), choices.checks(), tuple(roles), left_out)
    return canonical_bytes({**plain(sitting), FORMAT: SITTING_FORMAT})


def read_sitting(data: bytes) -> ExamInputs:
    """Read what ``write_sitting`` wrote."""
    try:
        content = msgspec.json.decode(data, type=dict[str, Any])
        name = content.pop(FORMAT, SITTING_FORMAT)
        if isinstance(name, str) and is_newer(name, SITTING_FORMAT):
            raise NewerFormatError(f"its {SITTING} {newer_format(name)}")
        return convert_stored(content, ExamInputs)
    except msgspec.MsgspecError as error:
        raise IntegrityError(f"its {SITTING} is not one: {error}") from error


def exam_job(kind: str, options: dict[str, Any], choices: ReadingChoices) -> ExamJob:
    """Return the job that every worker gets."""
    return ExamJob(kind, options, choices)


def run_exam(run: ExamRun) -> ExamOutcome:
    """Run an exam over its evidence as the exam declares it; nothing is judged yet."""
    examine = exam_suite(run.kind).examine or fold_records
    outcome = examine(run)
    if run.expected_ids is not None and outcome.evidence.expected is None:
        # Ids that nobody looked for would hide evidence that is missing.
        raise UsageError(f"{run.kind} does not heed expected ids")
    return outcome


def fold_records(run: ExamRun) -> ExamOutcome:
    """Fold the records of an exam that reads files of one role."""
    (role,) = exam_suite(run.kind).roles
    if set(run.roles) != {role.name} or (len(run.files) > 1 and not role.many):
        raise UsageError(f"{run.kind} reads one file, under the name {role.name!r}")
    return examine_files(
        exam_job(run.kind, dict(run.options), run.reading),
        run.paths,
        run.reading,
        run.engine,
        expected_ids=run.expected_ids,
        keeping=run.cache,
        on_progress=run.on_progress,
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
    """Run an exam whose records are complete in themselves."""
    exam = build_exam(job)
    if expected_ids is not None and schema_of(exam).form(exam.form).unique is not None:
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
                form = schema_of(exam).form(exam.form)
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
    """The hashed names of all records: which are repeated, unexpected or missing."""

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
    name_of = schema_of(exam).form(exam.form).namer()
    for shard in split_sources(tuple(sources), parts=1, min_bytes=1):
        reader = admission(job, exam)
        for batch in reader.records(read_blocks(shard, job.choices.limits)):
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


def with_items(examined: ExamOutcome, *, pinned: int, left_out: int, peeking: bool) -> ExamOutcome:
    """The exam over votes, accounted by items: how many were judged, of how many that were meant.

    Where looking is allowed at any time, stopping is too; otherwise what is missing holds.
    """
    judged = examined.report.facts["items"]
    evidence = msgspec.structs.replace(
        examined.evidence,
        usable=judged,
        missing=left_out + (0 if peeking else pinned - judged),
        expected=pinned + left_out,
    )
    return msgspec.structs.replace(examined, evidence=evidence)
