"""Run logs written before 1.5.0: the same types with what those versions lacked left optional.

1.3.0 and 1.4.x have one record per line and lack the fields that 1.5.0 added. 1.2.x and before
keep a whole run in one object with lists of events; all but the names of case and variant may be
missing there. What is missing is listed in notes and stays unset.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar, get_type_hints

import msgspec
from msgspec import UNSET, Struct, UnsetType

from gatemark.core.record import FileRules, Problem, Remark
from gatemark.exams.runlog.records.fields import (
    CASE_PATTERN,
    VERSION_PATTERN,
    TextCheck,
    must_be_moment,
    must_fit,
    text_problems,
)
from gatemark.exams.runlog.records.names import TRACE_SUFFIX, plain_case_id
from gatemark.exams.runlog.records.run import (
    BufferDecision,
    RunLog,
    RunMeta,
    SummaryEvent,
    TokengateFlush,
)
from gatemark.exams.runlog.records.run_rules import (
    DECISION_TEXTS,
    FLUSH_TEXTS,
    PROVENANCE_KEYS,
    SUMMARY_TEXTS,
    RunRules,
)

T = TypeVar("T", bound=Struct)

SINCE_1_5: Final[Mapping[type[Struct], tuple[str, ...]]] = {
    RunMeta: ("trace_file_hash", "trace_dataset_hash", "tokengate_config_hash"),
    SummaryEvent: (
        "trigger_type",
        "summary_history_event_ids",
        "summarizer_input_hash",
        "limits_ok",
        "failure_mode",
    ),
}
"""The required fields that 1.5.0 added."""
_FIRST_MULTI_RECORD: Final = (1, 3)
_FIRST_CURRENT: Final = (1, 5)
_ALWAYS: Final[Mapping[type[Struct], frozenset[str]]] = {
    RunMeta: frozenset({"schema_version", "case_id", "variant_id"}),
    TokengateFlush: frozenset({"start_seq", "end_seq"}),
    BufferDecision: frozenset({"decision"}),
    SummaryEvent: frozenset({"start_seq", "end_seq", "summary_semantics_text"}),
}
_FREE_IDS: Final[Mapping[str, Any]] = {
    "eval_run_id": str,
    "mas_run_id": str,
    "event_id": str,
    "decision_id": str,
    "latest_summary_event_id": str | None,
    "summary_history_event_ids": list[str],
    **dict.fromkeys(PROVENANCE_KEYS, Any),
}


def relaxed(
    record_type: type[Struct], optional: Iterable[str], *, tagged: bool = True, **changes: Any
) -> type[Struct]:
    """A twin of a record type in which some required fields may be left out."""
    config = record_type.__struct_config__
    hints = get_type_hints(record_type, include_extras=True)
    left_out = set(optional)
    fields: list[Any] = []
    for field in msgspec.structs.fields(record_type):
        kind = changes.get(field.name, hints[field.name])
        if field.required and field.name not in left_out:
            fields.append((field.encode_name, kind))
        else:
            fields.append((field.encode_name, kind | UnsetType, UNSET))
    return msgspec.defstruct(
        record_type.__name__,
        fields,
        frozen=True,
        gc=False,
        kw_only=True,
        tag_field=config.tag_field if tagged else None,
        tag=config.tag if tagged else None,
        namespace={"__doc__": record_type.__doc__},
    )


def _loose(record_type: type[Struct], **changes: Any) -> type[Struct]:
    """A twin in which nearly everything may be left out, and ids have no fixed form."""
    names = set(record_type.__struct_fields__) - _ALWAYS[record_type]
    return relaxed(record_type, names, tagged=False, **_FREE_IDS, **changes)


RunMeta13: Final = relaxed(RunMeta, SINCE_1_5[RunMeta], eval_run_id=str)
SummaryEvent13: Final = relaxed(SummaryEvent, SINCE_1_5[SummaryEvent])
_META_12: Final = _loose(RunMeta)
SingleRun: Final[type[Struct]] = msgspec.defstruct(
    "SingleRun",
    [
        *(
            (field.encode_name, field.type)
            if field.required
            else (field.encode_name, field.type, UNSET)
            for field in msgspec.structs.fields(_META_12)
        ),
        ("tokengate_flushes", list[_loose(TokengateFlush)] | UnsetType, UNSET),  # type: ignore[misc]
        ("buffer_decisions", list[_loose(BufferDecision)] | UnsetType, UNSET),  # type: ignore[misc]
        ("summary_events", list[_loose(SummaryEvent)] | UnsetType, UNSET),  # type: ignore[misc]
    ],
    frozen=True,
    gc=False,
    kw_only=True,
    namespace={"__doc__": "A whole run in one object, as 1.2.x and earlier versions wrote it."},
)


def version_number(record: Mapping[str, Any]) -> tuple[int, int] | None:
    """Major and minor of a record's ``schema_version``; None when it has none that can be read."""
    parts = str(record.get("schema_version", "")).split(".")
    if len(parts) < 2 or not all(part.isascii() and part.isdigit() for part in parts[:2]):
        return None
    return int(parts[0]), int(parts[1])


