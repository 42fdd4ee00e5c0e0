"""Run the agreement exam over one file of judgements per validator: join them, then fold."""

from __future__ import annotations

import tempfile
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from gatemark.core.errors import BadInputError, UsageError
from gatemark.core.measurement import Evidence
from gatemark.evidence.exam import AnyExam, ExamOutcome, ExamRun, NumberedRecord, schema_of
from gatemark.evidence.run_exam import ExamJob, admission, build_exam
from gatemark.evidence.source import (
    ReadingChoices,
    Source,
    digest_source,
    find_sources,
    marks_of,
    place,
    read_blocks,
    refuse,
    refuse_changed,
    repeated_lines,
    split_sources,
)

if TYPE_CHECKING:
    from gatemark.exams.agreement.records import Judgement, RedFlags

T = TypeVar("T")

SCHOLAR, AUDITOR = "scholar", "auditor"


class JoinedAnswer(msgspec.Struct, frozen=True, gc=False):
    """What arbitration asks of an answer."""

    citations: list[str] | UnsetType = UNSET


class JoinedRow(msgspec.Struct, frozen=True, gc=False):
    """A joined question; quacks like a merged pair record."""

    qid: str
    scholar: Judgement
    auditor: Judgement
    answer_json: JoinedAnswer | UnsetType | None
    retrieved_ids: list[str] | UnsetType | None
    flags: RedFlags | UnsetType
    same_evidence: bool
    others: tuple[Judgement | None, ...]

    @property
    def is_echo(self) -> bool:
        """Whether both sides say the same in the same words."""
        return bool(self.scholar.reason) and self.scholar == self.auditor


def join_judgements(
    tables: Mapping[str, Sequence[NumberedRecord]],
) -> tuple[list[JoinedRow], dict[str, tuple[NumberedRecord, ...]]]:
    """Rows for the questions that both sides judged, in the order of their ids, and the rest."""
    sides = {name: {item.record.qid: item for item in table} for name, table in tables.items()}
    first, second = sides[SCHOLAR], sides[AUDITOR]
    others = [side for name, side in sides.items() if name not in {SCHOLAR, AUDITOR}]
    shared = sorted(first.keys() & second.keys())
    rows = [
        _row(
            first[qid].record,
            second[qid].record,
            tuple(side[qid].record if qid in side else None for side in others),
        )
        for qid in shared
    ]
    paired = set(shared)
    unmatched = {}
    for name, side in sides.items():
        if lonely := tuple(item for qid, item in side.items() if qid not in paired):
            unmatched[name] = lonely
    return rows, unmatched


def _row(scholar: Judgement, auditor: Judgement, others: tuple[Judgement | None, ...]) -> JoinedRow:
    everyone = (scholar, auditor, *(record for record in others if record is not None))
    answers = [record.answer_json for record in everyone]
    passages = [record.retrieved_ids for record in everyone]
    answer = _first_told(answers)
    return JoinedRow(
        qid=scholar.qid,
        scholar=scholar,
        auditor=auditor,
        answer_json=msgspec.convert(answer, JoinedAnswer) if isinstance(answer, dict) else answer,
        retrieved_ids=_first_told(passages),
        flags=_raised([record.flags for record in everyone]),
        same_evidence=_all_same(answers) and _all_same(passages),
        others=others,
    )


def _first_told(values: Sequence[T | UnsetType]) -> T | UnsetType:
    told = [value for value in values if value is not UNSET]
    return next((value for value in told if value is not None), told[0] if told else UNSET)


def _all_same(values: Sequence[object]) -> bool:
    """Whether sides that say something say the same."""
    told = [value for value in values if value is not UNSET]
    return all(value == told[0] for value in told)


def _raised(values: Sequence[RedFlags | UnsetType]) -> RedFlags | UnsetType:
    """The flags of all sides together; one that anybody raised stays raised."""
    told = [value for value in values if value is not UNSET]
    raised = (one for one in told if True in (one.provenance_violation, one.constraints_mismatch))
    return next(raised, told[0] if told else UNSET)


JOIN_BATCH = 256


def _refuse_one_file_twice(judgements: Mapping[str, str]) -> None:
    """A file agrees with itself: two validators cannot share one."""
    for (name, path), (other, other_path) in combinations(judgements.items(), 2):
        both_exist = Path(path).exists() and Path(other_path).exists()
        if both_exist and Path(path).samefile(other_path):
            raise UsageError(f"{name} and {other} are the same file: {path}")


