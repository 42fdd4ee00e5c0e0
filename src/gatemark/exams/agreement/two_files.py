"""Run the agreement exam over one file of judgements per validator: join them, then count."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from gatemark.core.errors import BadInputError, UsageError
from gatemark.core.measurement import Evidence
from gatemark.evidence.blocks import read_blocks
from gatemark.evidence.exam import ExamReport, ExamRun
from gatemark.evidence.exam_job import ExamJob, reader_of
from gatemark.evidence.fold_shard import no_collection
from gatemark.evidence.input_problems import PlacedName, describe_same_inputs, refuse_input
from gatemark.evidence.inputs import find_copied_files, normalize_id, normalize_ids
from gatemark.evidence.reading_choices import ReadingChoices
from gatemark.evidence.record_schemas import schema_of
from gatemark.evidence.shards import whole_file
from gatemark.evidence.source import Source, digest_source, opened_sources
from gatemark.exams.agreement.counting import AgreementExamState, RowColumns, RowExam
from gatemark.exams.agreement.plain_files import count_plain, read_plain_rows
from gatemark.exams.agreement.records import JoinedAnswer, JoinedRow
from gatemark.exams.agreement.rules import AUDITOR, CLEAR, SCHOLAR, find_red_flag

if TYPE_CHECKING:
    from gatemark.exams.agreement.records import Judgement, RedFlags

T = TypeVar("T")


def _join_row(records: Sequence[Judgement]) -> JoinedRow:
    answers = [record.answer_json for record in records]
    passages = [record.retrieved_ids for record in records]
    answer = _choose_first_given(answers)
    return JoinedRow(
        answer_json=msgspec.convert(answer, JoinedAnswer) if isinstance(answer, dict) else answer,
        retrieved_ids=_choose_first_given(passages),
        flags=_combine_flags([record.flags for record in records]),
        same_evidence=_are_all_same(answers) and _are_all_same(passages),
    )


def _choose_first_given(values: Sequence[T | UnsetType]) -> T | UnsetType:
    given = [value for value in values if value is not UNSET]
    return next((value for value in given if value is not None), given[0] if given else UNSET)


def _are_all_same(values: Sequence[object]) -> bool:
    """Return whether all sides that have a value have the same."""
    given = [value for value in values if value is not UNSET]
    return all(value == given[0] for value in given)


def _combine_flags(values: Sequence[RedFlags | UnsetType]) -> RedFlags | UnsetType:
    """Combine the flags of all sides; a flag that one side raised stays raised."""
    given = [value for value in values if value is not UNSET]
    raised = (one for one in given if True in (one.provenance_violation, one.constraints_mismatch))
    return next(raised, given[0] if given else UNSET)


JOIN_BATCH = 1024
ONE_SIDED_FORM = "judgement"


def _refuse_one_file_twice(judgements: Mapping[str, str]) -> None:
    """Raise if two validators share one file: a file agrees with itself."""
    for (name, path), (other, other_path) in combinations(judgements.items(), 2):
        both_exist = Path(path).exists() and Path(other_path).exists()
        if both_exist and Path(path).samefile(other_path):
            raise UsageError(f"{name} and {other} are the same file: {path}")


class _Side:
    """One file, read completely: its records by id, and how many were refused or set aside.

    Lines are stored with the records, and by id only if an input comes again. ``is_plain`` is true
    if no record has more than a label and a reason.
    """

    def __init__(
        self, source: Source, job: ExamJob, exam: RowExam, choices: ReadingChoices
    ) -> None:
        form = schema_of(exam).form(ONE_SIDED_FORM)
        self._name_of = form.namer()
        self.source = source
        self.records: dict[str, Judgement] = {}
        self.duplicates = 0
        self.is_plain = True
        self._lines = array("Q")
        self._names: dict[str, str] = {}
        self._again: dict[str, list[PlacedName]] = {}
        self._line_of: dict[str, int] = {}
        reader = reader_of(job, exam, form.name)
        for batch in reader.records(read_blocks(whole_file(source), choices.limits)):
            self._add(batch, reader.batch_lines, keeps_last=choices.on_duplicate == "last")
        if choices.on_bad_line == "error":
            refuse_input(reader.problems(source.name), choices, total=reader.rejected)
        if choices.on_duplicate == "error":
            refuse_input(describe_same_inputs(self._again.values(), form), choices)
        if reader.received == 0:
            raise BadInputError(f"{source.name}: contains no records")
        self.accepted = reader.accepted
        self.rejected = reader.rejected

    def _add(self, batch: list[Judgement], lines: Sequence[int], *, keeps_last: bool) -> None:
        names = list(map(self._name_of, batch))
        keys = normalize_ids(names)
        known = self.records
        self.is_plain = self.is_plain and not any(map(_has_evidence, batch))
        new = dict(zip(keys, names, strict=True))
        if not self._again and len(new) == len(names) and self._names.keys().isdisjoint(new):
            self._names.update(new)
            known.update(zip(names, batch, strict=True))
            self._lines.extend(lines)
            return
        if not self._line_of:
            self._line_of = dict(zip(known, self._lines, strict=True))
        for name, key, record, line in zip(names, keys, batch, lines, strict=True):
            first = self._names.setdefault(key, name)
            if first not in known:
                known[name] = record
                self._line_of[name] = line
                self._lines.append(line)
                continue
            self.duplicates += 1
            file = self.source.name
            places = self._again.setdefault(key, [PlacedName(first, file, self._line_of[first])])
            places.append(PlacedName(name, file, line))
            if keeps_last:
                known[first] = record

    def lonely(self, paired: Collection[str]) -> list[tuple[str, int]]:
        """Return the names that are not paired, with their lines."""
        return [
            (name, line)
            for name, line in zip(self.records, self._lines, strict=True)
            if name not in paired
        ]


class _Joined(NamedTuple):
    """Both sides as one state: the shared names, those that a side lacks, and counts of lines."""

    state: AgreementExamState
    names: Collection[str]
    missing: set[str]
    accepted: int
    rejected: int = 0
    duplicates: int = 0


def examine_joined(run: ExamRun, job: ExamJob, exam: RowExam) -> tuple[ExamReport, Evidence]:
    """Run the exam over files that each hold one side of every item."""
    paths, expected_ids = dict(run.files), run.expected_ids
    _refuse_one_file_twice(paths)
    choices = run.reading
    with opened_sources(list(paths.values()), choices.limits, must_stay=True) as sources:
        files = tuple(digest_source(source) for source in sources)
        by_name = dict(zip(paths, sources, strict=True))
        joined = _join_columns(exam, by_name, choices) or _join_records(job, exam, by_name, choices)
    names, missing = joined.names, joined.missing
    if expected_ids is not None:
        strangers = sorted((missing | set(names)) - expected_ids)
        refuse_input([f"id {name!r} is not among the expected ids" for name in strangers], choices)
        missing |= expected_ids.difference(names)
    evidence = Evidence(
        received=joined.accepted + joined.rejected,
        accepted=joined.accepted,
        rejected=joined.rejected,
        usable=len(names),
        missing=len(missing),
        expected=None if expected_ids is None else len(expected_ids),
        files=files,
        duplicates=joined.duplicates,
        checks=choices.checks(),
    )
    # By role: a sealed file has another name when its result is derived again.
    named = [
        msgspec.structs.replace(file, name=name) for name, file in zip(paths, files, strict=True)
    ]
    joined.state.copied_files = [
        f"the file of {other.name} is a copy of that of {one.name}"
        for one, other in find_copied_files(named)
    ]
    return exam.finish(joined.state), evidence


def _join_columns(
    exam: RowExam, sources: Mapping[str, Source], choices: ReadingChoices
) -> _Joined | None:
    """Join two files by column; None if they must be read record by record."""
    if sources.keys() != {SCHOLAR, AUDITOR}:
        return None
    rows = read_plain_rows((sources[SCHOLAR], sources[AUDITOR]), exam, choices)
    if rows is None:
        return None
    state = exam.zero(0)
    count_plain(exam, state, rows)
    return _Joined(state, rows.listed, set(), accepted=2 * rows.names.size)


def _join_records(
    job: ExamJob, exam: RowExam, sources: Mapping[str, Source], choices: ReadingChoices
) -> _Joined:
    """Join any number of files, record by record."""
    with no_collection():
        sides = {name: _Side(source, job, exam, choices) for name, source in sources.items()}
    names = [name for name in sorted(sides[SCHOLAR].records) if name in sides[AUDITOR].records]
    unmatched = _find_unmatched(sides, names)
    if choices.on_unpaired == "error":
        refuse_input(
            _explain_lonely(unmatched, {name: sides[name].source.name for name in sides}), choices
        )
    with no_collection():
        state = _count_joined(exam, sides, names)
    state.unmatched = {name: len(found) for name, found in unmatched.items()}
    return _Joined(
        state,
        names,
        {name for found in unmatched.values() for name, _ in found},
        accepted=sum(side.accepted for side in sides.values()),
        rejected=sum(side.rejected for side in sides.values()),
        duplicates=sum(side.duplicates for side in sides.values()),
    )


def _find_unmatched(
    sides: Mapping[str, _Side], names: Sequence[str]
) -> dict[str, list[tuple[str, int]]]:
    """Return the names that a side has beyond the shared ones, with their lines."""
    longer = {name: side for name, side in sides.items() if len(side.records) != len(names)}
    longer |= {name: side for name, side in sides.items() if name not in {SCHOLAR, AUDITOR}}
    paired = set(names) if longer else set()
    return {name: lonely for name, side in longer.items() if (lonely := side.lonely(paired))}


def _count_joined(
    exam: RowExam, sides: Mapping[str, _Side], names: Sequence[str]
) -> AgreementExamState:
    """Count the questions that both sides judged."""
    state = exam.zero(0)
    is_plain = all(side.is_plain for side in sides.values())
    by_name = {name: side.records for name, side in sides.items()}
    others = {name: side for name, side in by_name.items() if name not in {SCHOLAR, AUDITOR}}
    for start in range(0, len(names), JOIN_BATCH):
        some = names[start : start + JOIN_BATCH]
        scholars = list(map(by_name[SCHOLAR].__getitem__, some))
        auditors = list(map(by_name[AUDITOR].__getitem__, some))
        further = [[side.get(name) for name in some] for side in others.values()]
        rows = {} if is_plain else _find_rows_with_evidence(scholars, auditors, further)
        flags = {place: find_red_flag(row) for place, row in rows.items()}
        claims: list[str | UnsetType | None] = [UNSET] * len(some)
        for place, row in rows.items():
            claims[place] = row.answer_json.claim if row.answer_json else UNSET
        raised = {place: flag for place, flag in flags.items() if flag != CLEAR}
        exam.count(state, RowColumns(some, scholars, auditors, claims, raised))
        state.different_evidence += [
            some[place] for place, row in rows.items() if not row.same_evidence
        ]
        if others:
            opinions = zip(scholars, auditors, *further, strict=True)
            exam.count_panel(state, list(others), zip(some, opinions, strict=True))
    return state


def _has_evidence(record: Judgement) -> bool:
    return (
        record.answer_json is not UNSET
        or record.flags is not UNSET
        or record.retrieved_ids is not UNSET
    )


def _find_rows_with_evidence(
    scholars: Sequence[Judgement],
    auditors: Sequence[Judgement],
    further: Sequence[Sequence[Judgement | None]],
) -> dict[int, JoinedRow]:
    """Return the rows in which a side has more than a label and a reason, by place."""
    sides = (scholars, auditors, *further)
    places = {
        place
        for side in sides
        for place, one in enumerate(side)
        if one is not None and _has_evidence(one)
    }
    return {
        place: _join_row([one for side in sides if (one := side[place]) is not None])
        for place in sorted(places)
    }


def _explain_lonely(
    unmatched: Mapping[str, Sequence[tuple[str, int]]], files: Mapping[str, str]
) -> list[str]:
    """Return a message per id that only one side has, with a similar id if there is one."""
    items = [(side, line, name) for side, found in unmatched.items() for name, line in found]
    alike: dict[str, list[tuple[str, int, str]]] = {}
    for item in items:
        alike.setdefault(normalize_id(item[2]), []).append(item)
    messages = []
    for side, line, name in items:
        others = [
            other for other in alike[normalize_id(name)] if other[0] != side and other[2] != name
        ]
        hint = ""
        if others:
            twin_side, twin_line, twin = others[0]
            hint = f"; {files[twin_side]}:{twin_line} has {twin!a}, and this is {name!a}"
        messages.append(f"{files[side]}:{line}: id {name!r} has no counterpart{hint}")
    return messages