def is_single_record(first: Mapping[str, Any]) -> bool:
    """Whether a file's first record holds a whole run, as 1.2.x and before did."""
    version = version_number(first)
    if version is None or version >= _FIRST_MULTI_RECORD or "record_type" in first:
        return False
    return first.get("schema_name", "exaid.run") == "exaid.run" and "case_id" in first


def is_before_1_5(first: Mapping[str, Any]) -> bool:
    """Whether a file's first record is a ``run_meta`` of 1.3.0 or 1.4.x."""
    version = version_number(first)
    if version is None or first.get("record_type") != "run_meta":
        return False
    return _FIRST_MULTI_RECORD <= version < _FIRST_CURRENT


REQUIRED: Final[Mapping[str, tuple[str, ...]]] = {
    str(kind.__struct_config__.tag): tuple(
        field.name for field in msgspec.structs.fields(kind) if field.required
    )
    for kind in (RunMeta, TokengateFlush, BufferDecision, SummaryEvent)
}
"""The fields that 1.5.0 requires of each kind of record."""


class OlderRunRules(RunRules):
    """The rules of a run log, and notes on what 1.3.0 and 1.4.x do not tell."""

    def __init__(self) -> None:
        super().__init__()
        self._missing = _Missing()

    def see(self, lines: Sequence[int], records: Sequence[Any]) -> Iterator[Remark]:
        yield from super().see(lines, records)
        for record in records:
            self._missing.check(record)

    def end(self) -> Iterator[Remark]:
        yield from super().end()
        yield from self._missing.notes()


class SingleRunRules(FileRules):
    """A file of one run, and notes on what it does not tell."""

    def __init__(self) -> None:
        self._seen = 0
        self._missing = _Missing()

    def see(self, lines: Sequence[int], records: Sequence[Any]) -> Iterator[Remark]:
        for line, record in zip(lines, records, strict=True):
            self._seen += 1
            if self._seen > 1:
                yield Remark(line, "one_run", "$", "a file of this version holds one run")
                continue
            log = as_run_log(record)
            for part in log.records():
                self._missing.check(part)

    def lost(self) -> None:
        """A file of one record is whole or refused."""

    def end(self) -> Iterator[Remark]:
        yield from self._missing.notes()


