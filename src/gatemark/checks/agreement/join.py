"""Run the agreement exam over one file of judgements per validator: join them, then count."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from gatemark.checks.agreement.count import AgreementExamState, RowColumns, RowExam
from gatemark.checks.agreement.records import AUDITOR, SCHOLAR, Grounds, JudgedAnswer, Opinion
from gatemark.core.errors import BadInputError, UsageError
from gatemark.core.measurement import Evidence
from gatemark.evidence.blocks import read_blocks
from gatemark.evidence.exam import ExamReport, ExamRun
from gatemark.evidence.exam_job import ExamJob, reader_of
from gatemark.evidence.fold_shard import no_collection
from gatemark.evidence.input_problems import PlacedName, describe_same_inputs, refuse_input
from gatemark.evidence.inputs import LinesDigest, find_copied_files, normalize_id, normalize_ids
from gatemark.evidence.reading_choices import ReadingChoices
from gatemark.evidence.record_schemas import schema_of
from gatemark.evidence.shards import whole_file
from gatemark.evidence.source import Source, digest_source, opened_sources

if TYPE_CHECKING:
    from gatemark.checks.agreement.records import Judgement, RedFlags

T = TypeVar("T")
JOIN_BATCH: Final = 1024
ONE_SIDED_FORM: Final = "judgement"
NO_GROUNDS: Final = Grounds()


class JudgedRow(Opinion, frozen=True, gc=False):
    """One validator's opinion, and what it is about. The record itself is not kept."""

    grounds: Grounds = NO_GROUNDS


def _take_row(record: Judgement, twin: JudgedRow | None) -> JudgedRow:
    """Return what is kept of a record; equal grounds are shared with another validator's row."""
    grounds = _take_grounds(record)
    if twin is not None and twin.grounds == grounds:
        grounds = twin.grounds
    return JudgedRow(record.label, record.reason, record.votes, record.seed, grounds)


def _take_grounds(record: Judgement) -> Grounds:
    answer, passages, flags = record.answer_json, record.retrieved_ids, record.flags
    if answer is UNSET and passages is UNSET and flags is UNSET:
        return NO_GROUNDS
    if not isinstance(answer, dict):
        return Grounds(answer, answer, passages, flags)
    read = JudgedAnswer(answer.get("claim", UNSET), answer.get("citations", UNSET))
    return Grounds(read, _digest_answer(answer), passages, flags)


_encoder: Final = msgspec.json.Encoder(order="deterministic")


def _digest_answer(answer: Mapping[str, Any]) -> bytes:
    """Return a digest that two answers share only if all keys are equal, in whatever order."""
    same = _write_numbers_alike(answer) if _has_fraction(answer.values()) else answer
    return hashlib.sha256(_encoder.encode(same)).digest()


def _has_fraction(values: Iterable[Any]) -> bool:
    for value in values:
        kind = type(value)
        if kind is float or (kind is dict and _has_fraction(value.values())):
            return True
        if kind is list and _has_fraction(value):
            return True
    return False


def _write_numbers_alike(value: Any) -> Any:
    """Return a value in which a number has one form: 1.0 is 1."""
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if isinstance(value, dict):
        return {name: _write_numbers_alike(item) for name, item in value.items()}
    return list(map(_write_numbers_alike, value)) if isinstance(value, list) else value


def _combine_grounds(grounds: Sequence[Grounds]) -> tuple[Grounds, bool]:
    """Return the grounds of all sides of a row as one, and whether all are about the same.

    The first value that is not null counts. A flag that one side raised stays raised.
    """
    first = grounds[0]
    if all(one is first for one in grounds):
        return first, True
    combined = Grounds(
        answer_json=_choose_first_given([one.answer_json for one in grounds]),
        retrieved_ids=_choose_first_given([one.retrieved_ids for one in grounds]),
        flags=_combine_flags([one.flags for one in grounds]),
    )
    is_same = _are_all_same([one.answer_digest for one in grounds])
    return combined, is_same and _are_all_same([one.retrieved_ids for one in grounds])


