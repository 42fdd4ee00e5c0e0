"""Run logs before 1.5.0: the same types, with fields optional that those versions lacked.

1.3.0 and 1.4.x have one record per line and lack the fields that 1.5.0 added; a run may be named
``mas-…``, and a flush may have the reason ``threshold`` or ``timeout``. 1.2.x and earlier keep a
whole run in one object with lists of events, or, in 1.0.0, with ``summaries`` that have no window;
everything but the names of case and variant may be missing there. Missing fields are listed in
notes and stay unset.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Final, TypeVar, get_type_hints

import msgspec
from msgspec import UNSET, Struct, UnsetType

from gatemark.core.record import FileRules, Form, Problem, RecordSchema, Remark
from gatemark.exams.runlog.records.fields import Count, OlderMasRunId, check_texts
from gatemark.exams.runlog.records.names import TRACE_SUFFIX, strip_case_id
from gatemark.exams.runlog.records.run import (
    PROVENANCE_KEYS,
    RECORD_TYPES,
    SEMANTIC_FIELDS,
    BufferDecision,
    FilterResults,
    OlderTriggerReason,
    RunLog,
    RunMeta,
    SummaryContent,
    SummaryEvent,
    TokengateFlush,
    VersionedRecord,
)
from gatemark.exams.runlog.records.run_rules import RunRules, check_meta_texts, find_cut_off

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
LEFTOVERS: Final = 1
"""Versions before 1.5 summarize the rest at the end without a decision or a flush."""
_FIRST_MULTI_RECORD: Final = (1, 3)
_FIRST_CURRENT: Final = (1, 5)
_ALWAYS: Final[Mapping[type[Struct], frozenset[str]]] = {
    RunMeta: frozenset({"schema_version", "case_id", "variant_id"}),
    TokengateFlush: frozenset({"start_seq", "end_seq"}),
    BufferDecision: frozenset({"decision"}),
    SummaryEvent: frozenset({"start_seq", "end_seq", "summary_semantics_text"}),
}
_FREE_NAMES: Final[Mapping[str, object]] = {
    "event_id": str,
    "decision_id": str,
    "latest_summary_event_id": str | None,
    "summary_history_event_ids": list[str],
}
"""Fields whose patterns a suffix of the case breaks; the rules check them without it."""


def relax_fields(
    record_type: type[Struct], optional: Iterable[str], *, tagged: bool = True, **changes: object
) -> type[Struct]:
    """Return a variant of a record type in which some required fields are optional."""
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


def _loosen_type(record_type: type[Struct]) -> type[Struct]:
    """Return a variant in which most fields are optional, and ids and provenance are free."""
    names = set(record_type.__struct_fields__) - _ALWAYS[record_type]
    free = dict.fromkeys(PROVENANCE_KEYS, Any) | {"eval_run_id": str, "mas_run_id": str}
    return relax_fields(record_type, names, tagged=False, **_FREE_NAMES, **free)


RunMeta13: Final = relax_fields(
    RunMeta, SINCE_1_5[RunMeta], eval_run_id=str, mas_run_id=OlderMasRunId
)
TokengateFlush13: Final = relax_fields(TokengateFlush, (), trigger_reason=OlderTriggerReason)
SummaryEvent13: Final = relax_fields(SummaryEvent, SINCE_1_5[SummaryEvent])
_META_12: Final = _loosen_type(RunMeta)


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
            for field in msgspec.structs.fields(_META_12)
        ),
        ("tokengate_flushes", list[_loosen_type(TokengateFlush)] | UnsetType, UNSET),  # type: ignore[misc]
        ("buffer_decisions", list[_loosen_type(BufferDecision)] | UnsetType, UNSET),  # type: ignore[misc]
        ("summary_events", list[_loosen_type(SummaryEvent)] | UnsetType, UNSET),  # type: ignore[misc]
        ("summaries", list[SingleSummary] | UnsetType, UNSET),
        ("run_meta", SingleMeta | UnsetType, UNSET),
        ("timestamp", str | UnsetType, UNSET),
    ],
    frozen=True,
    gc=False,
    kw_only=True,
    namespace={"__doc__": "A whole run in one object, as 1.2.x and earlier versions wrote it."},
)


def parse_version(record: Mapping[str, object]) -> tuple[int, int] | None:
    """Return major and minor of a record's ``schema_version``; None if it is not readable."""
    parts = str(record.get("schema_version", "")).split(".")
    if len(parts) < 2 or not all(part.isascii() and part.isdigit() for part in parts[:2]):
        return None
    return int(parts[0]), int(parts[1])


def is_single_record(first: Mapping[str, object]) -> bool:
    """Return whether a file's first record is a whole run, as up to 1.2.x."""
    version = parse_version(first)
    if version is None or version >= _FIRST_MULTI_RECORD or "record_type" in first:
        return False
    return first.get("schema_name", "exaid.run") == "exaid.run" and "case_id" in first