class _Missing:
    """Counts the fields that records lack although 1.5.0 requires them."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], int] = {}

    def check(self, record: Any) -> None:
        kind = record.__struct_config__.tag
        for field in REQUIRED[kind]:
            if getattr(record, field) is UNSET:
                self._counts[kind, field] = self._counts.get((kind, field), 0) + 1

    def words(self) -> tuple[str, ...]:
        found = []
        for (kind, field), count in self._counts.items():
            where = kind if kind == "run_meta" else f"{count} {kind} record{'s' * (count > 1)}"
            found.append(f"{field} is missing in {where}")
        return tuple(found)

    def notes(self) -> Iterator[Remark]:
        for words in self.words():
            yield Remark(1, "told_since_1_5", "$", words, "note")


_SINGLE_TEXTS: Final = (
    must_fit("case_id", CASE_PATTERN),
    must_fit("schema_version", VERSION_PATTERN),
    must_be_moment("created_at"),
)


def single_run_problems(record: Any) -> Sequence[Problem]:
    """What is wrong inside a whole run, with paths into its lists."""
    log = as_run_log(record)
    found = list(text_problems(log.meta, _SINGLE_TEXTS))
    lists: tuple[tuple[str, Sequence[Any], tuple[TextCheck, ...]], ...] = (
        ("tokengate_flushes", log.flushes, FLUSH_TEXTS),
        ("buffer_decisions", log.decisions, DECISION_TEXTS),
        ("summary_events", log.events, SUMMARY_TEXTS),
    )
    for name, parts, checks in lists:
        for place, part in enumerate(parts):
            found.extend(
                Problem(f"$.{name}[{place}]{problem.path[1:]}", problem.message)
                for problem in text_problems(part, checks)
            )
    return found


def as_current(record: Any, current: type[T]) -> T:
    """A record of an earlier version as today's type; what it does not tell stays unset."""
    if type(record) is current:
        return record
    return current(**{name: getattr(record, name, UNSET) for name in current.__struct_fields__})


def as_run_log(single: Any) -> RunLog:
    """A whole run of one object as the records that it stands for."""
    meta = as_current(single, RunMeta)
    log = RunLog(
        meta=meta,
        flushes=_parts(single.tokengate_flushes, TokengateFlush, meta),
        decisions=_parts(single.buffer_decisions, BufferDecision, meta),
        events=_parts(single.summary_events, SummaryEvent, meta),
    )
    missing = _Missing()
    for record in log.records():
        missing.check(record)
    return msgspec.structs.replace(log, missing=missing.words())


def _parts(found: Any, current: type[T], meta: RunMeta) -> tuple[T, ...]:
    """The events of one kind; they belong to the case and variant of the object they stand in."""
    if found is UNSET:
        return ()
    parts = []
    for part in found:
        whole = as_current(part, current)
        changes = {
            name: getattr(meta, name)
            for name in ("case_id", "variant_id")
            if getattr(whole, name) is UNSET
        }
        parts.append(msgspec.structs.replace(whole, **changes))
    return tuple(parts)


LENIENT: Final[tuple[type[Struct], ...]] = (
    relaxed(RunMeta, (), eval_run_id=str),
    TokengateFlush,
    relaxed(BufferDecision, (), filter_results=Any),
    relaxed(SummaryEvent, SINCE_1_5[SummaryEvent]),
)
"""Types that read published logs in spite of a suffix in their case ids and nulls for filters."""


def run_log_of(records: Iterable[Any], notes: Iterable[Remark] = ()) -> RunLog:
    """A whole log from its records; a forgotten suffix is taken off every name."""
    parts: dict[str, list[Any]] = {kind: [] for kind in REQUIRED}
    for record in records:
        kind = str(record.__struct_config__.tag)
        parts[kind].append(_without_suffix(as_current(record, _CURRENT[kind])))
    (meta,) = parts["run_meta"]
    return RunLog(
        meta=meta,
        flushes=tuple(parts["tokengate_flush"]),
        decisions=tuple(parts["buffer_decision"]),
        events=tuple(parts["summary_event"]),
        missing=tuple(note.message for note in notes),
    )


_CURRENT: Final[Mapping[str, type[Struct]]] = {
    str(kind.__struct_config__.tag): kind
    for kind in (RunMeta, TokengateFlush, BufferDecision, SummaryEvent)
}
_NAMES: Final = ("event_id", "decision_id", "latest_summary_event_id")


def _without_suffix(record: Any) -> Any:
    if not record.case_id.endswith(TRACE_SUFFIX):
        return record
    forgotten, plain = record.case_id, plain_case_id(record.case_id)
    changes: dict[str, Any] = {"case_id": plain}
    for name in _NAMES:
        text = getattr(record, name, None)
        if isinstance(text, str):
            changes[name] = text.replace(forgotten, plain, 1)
    history = getattr(record, "summary_history_event_ids", UNSET)
    if history is not UNSET:
        changes["summary_history_event_ids"] = [
            name.replace(forgotten, plain, 1) for name in history
        ]
    return msgspec.structs.replace(record, **changes)
