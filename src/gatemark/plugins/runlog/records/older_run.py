"""Run logs before 1.5.0: the same types, with fields optional that those versions lacked.

1.3.0 and 1.4.x have one record per line and lack the fields that 1.5.0 added; a run may be named
``mas-…``, and a flush may have the reason ``threshold`` or ``timeout``. 1.2.x and earlier keep a
whole run in one object with lists of events, or, in 1.0.0, with ``summaries`` that have no window;
everything but the names of case and variant may be missing there. Missing fields are listed in
notes and stay unset.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from types import GenericAlias
from typing import Annotated, Any, Final, TypeVar

import msgspec
from msgspec import UNSET, Struct, UnsetType

from gatemark.core.record import FileRules, Problem, Remark
from gatemark.evidence.record_rules import RecordRule, RecordRules
from gatemark.plugins.runlog.records.fields import Count
from gatemark.plugins.runlog.records.forms import make_rules
from gatemark.plugins.runlog.records.older_fields import (
    CURRENT,
    LISTS,
    MULTI_RECORD,
    list_older_types,
    make_type_before_1_5,
    parse_version,
    relax_fields,
    split_run,
)
from gatemark.plugins.runlog.records.run import (
    PROVENANCE_KEYS,
    RECORD_TYPES,
    BufferDecision,
    RunLog,
    RunMeta,
    SummaryContent,
    SummaryEvent,
    TokengateFlush,
    VersionedRecord,
)
from gatemark.plugins.runlog.records.run_file_rules import RunRules, find_cut_off
from gatemark.plugins.runlog.records.source_marks import FREE_NAMES, strip_source_marks

T = TypeVar("T", bound=Struct)

LEFTOVERS: Final = 1
"""Versions before 1.5 summarize the rest at the end without a decision or a flush."""
_ALWAYS: Final[Mapping[type[Struct], frozenset[str]]] = {
    RunMeta: frozenset({"schema_version", "case_id", "variant_id"}),
    TokengateFlush: frozenset({"start_seq", "end_seq"}),
    BufferDecision: frozenset({"decision"}),
    SummaryEvent: frozenset({"start_seq", "end_seq", "summary_semantics_text"}),
}


def _loosen_type(
    record_type: type[Struct], always: frozenset[str], *, tagged: bool = False
) -> type[Struct]:
    """Return a variant in which most fields are optional, and ids and provenance are free."""
    names = set(record_type.__struct_fields__) - always
    free = dict.fromkeys(PROVENANCE_KEYS, Any) | {"mas_run_id": str}
    types = list_older_types(record_type) | free
    return relax_fields(record_type, names, tagged=tagged, **FREE_NAMES, **types)


RunMeta13: Final = make_type_before_1_5(RunMeta)
TokengateFlush13: Final = make_type_before_1_5(TokengateFlush)
SummaryEvent13: Final = make_type_before_1_5(SummaryEvent)
_INSIDE: Final = {kind: _loosen_type(kind, always) for kind, always in _ALWAYS.items()}
"""The records as a whole run has them inside."""


@cache
def _make_split_type(kind: str) -> type[Struct]:
    """Return the type of a record of a whole run by itself; any field may be missing."""
    return _loosen_type(RECORD_TYPES[kind], frozenset(), tagged=True)


@cache
def _choose_rules(kind: str) -> RecordRules[RecordRule]:
    return make_rules(_make_split_type(kind))


class SingleSummary(Struct, frozen=True, gc=False):
    """A summary as 1.0.0 wrote it: a number and its fields, without a window."""

    content: SummaryContent
    summary_idx: Count | UnsetType = UNSET


class SummarizerSettings(Struct, frozen=True, gc=False):
    """The settings of the summarizer in a run of 1.0.0."""

    history_k: Annotated[int, msgspec.Meta(ge=1)] | UnsetType = UNSET


class SingleMeta(Struct, frozen=True, gc=False, omit_defaults=True):
    """``run_meta`` inside a run of 1.0.0. Its extractor has other settings and is not read."""

    summarizer_config: SummarizerSettings = SummarizerSettings()


SingleRun: Final[type[Struct]] = msgspec.defstruct(
    "SingleRun",
    [
        *(
            (field.encode_name, field.type)
            if field.required
            else (field.encode_name, field.type, UNSET)
            for field in msgspec.structs.fields(_INSIDE[RunMeta])
        ),
        *(
            (name, GenericAlias(list, (_INSIDE[RECORD_TYPES[kind]],)) | UnsetType, UNSET)
            for name, kind in LISTS.items()
            if name != "summaries"
        ),
        ("summaries", list[SingleSummary] | UnsetType, UNSET),
        ("run_meta", SingleMeta | UnsetType, UNSET),
        ("timestamp", str | UnsetType, UNSET),
    ],
    frozen=True,
    gc=False,
    kw_only=True,
    namespace={"__doc__": "A whole run in one object, as 1.2.x and earlier versions wrote it."},
)


def is_single_record(first: Mapping[str, object]) -> bool:
    """Return whether a file's first record is a whole run, as up to 1.2.x."""
    version = parse_version(first)
    if version is None or version >= MULTI_RECORD or "record_type" in first:
        return False
    return first.get("schema_name", "exaid.run") == "exaid.run" and "case_id" in first


