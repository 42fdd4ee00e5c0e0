"""The digest of a table: over all its rows, in an order that every database gives.

It is the SHA-256 of the table's tag and its rows. A field is its length in bytes (uint32,
little-endian) and its bytes: texts in UTF-8, booleans as one byte of 0 or 1.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from gatemark.core.canonical import DIGEST_PREFIX

LEVELS: Final = b"gatemark.drift-levels/1\n"
"""Columns asset, metric, detector, level; sorted by the first three."""
EPISODES: Final = b"gatemark.episodes/1\n"
"""Columns id, asset, level, is_open, opened_at, document, baseline; sorted by id."""
_encode_length: Final = struct.Struct("<I").pack


class TableState(NamedTuple):
    """The row count and the digest of a table."""

    rows: int
    digest: str


class WatchState(NamedTuple):
    """The states of the tables that a probe writes: levels and episodes."""

    levels: TableState
    episodes: TableState


def table_state(tag: bytes, rows: Iterable[Sequence[object]]) -> TableState:
    """Return the state of a table, given its rows in order."""
    count, seen = 0, hashlib.sha256(tag)
    for row in rows:
        count += 1
        seen.update(b"".join(map(_encode_field, row)))
    return TableState(count, DIGEST_PREFIX + seen.hexdigest())


def _encode_field(value: object) -> bytes:
    if isinstance(value, str):
        return _encode_text(value)
    # SQLite returns booleans as numbers; a value of any other type matches no digest.
    if not isinstance(value, bytes):
        value = bytes([value]) if value in (0, 1) else repr(value).encode()
    return _encode_length(len(value)) + value


@lru_cache(maxsize=1024)
def _encode_text(value: str) -> bytes:
    """Cached: neighbouring rows repeat their texts, and a probe of a fleet has a million."""
    data = value.encode(errors="surrogatepass")
    return _encode_length(len(data)) + data
