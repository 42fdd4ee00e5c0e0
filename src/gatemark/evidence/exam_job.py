"""An exam by name: what any process needs to build it and to read records for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from gatemark.core.record import Form
from gatemark.evidence.exam import AnyExam, ExamRun
from gatemark.evidence.exam_options import checked_options
from gatemark.evidence.exam_suite import exam_suite
from gatemark.evidence.measures import measures
from gatemark.evidence.reading_choices import ReadingChoices
from gatemark.evidence.record_reader import RecordReader
from gatemark.evidence.record_schemas import schema_of


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