def is_before_1_5(first: Mapping[str, object]) -> bool:
    """Return whether a file's first record is a ``run_meta`` of 1.3.0 or 1.4.x."""
    version = parse_version(first)
    if version is None or first.get("record_type") != "run_meta":
        return False
    return MULTI_RECORD <= version < CURRENT


REQUIRED: Final[Mapping[str, tuple[str, ...]]] = {
    tag: tuple(field.name for field in msgspec.structs.fields(kind) if field.required)
    for tag, kind in RECORD_TYPES.items()
}
"""The fields that 1.5.0 requires of each kind of record."""


class OlderRunRules(RunRules):
    """The rules of a run log, with notes on fields that 1.3.0 and 1.4.x lack."""

    _is_older = True

    def __init__(self) -> None:
        super().__init__()
        self._missing = _Missing()

    def see(self, lines: Sequence[int], records: Sequence[VersionedRecord]) -> Iterator[Remark]:
        yield from super().see(lines, records)
        for record in records:
            self._missing.check(record)

    def end(self) -> Iterator[Remark]:
        yield from super().end()
        yield from self._missing.list_notes()

    def _find_incomplete(self, meta: VersionedRecord) -> Iterator[Remark]:
        _, flushes, decisions, summaries = self._counts
        # These versions may log no decisions at all, and may summarize the rest at the end.
        wanted = self._to_summarize if decisions else summaries
        counts = (flushes, decisions, summaries)
        return find_cut_off(meta, self._meta_line, counts, wanted, LEFTOVERS)


class SingleRunRules(FileRules):
    """The rules of a file with one run, with notes on missing fields."""

    def __init__(self) -> None:
        self._seen = 0
        self._missing = _Missing()

    def see(self, lines: Sequence[int], records: Sequence[VersionedRecord]) -> Iterator[Remark]:
        for line, record in zip(lines, records, strict=True):
            self._seen += 1
            if self._seen > 1:
                yield Remark(line, "one_run", "$", "a file of this version holds one run")
                continue
            log = convert_to_run_log(record)
            for part in log.records():
                self._missing.check(part)
            counts = (len(log.flushes), len(log.decisions), len(log.events))
            wanted = sum(one.decision == "summarize" for one in log.decisions)
            wanted = wanted if log.decisions else counts[2]
            yield from find_cut_off(log.meta, line, counts, wanted, LEFTOVERS)

    def lost(self) -> None:
        """Do nothing; a file of one record is whole or refused."""

    def end(self) -> Iterator[Remark]:
        yield from self._missing.list_notes()


class _Missing:
    """Counter of fields that 1.5.0 requires and records lack."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()

    def check(self, record: Struct) -> None:
        kind = str(record.__struct_config__.tag)
        self._counts.update(
            (kind, field) for field in REQUIRED[kind] if getattr(record, field) is UNSET
        )

    def describe(self) -> tuple[str, ...]:
        found = []
        for (kind, field), count in self._counts.items():
            where = kind if kind == "run_meta" else f"{count} {kind} record{'s' * (count > 1)}"
            found.append(f"{field} is missing in {where}")
        return tuple(found)

    def list_notes(self) -> Iterator[Remark]:
        for words in self.describe():
            yield Remark(1, "told_since_1_5", "$", words, "note")


def check_single_run(record: Struct) -> Sequence[Problem]:
    """Return the problems of a whole run, with paths into its lists."""
    log = convert_to_run_log(record)
    found = _choose_rules("run_meta").find_problems(log.meta)
    for name, parts in (
        ("tokengate_flushes", log.flushes),
        ("buffer_decisions", log.decisions),
        ("summary_events", log.events),
    ):
        for place, part in enumerate(parts):
            found.extend(
                Problem(f"$.{name}[{place}]{problem.path[1:]}", problem.message)
                for problem in _choose_rules(LISTS[name]).find_problems(part)
            )
    return found


def convert_to_current(record: Struct, current: type[T]) -> T:
    """Convert a record of an earlier version to the current type; missing fields stay unset."""
    if type(record) is current:
        return record
    return current(**{name: getattr(record, name, UNSET) for name in current.__struct_fields__})


def convert_to_run_log(single: Struct) -> RunLog:
    """Convert a run in one object to a run log."""
    log = _join_records(
        msgspec.convert(record, _make_split_type(record["record_type"]))
        for record in split_run(msgspec.to_builtins(single))
    )
    missing = _Missing()
    for record in log.records():
        missing.check(record)
    return msgspec.structs.replace(log, missing=missing.describe())


def build_run_log(records: Iterable[VersionedRecord], notes: Iterable[Remark] = ()) -> RunLog:
    """Return a log from its records, without what only the source writes."""
    log = _join_records(map(strip_source_marks, records))
    return msgspec.structs.replace(log, missing=tuple(note.message for note in notes))


def _join_records(records: Iterable[VersionedRecord]) -> RunLog:
    parts: dict[str, list[VersionedRecord]] = {kind: [] for kind in RECORD_TYPES}
    for record in records:
        kind = str(record.__struct_config__.tag)
        parts[kind].append(convert_to_current(record, RECORD_TYPES[kind]))
    (meta,) = parts["run_meta"]
    return RunLog(
        meta=meta,
        flushes=tuple(parts["tokengate_flush"]),
        decisions=tuple(parts["buffer_decision"]),
        events=tuple(parts["summary_event"]),
    )