def is_before_1_5(first: Mapping[str, object]) -> bool:
    """Return whether a file's first record is a ``run_meta`` of 1.3.0 or 1.4.x."""
    version = parse_version(first)
    if version is None or first.get("record_type") != "run_meta":
        return False
    return _FIRST_MULTI_RECORD <= version < _FIRST_CURRENT


REQUIRED: Final[Mapping[str, tuple[str, ...]]] = {
    tag: tuple(field.name for field in msgspec.structs.fields(kind) if field.required)
    for tag, kind in RECORD_TYPES.items()
}
"""The fields that 1.5.0 requires of each kind of record."""


class OlderRunRules(RunRules):
    """The rules of a run log, with notes on fields that 1.3.0 and 1.4.x lack."""

    _contributions = True

    def __init__(self) -> None:
        super().__init__()
        self._missing = _Missing()

    def see(self, lines: Sequence[int], records: Sequence[VersionedRecord]) -> Iterator[Remark]:
        yield from super().see(lines, records)
        for record in records:
            self._missing.check(record)

    def end(self) -> Iterator[Remark]:
        yield from super().end()
        yield from self._missing.notes()

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
        yield from self._missing.notes()


class _Missing:
    """Counter of fields that 1.5.0 requires and records lack."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()

    def check(self, record: Struct) -> None:
        kind = str(record.__struct_config__.tag)
        self._counts.update(
            (kind, field) for field in REQUIRED[kind] if getattr(record, field) is UNSET
        )

    def words(self) -> tuple[str, ...]:
        found = []
        for (kind, field), count in self._counts.items():
            where = kind if kind == "run_meta" else f"{count} {kind} record{'s' * (count > 1)}"
            found.append(f"{field} is missing in {where}")
        return tuple(found)

    def notes(self) -> Iterator[Remark]:
        for words in self.words():
            yield Remark(1, "told_since_1_5", "$", words, "note")


def check_older_meta(meta: VersionedRecord) -> Sequence[Problem]:
    """Return the problems of a ``run_meta`` of 1.3.0 or 1.4.x."""
    return check_meta_texts(meta, RunMeta13)


def check_single_run(record: Struct) -> Sequence[Problem]:
    """Return the problems of a whole run, with paths into its lists."""
    log = convert_to_run_log(record)
    found = list(check_texts(log.meta, _META_12))
    lists: tuple[tuple[str, Sequence[Struct], type[Struct]], ...] = (
        ("tokengate_flushes", log.flushes, TokengateFlush),
        ("buffer_decisions", log.decisions, BufferDecision),
        ("summary_events", log.events, SummaryEvent),
    )
    for name, parts, kind in lists:
        for place, part in enumerate(parts):
            found.extend(
                Problem(f"$.{name}[{place}]{problem.path[1:]}", problem.message)
                for problem in check_texts(part, kind)
            )
    return found


def convert_to_current(record: Struct, current: type[T]) -> T:
    """Convert a record of an earlier version to the current type; missing fields stay unset."""
    if type(record) is current:
        return record
    return current(**{name: getattr(record, name, UNSET) for name in current.__struct_fields__})


def convert_to_run_log(single: Struct) -> RunLog:
    """Convert a run in one object to a run log."""
    meta = _find_single_meta(single)
    log = RunLog(
        meta=meta,
        flushes=_list_parts(single, "tokengate_flushes", TokengateFlush, meta),
        decisions=_list_parts(single, "buffer_decisions", BufferDecision, meta),
        events=(
            *_list_parts(single, "summary_events", SummaryEvent, meta),
            *_convert_summaries(single, meta),
        ),
    )
    missing = _Missing()
    for record in log.records():
        missing.check(record)
    return msgspec.structs.replace(log, missing=missing.words())


def _find_single_meta(single: VersionedRecord) -> RunMeta:
    """Return the ``run_meta`` of a run in one object, wherever the run keeps its parts."""
    meta: VersionedRecord = convert_to_current(single, RunMeta)
    changes: dict[str, object] = {}
    if meta.created_at is UNSET:
        changes["created_at"] = single.timestamp
    if meta.history_k is UNSET and single.run_meta is not UNSET:
        changes["history_k"] = single.run_meta.summarizer_config.history_k
    found: RunMeta = msgspec.structs.replace(meta, **changes)
    return found


def _convert_summaries(single: VersionedRecord, meta: RunMeta) -> Iterator[SummaryEvent]:
    """Yield the ``summaries`` of 1.0.0 as events; they only have their text."""
    found: Sequence[SingleSummary] = () if single.summaries is UNSET else single.summaries
    unset = dict.fromkeys(SummaryEvent.__struct_fields__, UNSET)
    for place, summary in enumerate(found):
        fields = (getattr(summary.content, name) for name in SEMANTIC_FIELDS)
        index = place if summary.summary_idx is UNSET else summary.summary_idx
        converted: dict[str, object] = {
            "event_index": index,
            "case_id": meta.case_id,
            "variant_id": meta.variant_id,
            "summary_content": summary.content,
            "summary_semantics_text": " ".join(field for field in fields if field),
        }
        yield SummaryEvent(**{**unset, **converted})  # type: ignore[arg-type]


def _list_parts(single: Struct, name: str, current: type[T], meta: RunMeta) -> tuple[T, ...]:
    """Return the events of one kind, with case and variant of the run."""
    found: Sequence[Struct] | UnsetType = getattr(single, name)
    if found is UNSET:
        return ()
    parts = []
    for part in found:
        whole = convert_to_current(part, current)
        changes = {
            name: getattr(meta, name)
            for name in ("case_id", "variant_id")
            if getattr(whole, name) is UNSET
        }
        parts.append(msgspec.structs.replace(whole, **changes))
    return tuple(parts)


class OpenFilters(Struct, frozen=True, gc=False):
    """Findings of the buffer agent as the source writes them: null if the model failed."""

    completeness_passed: bool | UnsetType | None = UNSET
    value_passed: bool | UnsetType | None = UNSET
    novelty_passed: bool | UnsetType | None = UNSET


def relax_schema(schema: RecordSchema) -> RecordSchema:
    """Return the same schema for files that the source wrote.

    Case ids may end with ``.trace``, and filters may be null. Every other rule holds as usual.
    """

    def form_of(form: Form) -> Form:
        kind = form.type
        if schema.tag is not None:
            kind = relax_fields(
                kind, (), tagged=True, case_id=str, filter_results=OpenFilters, **_FREE_NAMES
            )
        rules = tuple(partial(_check_without_marks, rule) for rule in form.rules)
        return msgspec.structs.replace(form, type=kind, rules=rules, proof=None)

    return msgspec.structs.replace(schema, forms=tuple(map(form_of, schema.forms)))


def _check_without_marks(
    rule: Callable[[VersionedRecord], Sequence[Problem]], record: VersionedRecord
) -> Sequence[Problem]:
    return rule(strip_source_marks(record))


def build_run_log(records: Iterable[VersionedRecord], notes: Iterable[Remark] = ()) -> RunLog:
    """Return a log from its records, without what only the source writes."""
    parts: dict[str, list[VersionedRecord]] = {kind: [] for kind in REQUIRED}
    for record in records:
        kind = str(record.__struct_config__.tag)
        parts[kind].append(strip_source_marks(convert_to_current(record, RECORD_TYPES[kind])))
    (meta,) = parts["run_meta"]
    return RunLog(
        meta=meta,
        flushes=tuple(parts["tokengate_flush"]),
        decisions=tuple(parts["buffer_decision"]),
        events=tuple(parts["summary_event"]),
        missing=tuple(note.message for note in notes),
    )


def strip_source_marks(record: VersionedRecord) -> VersionedRecord:
    """Return a record without ``.trace`` in its names and without filters that are null."""
    found = getattr(record, "filter_results", UNSET)
    if isinstance(found, OpenFilters):
        record = msgspec.structs.replace(record, filter_results=_drop_null_filters(found))
    if not record.case_id.endswith(TRACE_SUFFIX):
        return record
    named = {name: getattr(record, name, UNSET) for name in ("case_id", *_FREE_NAMES)}
    return msgspec.structs.replace(record, **strip_suffix(named))


def strip_suffix(named: Mapping[str, object]) -> dict[str, Any]:
    """Return the names in a record of a case without ``.trace``, if they are texts."""
    forgotten = str(named["case_id"])
    kept = strip_case_id(forgotten)
    changes: dict[str, Any] = {}
    for name in ("case_id", *_FREE_NAMES):
        found = named.get(name)
        if isinstance(found, str):
            changes[name] = found.replace(forgotten, kept, 1)
        elif isinstance(found, list):
            changes[name] = [str(one).replace(forgotten, kept, 1) for one in found]
    return changes


def has_null_filters(record: VersionedRecord) -> bool:
    """Return whether a decision of the source has null instead of its filters."""
    found = getattr(record, "filter_results", UNSET)
    return isinstance(found, OpenFilters) and _drop_null_filters(found) is UNSET


def _drop_null_filters(found: OpenFilters) -> FilterResults | UnsetType:
    """Return the filters that are set; unset if the model failed and none is."""
    complete, value = found.completeness_passed, found.value_passed
    if complete is None and value is None:
        return UNSET
    return FilterResults(
        completeness_passed=UNSET if complete is None else complete,
        value_passed=UNSET if value is None else value,
        novelty_passed=found.novelty_passed,
    )
