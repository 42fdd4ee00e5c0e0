"""What older run logs keep elsewhere or otherwise, field by field; for reading and for migrating.

1.3.0 and 1.4.x have one record per line and lack the fields that 1.5.0 added. 1.2.x and earlier
keep a whole run in one object with lists of events, or, in 1.0.0, with ``summaries`` that have no
window.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, get_type_hints

import msgspec
from msgspec import UNSET, Struct, UnsetType

from gatemark.plugins.runlog.records.fields import OlderMasRunId
from gatemark.plugins.runlog.records.run import (
    RECORD_TYPES,
    SEMANTIC_FIELDS,
    OlderTriggerReason,
)

AFTER_1_0: Final = (1, 1)
MULTI_RECORD: Final = (1, 3)
"""The first version with one record per line."""
CURRENT: Final = (1, 5)


class OlderField(Struct, frozen=True, kw_only=True):
    """A field of a record that versions before ``since`` keep otherwise.

    ``old`` is its place there, in the record or in the object of a whole run; without one they lack
    it. ``may_be`` is its type there, if that is another one. ``change`` makes of the old value the
    one of today; migrating reports it as ``says``.
    """

    kind: str
    new: str
    since: tuple[int, int]
    old: str = ""
    may_be: Any = None
    change: Callable[[Any], object] | None = None
    says: str = ""

    @property
    def is_moved(self) -> bool:
        """Whether the field has another place now."""
        return self.old not in ("", self.new)


def _join_fields(content: Mapping[str, str]) -> str:
    return " ".join(text for name in SEMANTIC_FIELDS if (text := content.get(name)))


def _put_underscores(run: str) -> str:
    return run.replace("-", "_") if run.startswith("mas-") else run


OLDER_FIELDS: Final = (
    *(
        OlderField(kind="run_meta", new=name, since=CURRENT)
        for name in ("trace_file_hash", "trace_dataset_hash", "tokengate_config_hash")
    ),
    OlderField(kind="run_meta", new="eval_run_id", since=CURRENT, old="eval_run_id", may_be=str),
    OlderField(
        kind="run_meta",
        new="mas_run_id",
        since=CURRENT,
        old="mas_run_id",
        may_be=OlderMasRunId,
        change=_put_underscores,
        says="mas_run_id with underscores",
    ),
    OlderField(
        kind="tokengate_flush",
        new="trigger_reason",
        since=CURRENT,
        old="trigger_reason",
        may_be=OlderTriggerReason,
    ),
    *(
        OlderField(kind="summary_event", new=name, since=CURRENT)
        for name in (
            "trigger_type",
            "summary_history_event_ids",
            "summarizer_input_hash",
            "limits_ok",
            "failure_mode",
        )
    ),
    OlderField(kind="run_meta", new="created_at", since=AFTER_1_0, old="timestamp"),
    OlderField(
        kind="run_meta",
        new="history_k",
        since=AFTER_1_0,
        old="run_meta.summarizer_config.history_k",
    ),
    OlderField(
        kind="summary_event", new="event_index", since=AFTER_1_0, old="summaries.summary_idx"
    ),
    OlderField(
        kind="summary_event", new="summary_content", since=AFTER_1_0, old="summaries.content"
    ),
    OlderField(
        kind="summary_event",
        new="summary_semantics_text",
        since=AFTER_1_0,
        old="summaries.content",
        change=_join_fields,
    ),
)
LISTS: Final = {
    "tokengate_flushes": "tokengate_flush",
    "buffer_decisions": "buffer_decision",
    "summary_events": "summary_event",
    "summaries": "summary_event",
}
"""The lists in the object of a whole run, with the kind of record of each."""
_INHERITED: Final = ("case_id", "variant_id")
"""What the records of a whole run have from its object."""

SINCE_1_5: Final[Mapping[type[Struct], tuple[str, ...]]] = {
    record_type: tuple(
        row.new for row in OLDER_FIELDS if row.kind == kind and not row.old and row.since == CURRENT
    )
    for kind, record_type in RECORD_TYPES.items()
}
"""The required fields that 1.5.0 added."""


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


def list_older_types(record_type: type[Struct]) -> dict[str, Any]:
    """Return the fields of a record that had other types before 1.5.0, with those types."""
    kind = record_type.__struct_config__.tag
    return {
        row.new: row.may_be
        for row in OLDER_FIELDS
        if row.kind == kind and row.since == CURRENT and row.may_be is not None
    }


def make_type_before_1_5(record_type: type[Struct]) -> type[Struct]:
    """Return a record type as 1.3.0 and 1.4.x wrote it."""
    return relax_fields(record_type, SINCE_1_5[record_type], **list_older_types(record_type))


def parse_version(record: Mapping[str, object]) -> tuple[int, int] | None:
    """Return major and minor of a record's ``schema_version``; None if it is not readable."""
    parts = str(record.get("schema_version", "")).split(".")
    if len(parts) < 2 or not all(part.isascii() and part.isdigit() for part in parts[:2]):
        return None
    return int(parts[0]), int(parts[1])


def split_run(run: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a whole run in one object as one record per line."""
    meta = {key: value for key, value in run.items() if key not in LISTS}
    yield {**_find_moved(run, "run_meta", ""), **meta, "record_type": "run_meta"}
    inherited = {name: run[name] for name in _INHERITED if name in run}
    for name, kind in LISTS.items():
        for index, part in enumerate(run.get(name, ())):
            moved = _find_moved(part, kind, f"{name}.")
            if moved:
                moved = {"event_index": index, **moved}
            yield {**inherited, **(moved or part), "record_type": kind}


def _find_moved(part: Mapping[str, Any], kind: str, place: str) -> dict[str, Any]:
    """Return the fields that part of a whole run keeps elsewhere, under their names of today."""
    found: dict[str, Any] = {}
    for row in OLDER_FIELDS:
        if row.kind == kind and row.is_moved and row.old.startswith(place):
            value: Any = part
            for key in row.old.removeprefix(place).split("."):
                value = value.get(key) if isinstance(value, dict) else None
            if value is not None:
                found[row.new] = value if row.change is None else row.change(value)
    return found


def change_fields(record: Mapping[str, Any]) -> Iterator[tuple[str, str, object]]:
    """Yield what a record of an older version has otherwise in the same place.

    Each is what to report, the field, and its value of today.
    """
    for row in OLDER_FIELDS:
        if row.change is None or row.is_moved or row.kind != record.get("record_type"):
            continue
        old = record.get(row.old)
        if isinstance(old, str) and (new := row.change(old)) != old:
            yield row.says, row.new, new
