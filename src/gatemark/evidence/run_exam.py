"""Run an exam: evidence files in, the exam's report and the evidence account out.

(1) Find the files. (2) Digest their bytes and fold their shards on an engine, or take cached
facts. (3) Refuse bad lines. (4) Look for repeated, unexpected and missing names. (5) Finish.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from gatemark.core.errors import BadInputError, UsageError
from gatemark.core.measurement import Evidence
from gatemark.evidence.exam import AnyExam, ExamOutcome, ExamRun
from gatemark.evidence.exam_job import ExamJob, build_exam
from gatemark.evidence.exam_suite import exam_suite
from gatemark.evidence.fold_files import fold_checked
from gatemark.evidence.input_problems import describe_same_inputs, refuse_input
from gatemark.evidence.record_names import (
    RecordNames,
    fold_chosen,
    locate_records,
    refuse_unexpected,
)
from gatemark.evidence.record_schemas import schema_of
from gatemark.evidence.source import opened_sources


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
        names = RecordNames(read.hashes, expected_ids, form)
        duplicates = 0
        if names.repeated or names.unexpected:
            places = locate_records(job, exam, sources, names.repeated | names.unexpected)
            refuse_unexpected(places, expected_ids, form, choices)
            again = {key: found for key, found in places.items() if len(found) > 1}
            if choices.on_duplicate == "error":
                refuse_input(describe_same_inputs(again.values(), form), choices)
            if again:
                first = choices.on_duplicate == "first"
                keep = {key: 1 if first else len(found) for key, found in again.items()}
                state = fold_chosen(job, exam, sources, keep)
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
