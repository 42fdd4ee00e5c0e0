"""The rows of inputs that records are about. The input is the unit of evidence, not the record.

An input is identified by its fixture set, its fixture id and the hash of its content. The fold
keeps two numbers per record: a hash of set and id, and a hash of the content; zero means none.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt
import xxhash

from gatemark.evidence.columns import Columns
from gatemark.evidence.inputs import normalize_ids
from gatemark.plugins.advisory.category import CategoryKey

InputPairs = npt.NDArray[np.uint64]
"""Rows of two: what an input is called, and what is in it."""
InputHashes = npt.NDArray[np.uint64]
_NONE: Final = int.from_bytes(xxhash.xxh3_64_digest(b""), "little")
_PLACEHOLDER: Final = "sha256:example"
_ROW: Final = np.dtype([("name", "<u8"), ("content", "<u8"), ("group", "<u4"), ("run", "<u4")])
InputRows = npt.NDArray[np.void]
"""Rows of a table: an input, the group of its record, and the run."""
_REPEATED_MAX: Final = 50_000


def hash_inputs(fields: Columns) -> InputPairs:
    """Return two numbers per record, the same on every machine.

    Joined and hashed as columns: one call per record took three times as long.
    """
    sets = normalize_ids([name or "" for name in fields["source.fixture_set"]])
    ids = normalize_ids([name or "" for name in fields["source.fixture_id"]])
    names = [f"{of}\0{name}" if name else "" for of, name in zip(sets, ids, strict=True)]
    contents = normalize_ids(
        [
            content if content and content != _PLACEHOLDER else ""
            for content in fields["source.content_hash"]
        ]
    )
    pairs = np.empty((len(names), 2), dtype=np.uint64)
    for place, texts in enumerate((names, contents)):
        hashed = b"".join(map(xxhash.xxh3_64_digest, map(str.encode, texts)))
        pairs[:, place] = np.frombuffer(hashed, dtype="<u8")
    pairs[pairs == np.uint64(_NONE)] = 0
    return pairs


class InputGroup(CategoryKey, frozen=True, gc=False, array_like=True, cache_hash=True):
    """Records of one lane that are compared the same way; every field is the name of a column.

    ``is_shadow`` marks real inputs, ``is_disguised`` those with a case or an expected decision,
    which only fixtures have.
    """

    lane: str
    fixture_set: str | None
    model: str | None
    is_shadow: bool
    is_disguised: bool


class InputTable(msgspec.Struct):
    """The inputs of records: each about once per run and group.

    ``rows`` refer to ``groups`` and ``runs`` by index. Their first ``distinct`` are known to
    differ. One object per group and run instead of rows took four times the memory with many
    inputs, runs and models.
    """

    groups: dict[InputGroup, int] = {}
    runs: dict[str, int] = {}
    rows: bytearray = msgspec.field(default_factory=bytearray)
    distinct: int = 0

    def __len__(self) -> int:
        return len(self.rows) // _ROW.itemsize

    @property
    def array(self) -> InputRows:
        """Return the rows as columns."""
        return np.frombuffer(self.rows, dtype=_ROW)

    def add_rows(self, columns: Columns, pairs: InputPairs) -> None:
        """Add the inputs of a batch."""
        keys = list(zip(*(columns[name] for name in _GROUPED_BY), strict=True))
        groups = {key: _number(self.groups, InputGroup(*key)) for key in dict.fromkeys(keys)}
        runs = {run: _number(self.runs, run) for run in dict.fromkeys(columns["run"])}
        rows = np.empty(len(pairs), dtype=_ROW)
        rows["name"], rows["content"] = pairs[:, 0], pairs[:, 1]
        rows["group"] = [groups[key] for key in keys]
        rows["run"] = [runs[run] for run in columns["run"]]
        self.append(rows)

    def append(self, rows: InputRows) -> None:
        """Add rows; some that are there already may stay repeated for a while."""
        self.rows += rows.tobytes()
        if len(self) > 2 * self.distinct + _REPEATED_MAX:
            self.drop_repeats()

    def drop_repeats(self) -> None:
        """Keep each row once."""
        rows = self.array
        order = np.lexsort((rows["content"], rows["name"], rows["group"], rows["run"]))
        rows = drop_equal_rows(rows[order])
        self.rows, self.distinct = bytearray(rows.tobytes()), len(rows)

    def select_runs(self, names: Collection[str]) -> InputTable:
        """Return the rows of some runs."""
        wanted = [place for name, place in self.runs.items() if name in names]
        rows = self.array[np.isin(self.array["run"], wanted)]
        return InputTable(self.groups, self.runs, bytearray(rows.tobytes()))


_GROUPED_BY: Final = InputGroup.__struct_fields__
_N = TypeVar("_N")


def _number(known: dict[_N, int], name: _N) -> int:
    """Return the number of a name; a new one gets the next."""
    return known.setdefault(name, len(known))


def join_tables(tables: Iterable[InputTable]) -> InputTable:
    """Return one table for several."""
    first, *others = tables
    joined = InputTable(dict(first.groups), dict(first.runs), bytearray(first.rows), first.distinct)
    for table in others:
        groups = [_number(joined.groups, group) for group in table.groups]
        runs = [_number(joined.runs, run) for run in table.runs]
        rows = table.array.copy()
        rows["group"] = np.array(groups, dtype=np.uint32)[rows["group"]]
        rows["run"] = np.array(runs, dtype=np.uint32)[rows["run"]]
        joined.append(rows)
    return joined


_Array = TypeVar("_Array", InputRows, InputPairs)


def select_rows(rows: _Array, chosen: npt.NDArray[np.bool_] | np.bool_) -> _Array:
    """Return some rows; all of them are not copied, because there may be millions."""
    return rows if chosen.all() else rows[chosen]


def drop_equal_rows(ordered: _Array) -> _Array:
    """Return each of some ordered rows once."""
    differs = ordered[1:] != ordered[:-1]
    new = np.ones(len(ordered), dtype=bool)
    new[1:] = differs.any(axis=1) if differs.ndim > 1 else differs
    return select_rows(ordered, new)


def list_pairs(rows: InputRows) -> InputPairs:
    """Return the distinct inputs of some rows, in order."""
    names, contents = rows["name"], rows["content"]
    order = np.lexsort((contents, names))
    return drop_equal_rows(np.stack((names[order], contents[order]), axis=1))


def sort_unique(numbers: InputHashes) -> InputHashes:
    """Return each number once, in order; ``np.unique`` hashes, which took six times as long."""
    return drop_equal_rows(np.sort(numbers))
