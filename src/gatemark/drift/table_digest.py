"""The digest of a table: of all its rows, in an order that does not depend on the database.

It is the SHA-256 of the table's tag and of its rows; a field is its length in bytes (uint32,
little-endian) and its bytes, texts in UTF-8, truths as one byte of 0 or 1.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from gatemark.core.canonical import DIGEST_PREFIX

MEMORIES: Final = b"gatemark.memories/1\n"
"""Rows of asset, metric, detector, policy_digest, level and content, by the first three."""
EPISODES: Final = b"gatemark.episodes/1\n"
"""Rows of id, asset, level, is_open, opened_at and document, by id."""
_length: Final = struct.Struct("<I").pack


class TableState(NamedTuple):
    """How many rows a table has, and their digest."""

    rows: int
    digest: str


class WatchState(NamedTuple):
    """The tables that a probe writes: what it remembers, and episodes."""

    memories: TableState
    episodes: TableState


def table_state(tag: bytes, rows: Iterable[Sequence[object]]) -> TableState:
    """The state of a table, given its rows in order."""
    count, seen = 0, hashlib.sha256(tag)
    for row in rows:
        count += 1
        fields = [_field(value) for value in row]
        seen.update(b"".join([part for data in fields for part in (_length(len(data)), data)]))
    return TableState(count, DIGEST_PREFIX + seen.hexdigest())


def _field(value: object) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode(errors="surrogatepass")
    # SQLite gives truths as numbers; whatever else somebody put there fits no digest.
    return bytes([value]) if value in (0, 1) else repr(value).encode()
