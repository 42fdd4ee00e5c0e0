"""The fields of a batch of records as columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any

Columns = Mapping[str, Sequence[Any]]
"""The values of fields by their paths, such as ``fallback.kind``."""


def make_getter(paths: Sequence[str]) -> Callable[[object], tuple[Any, ...]]:
    """Return the function that reads some fields of a record."""
    get = attrgetter(*paths)
    return get if len(paths) > 1 else lambda record: (get(record),)


class ColumnReader:
    """Reads fields of batches; all of a record at once, while it is in the processor's cache."""

    def __init__(self, paths: Iterable[str]) -> None:
        self.paths = tuple(sorted(set(paths)))
        self._get = make_getter(self.paths)

    def read(self, records: Sequence[object]) -> Columns:
        """Return the fields of a batch."""
        if len(self.paths) == 1:
            (path,) = self.paths
            return {path: list(map(attrgetter(path), records))}
        found = zip(*map(self._get, records), strict=True) if records else [()] * len(self.paths)
        return dict(zip(self.paths, found, strict=True))
