"""A multiset of rows that grows and merges cheaply: a few sorted runs of counted rows, as bytes.

Rows are numpy records whose last field is ``count``. Equal rows are stored once with their counts
added, so memory is one record per distinct row. Adding never changes existing runs, and the union
is the same, bit for bit, in whatever order rows came.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

Runs = tuple[bytes, ...]
Rows = NDArray[np.void]


def row_type(*fields: tuple[str, str]) -> np.dtype[np.void]:
    """Return the record type of these fields (name, little-endian numpy code) plus a count."""
    return np.dtype([*fields, ("count", "<i8")])


def hash_name(text: str) -> tuple[int, int]:
    """Return a 128-bit hash of a name, as two numbers."""
    raw = blake2b(text.encode(), digest_size=16).digest()
    return int.from_bytes(raw[:8], "big"), int.from_bytes(raw[8:], "big")


def add_rows(runs: Runs, rows: Sequence[tuple[Any, ...]], kind: np.dtype[np.void]) -> Runs:
    """Add rows, each a tuple of all fields including the count."""
    if not rows:
        return runs
    return merge_runs(runs, (_tally_rows(np.array(rows, dtype=kind)).tobytes(),), kind)


def merge_runs(left: Runs, right: Runs, kind: np.dtype[np.void]) -> Runs:
    """Return both multisets as one.

    A run is merged into the next larger one only if they are of similar size, so each row is copied
    a number of times that grows with the logarithm of the total.
    """
    waiting = sorted((*left, *right), key=len)
    settled: list[bytes] = []
    for run in waiting:
        melted = run
        while settled and 2 * len(settled[-1]) > len(melted):
            melted = union_rows((settled.pop(), melted), kind).tobytes()
        settled.append(melted)
    return tuple(settled)


def union_rows(runs: Runs, kind: np.dtype[np.void]) -> Rows:
    """Return every distinct row once, sorted by its fields, with its total count."""
    return _tally_rows(np.concatenate([np.empty(0, kind), *(np.frombuffer(r, kind) for r in runs)]))


def _tally_rows(rows: Rows) -> Rows:
    if rows.size == 0:
        return rows
    names = rows.dtype.names or ()
    keys = [name for name in names if name != "count"]
    ordered = rows[np.lexsort([rows[name] for name in reversed(keys)])]
    is_first = np.ones(ordered.size, dtype=bool)
    is_first[1:] = False
    for name in keys:
        is_first[1:] |= ordered[name][1:] != ordered[name][:-1]
    starts = np.flatnonzero(is_first)
    tallied = ordered[starts].copy()
    tallied["count"] = np.add.reduceat(ordered["count"], starts)
    return tallied