class _Side:
    """One file, read whole: its records by name, and how many were refused or set aside."""

    def __init__(
        self, source: Source, job: ExamJob, exam: AnyExam, choices: ReadingChoices
    ) -> None:
        if exam.one_sided_form is None:
            raise UsageError(f"suite {job.kind} does not read one-sided records")
        form = schema_of(exam).form(exam.one_sided_form)
        name_of = form.namer()
        reader = admission(job, exam, form.name)
        (shard,) = split_sources((source,), parts=1, min_bytes=1)
        kept: dict[str, NumberedRecord] = {}
        twice: dict[str, list[tuple[str, int]]] = {}
        self.duplicates = 0
        for batch in reader.records(read_blocks(shard, choices.limits)):
            for line, record in zip(reader.batch_lines, batch, strict=True):
                name = name_of(record)
                if name not in kept:
                    kept[name] = NumberedRecord(line, record)
                    continue
                self.duplicates += 1
                twice.setdefault(name, [(source.name, kept[name].line)]).append((source.name, line))
                if choices.on_duplicate == "last":
                    kept[name] = NumberedRecord(line, record)
        if choices.on_bad_line == "error":
            problems = [
                place(source.name, refusal.line, problem)
                for refusal in reader.refusals
                for problem in refusal.problems
            ]
            refuse(problems, choices, total=reader.rejected)
        if choices.on_duplicate == "error":
            refuse(repeated_lines(twice.items(), form), choices)
        if reader.received == 0:
            raise BadInputError(f"{source.name}: contains no records")
        self.accepted = reader.accepted
        self.rejected = reader.rejected
        self.records: Sequence[NumberedRecord] = tuple(kept.values())


def examine_joined(run: ExamRun) -> ExamOutcome:
    """Run the exam over files that each hold one side of every item."""
    paths, expected_ids = dict(run.files), run.expected_ids
    _refuse_one_file_twice(paths)
    job, choices = ExamJob.of(run), run.reading
    exam = build_exam(job)
    with tempfile.TemporaryDirectory(prefix="gatemark-") as folder:
        sources = find_sources(list(paths.values()), choices.limits, Path(folder))
        marks = marks_of(sources)
        files = tuple(digest_source(source) for source in sources)
        sides = {
            name: _Side(source, job, exam, choices)
            for name, source in zip(paths, sources, strict=True)
        }
        refuse_changed(sources, marks)
    joined = exam.join({name: side.records for name, side in sides.items()})
    name_of = schema_of(exam).form(exam.form).namer()
    if choices.on_unpaired == "error":
        files_by_side = dict(zip(paths, (source.name for source in sources), strict=True))
        lonely = _lonely_words(joined.unmatched, files_by_side, name_of)
        refuse(lonely, choices)
    state = exam.merge(exam.zero(0), joined.state)
    for start in range(0, len(joined.rows), JOIN_BATCH):
        state = exam.step(state, joined.rows[start : start + JOIN_BATCH])
    present = {name_of(row) for row in joined.rows}
    unmatched = {name_of(item.record) for items in joined.unmatched.values() for item in items}
    missing = unmatched - present
    if expected_ids is not None:
        strangers = sorted((present | unmatched) - expected_ids)
        refuse([f"id {name!r} is not among the expected ids" for name in strangers], choices)
        missing |= expected_ids - present
    accepted = sum(side.accepted for side in sides.values())
    rejected = sum(side.rejected for side in sides.values())
    evidence = Evidence(
        received=accepted + rejected,
        accepted=accepted,
        rejected=rejected,
        usable=len(joined.rows),
        missing=len(missing),
        expected=None if expected_ids is None else len(expected_ids),
        files=files,
        duplicates=sum(side.duplicates for side in sides.values()),
        checks=choices.checks(),
    )
    return ExamOutcome(exam, exam.finish(state), evidence)


def _lonely_words(
    unmatched: Mapping[str, Sequence[NumberedRecord]],
    files: Mapping[str, str],
    name_of: Callable[[object], str],
) -> list[str]:
    """One message per id that only one side has, and what it may have been meant to be."""
    items = [
        (side, item.line, name_of(item.record))
        for side, found in unmatched.items()
        for item in found
    ]
    alike: dict[str, list[tuple[str, int, str]]] = {}
    for item in items:
        alike.setdefault(_plain(item[2]), []).append(item)
    messages = []
    for side, line, name in items:
        others = [other for other in alike[_plain(name)] if other[0] != side and other[2] != name]
        hint = ""
        if others:
            twin_side, twin_line, twin = others[0]
            hint = f"; {files[twin_side]}:{twin_line} has {twin!a}, and this is {name!a}"
        messages.append(f"{files[side]}:{line}: id {name!r} has no counterpart{hint}")
    return messages


def _plain(name: str) -> str:
    """A name without what the eye may miss: case, spaces around it, how letters are composed."""
    return unicodedata.normalize("NFKC", name).casefold().strip()