def _choose_first_given(values: Sequence[T | UnsetType]) -> T | UnsetType:
    given = [value for value in values if value is not UNSET]
    return next((value for value in given if value is not None), given[0] if given else UNSET)


def _are_all_same(values: Sequence[object]) -> bool:
    """Return whether all sides that have a value have the same."""
    given = [value for value in values if value is not UNSET]
    return all(value == given[0] for value in given)


def _combine_flags(values: Sequence[RedFlags | UnsetType]) -> RedFlags | UnsetType:
    given = [value for value in values if value is not UNSET]
    raised = (one for one in given if True in (one.provenance_violation, one.constraints_mismatch))
    return next(raised, given[0] if given else UNSET)


class _Side:
    """One file, read completely: its rows by id, and how many were refused or set aside.

    Lines are stored with the rows, and by id only if an input comes again. ``first`` has the rows
    of another side, which is about the same evidence.
    """

    def __init__(
        self,
        source: Source,
        job: ExamJob,
        exam: RowExam,
        choices: ReadingChoices,
        first: Mapping[str, JudgedRow],
    ) -> None:
        form = schema_of(exam).form(ONE_SIDED_FORM)
        self._name_of = form.namer()
        self._first = first
        self.source = source
        self.rows: dict[str, JudgedRow] = {}
        self.duplicates = 0
        self._lines = array("Q")
        self._names: dict[str, str] = {}
        self._again: dict[str, list[PlacedName]] = {}
        self._line_of: dict[str, int] = {}
        reader = reader_of(job, exam, form.name)
        lines = LinesDigest()
        for batch in reader.records(lines.read(read_blocks(whole_file(source), choices.limits))):
            self._add(batch, reader.batch_lines, keeps_last=choices.on_duplicate == "last")
            del batch
        if choices.on_bad_line == "error":
            refuse_input(reader.problems(source.name), choices, total=reader.rejected)
        if choices.on_duplicate == "error":
            refuse_input(describe_same_inputs(self._again.values(), form), choices)
        if reader.received == 0:
            raise BadInputError(f"{source.name}: contains no records")
        self.content = lines.value
        self.accepted = reader.accepted
        self.rejected = reader.rejected

    def _add(self, batch: list[Judgement], lines: Sequence[int], *, keeps_last: bool) -> None:
        names = list(map(self._name_of, batch))
        keys = normalize_ids(names)
        rows = list(map(_take_row, batch, map(self._first.get, names)))
        known = self.rows
        new = dict(zip(keys, names, strict=True))
        if not self._again and len(new) == len(names) and self._names.keys().isdisjoint(new):
            self._names.update(new)
            known.update(zip(names, rows, strict=True))
            self._lines.extend(lines)
            return
        if not self._line_of:
            self._line_of = dict(zip(known, self._lines, strict=True))
        for name, key, row, line in zip(names, keys, rows, lines, strict=True):
            first = self._names.setdefault(key, name)
            if first not in known:
                known[name] = row
                self._line_of[name] = line
                self._lines.append(line)
                continue
            self.duplicates += 1
            file = self.source.name
            places = self._again.setdefault(key, [PlacedName(first, file, self._line_of[first])])
            places.append(PlacedName(name, file, line))
            if keeps_last:
                known[first] = row

    def lonely(self, paired: Collection[str]) -> list[tuple[str, int]]:
        """Return the names that are not paired, with their lines."""
        return [
            (name, line)
            for name, line in zip(self.rows, self._lines, strict=True)
            if name not in paired
        ]


