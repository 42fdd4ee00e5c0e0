"""The fields of a batch of records as columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import msgspec
from msgspec.structs import astuple

Columns = Mapping[str, Sequence[Any]]
"""The values of fields by their paths, such as ``fallback.kind``."""


def read_columns(records: Sequence[msgspec.Struct], record_type: type[msgspec.Struct]) -> Columns:
    """Return every field of some records of one type, those of structs in them too."""
    return dict(_read_fields(records, record_type, ""))


def _read_fields(
    records: Sequence[msgspec.Struct], record_type: type[msgspec.Struct], prefix: str
) -> Iterator[tuple[str, Sequence[Any]]]:
    names = record_type.__struct_fields__
    columns = zip(*map(astuple, records), strict=True) if records else [()] * len(names)
    inner = _find_structs(record_type)
    for name, column in zip(names, columns, strict=True):
        if name in inner:
            yield from _read_fields(column, inner[name], f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", column


@cache
def _find_structs(record_type: type[msgspec.Struct]) -> Mapping[str, type[msgspec.Struct]]:
    """Return the fields of a record that are structs in every record."""
    return {
        field.name: field.type
        for field in msgspec.structs.fields(record_type)
        if isinstance(field.type, type) and issubclass(field.type, msgspec.Struct)
    }
