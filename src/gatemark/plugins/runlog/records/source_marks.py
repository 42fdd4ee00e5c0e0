"""What only the source writes into run logs, and how a log is read or rewritten without it.

Case ids, and the names made of them, may end with ``.trace``; where a model failed, the filters of
a decision may be null.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec
from msgspec import UNSET, Struct, UnsetType

from gatemark.core.record import Form, Problem, RecordSchema
from gatemark.plugins.runlog.records.names import TRACE_SUFFIX, strip_case_id
from gatemark.plugins.runlog.records.older_fields import relax_fields
from gatemark.plugins.runlog.records.run import FilterResults, VersionedRecord

FREE_NAMES: Final[Mapping[str, object]] = {
    "event_id": str,
    "decision_id": str,
    "latest_summary_event_id": str | None,
    "summary_history_event_ids": list[str],
}
"""Fields whose patterns a suffix of the case breaks; the rules check them without it."""


class OpenFilters(Struct, frozen=True, gc=False):
    """Findings of the buffer agent as the source writes them: null if the model failed."""

    completeness_passed: bool | UnsetType | None = UNSET
    value_passed: bool | UnsetType | None = UNSET
    novelty_passed: bool | UnsetType | None = UNSET


class SourceMark(Struct, frozen=True):
    """Fields that the source writes otherwise, and how they are changed.

    ``change`` takes the fields of a record and returns those that change; an unset one is left out.
    ``says`` is what migrating reports.
    """

    says: str
    fields: tuple[str, ...]
    change: Callable[[Mapping[str, Any]], dict[str, Any]]


def _strip_suffix(named: Mapping[str, Any]) -> dict[str, Any]:
    """Return the names in a record of a case without ``.trace``, if they are texts."""
    forgotten = named.get("case_id")
    if not isinstance(forgotten, str) or not forgotten.endswith(TRACE_SUFFIX):
        return {}
    kept = strip_case_id(forgotten)
    changes: dict[str, Any] = {}
    for name, found in named.items():
        if isinstance(found, str):
            changes[name] = found.replace(forgotten, kept, 1)
        elif isinstance(found, list):
            changes[name] = [str(one).replace(forgotten, kept, 1) for one in found]
    return changes


def _drop_null_filters(named: Mapping[str, Any]) -> dict[str, Any]:
    """Return the filters that are set; if the model failed and none is, they are left out."""
    filters = named.get("filter_results")
    if not isinstance(filters, dict) or None not in map(
        filters.get, ("completeness_passed", "value_passed"), (0, 0)
    ):
        return {}
    return {
        "filter_results": {key: value for key, value in filters.items() if value is not None}
        or UNSET
    }


SOURCE_MARKS: Final = (
    SourceMark("ids without .trace", ("case_id", *FREE_NAMES), _strip_suffix),
    SourceMark("decisions without null filters", ("filter_results",), _drop_null_filters),
)


def find_source_marks(record: Mapping[str, Any]) -> list[tuple[SourceMark, dict[str, Any]]]:
    """Return the marks of the source in a decoded record, each with what changes."""
    found = []
    for mark in SOURCE_MARKS:
        named = {name: record[name] for name in mark.fields if name in record}
        if changes := mark.change(named):
            found.append((mark, changes))
    return found


def strip_source_marks(record: VersionedRecord) -> VersionedRecord:
    """Return a typed record without the marks of the source."""
    if not record.case_id.endswith(TRACE_SUFFIX) and not isinstance(
        getattr(record, "filter_results", UNSET), OpenFilters
    ):
        return record
    named = {name: getattr(record, name, UNSET) for mark in SOURCE_MARKS for name in mark.fields}
    filters = named["filter_results"]
    if isinstance(filters, OpenFilters):
        named["filter_results"] = msgspec.to_builtins(filters)
    changes: dict[str, Any] = {}
    for _, changed in find_source_marks(named):
        changes |= changed
    if isinstance(filters, OpenFilters):
        kept = changes.get("filter_results", named["filter_results"])
        changes["filter_results"] = kept if kept is UNSET else msgspec.convert(kept, FilterResults)
    return msgspec.structs.replace(record, **changes) if changes else record


def has_null_filters(record: VersionedRecord) -> bool:
    """Return whether a decision of the source has null instead of its filters."""
    found = getattr(record, "filter_results", UNSET)
    return isinstance(found, OpenFilters) and strip_source_marks(record).filter_results is UNSET


def relax_schema(schema: RecordSchema) -> RecordSchema:
    """Return the same schema for files that the source wrote.

    Case ids may end with ``.trace``, and filters may be null. Every other rule holds as usual.
    """

    def form_of(form: Form) -> Form:
        kind = form.type
        if schema.tag is not None:
            kind = relax_fields(
                kind, (), tagged=True, case_id=str, filter_results=OpenFilters, **FREE_NAMES
            )
        rules = tuple(partial(_check_without_marks, rule) for rule in form.rules)
        return msgspec.structs.replace(form, type=kind, rules=rules, proof=None)

    return msgspec.structs.replace(schema, forms=tuple(map(form_of, schema.forms)))


def _check_without_marks(
    rule: Callable[[VersionedRecord], Sequence[Problem]], record: VersionedRecord
) -> Sequence[Problem]:
    return rule(strip_source_marks(record))