def examine_joined(run: ExamRun, job: ExamJob, exam: RowExam) -> tuple[ExamReport, Evidence]:
    """Run the exam over files that each hold one side of every item."""
    paths, expected_ids, choices = dict(run.files), run.expected_ids, run.reading
    _refuse_one_file_twice(paths)
    with opened_sources(list(paths.values()), choices.limits, must_stay=True) as sources:
        files = tuple(digest_source(source) for source in sources)
        with no_collection():
            sides = _read_sides(dict(zip(paths, sources, strict=True)), job, exam, choices)
    names = sorted(sides[SCHOLAR].rows.keys() & sides[AUDITOR].rows.keys())
    unmatched = _find_unmatched(sides, names)
    if choices.on_unpaired == "error":
        refuse_input(
            _explain_lonely(unmatched, {name: sides[name].source.name for name in sides}), choices
        )
    with no_collection():
        state = _count_joined(exam, {name: side.rows for name, side in sides.items()}, names)
    state.unmatched = {name: len(found) for name, found in unmatched.items()}
    missing = {name for found in unmatched.values() for name, _ in found}
    if expected_ids is not None:
        strangers = sorted((missing | set(names)) - expected_ids)
        refuse_input([f"id {name!r} is not among the expected ids" for name in strangers], choices)
        missing |= expected_ids.difference(names)
    accepted = sum(side.accepted for side in sides.values())
    rejected = sum(side.rejected for side in sides.values())
    evidence = Evidence(
        received=accepted + rejected,
        accepted=accepted,
        rejected=rejected,
        usable=len(names),
        missing=len(missing),
        expected=None if expected_ids is None else len(expected_ids),
        files=files,
        duplicates=sum(side.duplicates for side in sides.values()),
        checks=choices.checks(),
    )
    # By role: a sealed file has another name when its result is derived again.
    named = [
        msgspec.structs.replace(file, name=name) for name, file in zip(paths, files, strict=True)
    ]
    state.copied_files = [
        f"the file of {other.name} is a copy of that of {one.name}"
        for one, other in find_copied_files(named, [sides[name].content for name in paths])
    ]
    return exam.finish(state), evidence


def _refuse_one_file_twice(judgements: Mapping[str, str]) -> None:
    """Raise if two validators share one file: a file agrees with itself."""
    for (name, path), (other, other_path) in combinations(judgements.items(), 2):
        both_exist = Path(path).exists() and Path(other_path).exists()
        if both_exist and Path(path).samefile(other_path):
            raise UsageError(f"{name} and {other} are the same file: {path}")


def _read_sides(
    sources: Mapping[str, Source], job: ExamJob, exam: RowExam, choices: ReadingChoices
) -> dict[str, _Side]:
    sides: dict[str, _Side] = {}
    first: Mapping[str, JudgedRow] = {}
    for name, source in sources.items():
        sides[name] = _Side(source, job, exam, choices, first)
        first = first or sides[name].rows
    return sides


def _find_unmatched(
    sides: Mapping[str, _Side], names: Sequence[str]
) -> dict[str, list[tuple[str, int]]]:
    """Return the names that a side has beyond the shared ones, with their lines."""
    longer = {name: side for name, side in sides.items() if len(side.rows) != len(names)}
    longer |= {name: side for name, side in sides.items() if name not in {SCHOLAR, AUDITOR}}
    paired = set(names) if longer else set()
    return {name: lonely for name, side in longer.items() if (lonely := side.lonely(paired))}


def _count_joined(
    exam: RowExam, sides: Mapping[str, Mapping[str, JudgedRow]], names: Sequence[str]
) -> AgreementExamState:
    """Count the questions that both sides judged."""
    state = exam.zero(0)
    others = {name: rows for name, rows in sides.items() if name not in {SCHOLAR, AUDITOR}}
    for start in range(0, len(names), JOIN_BATCH):
        some = names[start : start + JOIN_BATCH]
        scholars = list(map(sides[SCHOLAR].__getitem__, some))
        auditors = list(map(sides[AUDITOR].__getitem__, some))
        further = {who: list(map(rows.get, some)) for who, rows in others.items()}
        grounds = []
        for name, *said in zip(some, scholars, auditors, *further.values(), strict=True):
            one, is_same = _combine_grounds([row.grounds for row in said if row is not None])
            grounds.append(one)
            if not is_same:
                state.different_evidence.append(name)
        exam.count(state, RowColumns(some, scholars, auditors, grounds))
        if further:
            pairs = list(zip(scholars, auditors, strict=True))
            exam.count_panel(state, some, pairs, further)
    return state


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
