"""The fields of a batch of records as columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any

import msgspec

Columns = Mapping[str, Sequence[Any]]
"""The values of fields by their paths, such as ``fallback.kind``."""


def make_getter(paths: Sequence[str]) -> Callable[[object], tuple[Any, ...]]:
    """Return the function that reads some fields of a record."""
    get = attrgetter(*paths)
    return get if len(paths) > 1 else lambda record: (get(record),)


def list_field_paths(record_type: type[msgspec.Struct]) -> Iterator[str]:
    """Yield the path of every field of a record that is no struct itself."""
    for field in msgspec.structs.fields(record_type):
        if isinstance(field.type, type) and issubclass(field.type, msgspec.Struct):
            yield from (f"{field.name}.{path}" for path in list_field_paths(field.type))
        else:
            yield field.name


class ColumnReader:
    """Reads fields of batches; all of a record at once, while it is in the processor's cache."""

    def __init__(self, paths: Iterable[str]) -> None:
        self.paths = tuple(sorted(set(paths)))
        self._get = make_getter(self.paths)

    def read(self, records: Sequence[object]) -> Columns:
        """Return the fields of a batch."""
        found = zip(*map(self._get, records), strict=True) if records else [()] * len(self.paths)
        return dict(zip(self.paths, found, strict=True))
