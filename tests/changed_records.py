"""Changes of known-good records, to compare what a schema, a record and a batch check refuse."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from copy import deepcopy
from typing import Any, Literal, NamedTuple, get_args, get_origin

import jsonschema_rs
import msgspec

from gatemark.core.record import Form, RecordSchema
from gatemark.evidence.json_schema import schema_document

_GONE = ...
_ANYWHERE: tuple[Any, ...] = (_GONE, None, 0, 1, -1, 0.5, True, False, "", " ", "x", [], {})


class Change(NamedTuple):
    """Another value at a place of a record; ``...`` removes the key."""

    place: tuple[str, ...]
    value: Any

    @property
    def name(self) -> str:
        return f"{'.'.join(self.place)}={self.value!r}"

    def apply_to(self, record: dict[str, Any]) -> None:
        """Change a record, if it has the part in which the place is."""
        *parents, key = self.place
        part: Any = record
        for parent in parents:
            part = part.get(parent) if isinstance(part, dict) else None
        if not isinstance(part, dict):
            return
        if self.value is _GONE:
            part.pop(key, None)
        else:
            part[key] = deepcopy(self.value)


def change_all(record: dict[str, Any], changes: Sequence[Change]) -> dict[str, Any]:
    """Return a changed copy."""
    copy = deepcopy(record)
    for change in changes:
        change.apply_to(copy)
    return copy


def list_changes(
    record_type: type[msgspec.Struct], values: Sequence[Any], above: tuple[str, ...] = ()
) -> Iterator[Change]:
    """Yield for every field: gone, null, of another type, each of some values and allowed words."""
    for field in msgspec.structs.fields(record_type):
        place = (*above, field.encode_name)
        for value in (*_ANYWHERE, *values, *_list_words(field.type)):
            yield Change(place, value)
        for inner in _list_types(field.type):
            if isinstance(inner, type) and issubclass(inner, msgspec.Struct):
                yield from list_changes(inner, values, place)


def _list_types(hint: Any) -> Iterator[Any]:
    if get_origin(hint) in (None, Literal, list, tuple, dict):
        yield hint
    else:
        for part in get_args(hint):
            yield from _list_types(part)


def _list_words(hint: Any) -> Iterator[Any]:
    for part in _list_types(hint):
        if get_origin(part) is Literal:
            yield from get_args(part)


def make_validator(schema: RecordSchema, form: Form) -> Any:
    """Return the validator of one form of a published schema."""
    document = schema_document(schema)
    reference = {"$ref": f"#/$defs/{form.type.__name__}"}
    return jsonschema_rs.validator_for({"$defs": document["$defs"], **reference})


def write_line(record: object) -> bytes:
    """Return a record as a line."""
    return json.dumps(record).encode()
