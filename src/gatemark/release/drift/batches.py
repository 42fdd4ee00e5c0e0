"""Digests of pushed rows in the ledger, and the check of stored rows against them.

A batch is the rows that one ``points_pushed`` event records; each row stores the number of its
event. The digest of a batch is the SHA-256 of "gatemark.points/1" and a line feed, followed by its
rows sorted by asset, metric, start, source and revision, texts compared by their UTF-8 bytes. A row
is, with all numbers little-endian:

    byte lengths of asset, metric and form (uint32 each) · length_s, phase_s (int64 each) ·
    SHA-256 of the parts · asset · metric · form ·
    start_s, revision, items, pushed_at (int64 each) · a, b (float64 each) ·
    byte lengths of source and vector (uint32 each) · source · vector

The parts are the bins or classes that the row has numbers for; a series of classes may get more
classes later. Each part is "n" and a float64, or "t", a byte length (uint32) and the text.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, NamedTuple

from gatemark.core.canonical import DIGEST_PREFIX
from gatemark.ledger.stored_rows import Finding, make_finding
from gatemark.release.drift.judging.parts import Series

SCHEMA: Final = b"gatemark.points/1\n"
MOST_NAMED: Final = 3
AT_ONCE: Final = 1_000
TABLE: Final = "points (or point_revisions)"
UNCOVERED: Final = 0
"""Batch number of rows that name no event; no event has this number."""

_head: Final = struct.Struct("<IIIqq32s").pack
_tail: Final = struct.Struct("<qqqqddII").pack
_fields: Final = itemgetter(slice(1, None))
_length: Final = struct.Struct("<I").pack
_number: Final = struct.Struct("<d").pack
_UNREADABLE: Final = (struct.error, TypeError, AttributeError, ValueError, OverflowError)
"""Raised by packing when a row was edited to hold a value of the wrong type."""


class PointRow(NamedTuple):
    """A stored point, or an earlier revision of one; the fields are its columns."""

    series_id: int
    start_s: int
    source: str
    revision: int
    items: int
    a: float
    b: float
    vector: bytes
    pushed_at: int


class PointBatch(NamedTuple):
    """The rows of one event: count, digest and assets."""

    rows: int
    digest: str
    assets: tuple[str, ...]


class FoundBatch(NamedTuple):
    """Stored rows that name the same event; ``names`` lists some of their series."""

    number: int
    rows: int
    digest: str
    names: tuple[str, ...]
    series_count: int


class PushedBatch(NamedTuple):
    """The rows that an event records."""

    seq: int
    rows: int
    digest: str
    assets: tuple[str, ...]


class RowPacker:
    """Packs rows and their series into the bytes that a digest covers."""

    def __init__(self, series: Callable[[int], Series | None]) -> None:
        self._series = series
        self._heads: dict[int, bytes] = {}

    def pack(self, rows: Iterable[Sequence[Any]]) -> bytes:
        """Return the bytes of some rows; an unreadable row gives bytes that match no digest."""
        # A hot loop: every point that is pushed or checked goes through here.
        heads, made, tail = self._heads.get, self._make_head, _tail
        parts: list[bytes] = []
        add = parts.extend
        for number, start_s, source, revision, items, a, b, vector, pushed_at in rows:
            try:
                size = len(vector)
                head = heads(number << 24 | size) or made(number, size)
                text, held = source.encode(), bytes(vector)
                # Adding zero turns -0.0 into 0.0, which every database returns.
                numbers = tail(
                    start_s, revision, items, pushed_at, a + 0.0, b + 0.0, len(text), size
                )
            except _UNREADABLE:
                parts.append(b"unreadable")
            else:
                add((head, numbers, text, held))
        return b"".join(parts)

    def _make_head(self, number: int, size: int) -> bytes:
        series = self._series(number)
        head = b"nothing" if series is None else series_bytes(series, size)
        self._heads[number << 24 | size] = head
        return head


def series_bytes(series: Series, vector_bytes: int) -> bytes:
    """Return the bytes of a series for rows whose vectors have that length."""
    count = vector_bytes // 8 if series.form == "categories" else len(series.layout)
    texts = (series.asset.encode(), series.metric.encode(), series.form.encode())
    lengths = map(len, texts)
    head = _head(*lengths, series.length_s, series.phase_s, _digest_parts(series.layout, count))
    return head + b"".join(texts)


@lru_cache(maxsize=4096)
def _digest_parts(layout: tuple[float | str, ...], count: int) -> bytes:
    """Return the digest of some bins or classes; cached, since many series share theirs."""
    seen = hashlib.sha256()
    for part in layout[:count]:
        if isinstance(part, str):
            data = part.encode()
            seen.update(b"t" + _length(len(data)) + data)
        else:
            seen.update(b"n" + _number(part))
    return seen.digest()


class BatchMaker:
    """Makes batches from rows in memory.

    ``ordered`` are the known series, sorted by asset and metric; ``series`` finds the others.
    """

    def __init__(self, ordered: Iterable[Series], series: Callable[[int], Series | None]) -> None:
        self._series = series
        self._packed = RowPacker(series).pack
        self._ordered = [((one.asset, one.metric), one.id) for one in ordered]
        self._places = {number: place for place, (_, number) in enumerate(self._ordered)}

    def batch(self, rows: list[Sequence[Any]]) -> PointBatch:
        """Sort the rows in place and return them as a batch."""
        numbers = {row[0] for row in rows}
        self._place(numbers)
        places = self._places
        # Sorting is stable, so two sorts by single numbers are several times as fast as
        # one sort by tuples. Hardly any batch has more than one source.
        if len({row[2] for row in rows}) > 1 or len({row[3] for row in rows}) > 1:
            rows.sort(key=lambda row: (row[2], row[3]))
        rows.sort(key=lambda row: (places[row[0]] << 64) + row[1])
        seen = hashlib.sha256(SCHEMA)
        for start in range(0, len(rows), AT_ONCE):
            seen.update(self._packed(rows[start : start + AT_ONCE]))
        known = map(self._series, numbers)
        assets = sorted({one.asset for one in known if one is not None})
        return PointBatch(len(rows), DIGEST_PREFIX + seen.hexdigest(), tuple(assets))

    def _place(self, numbers: set[int]) -> None:
        """Insert new series into the sort order; most batches have none."""
        found = (self._series(number) for number in numbers - self._places.keys())
        fresh = [((one.asset, one.metric), one.id) for one in found if one is not None]
        if fresh:
            self._ordered = sorted([*self._ordered, *fresh])
            self._places = {number: place for place, (_, number) in enumerate(self._ordered)}


def find_batches(
    chunks: Iterable[Sequence[Sequence[Any]]], series: Callable[[int], Series | None]
) -> Iterator[FoundBatch]:
    """Yield the batches of stored rows, which arrive in chunks in the order of the digest.

    Each row starts with its batch number, followed by the fields of a ``PointRow``.
    """
    packer = RowPacker(series)
    current: _OpenBatch | None = None
    for chunk in chunks:
        for number, members in groupby(chunk, key=itemgetter(0)):
            if current is None or current.number != number:
                if current is not None:
                    yield current.found()
                current = _OpenBatch(number, packer, series)
            current.add(list(map(_fields, members)))
    if current is not None:
        yield current.found()


class _OpenBatch:
    """A batch whose rows are still being read."""

    def __init__(
        self, number: int, packer: RowPacker, series: Callable[[int], Series | None]
    ) -> None:
        self.number = number
        self._packer, self._series = packer, series
        self._count, self._seen = 0, hashlib.sha256(SCHEMA)
        self._names: dict[int, str] = {}

    def add(self, rows: Sequence[Sequence[Any]]) -> None:
        self._count += len(rows)
        self._seen.update(self._packer.pack(rows))
        for one in {row[0] for row in rows} - self._names.keys():
            self._names[one] = _name_series(self._series(one))

    def found(self) -> FoundBatch:
        names = tuple(sorted(self._names.values())[:MOST_NAMED])
        digest = DIGEST_PREFIX + self._seen.hexdigest()
        return FoundBatch(self.number, self._count, digest, names, len(self._names))


def _name_series(series: Series | None) -> str:
    return "an unknown series" if series is None else f"{series.asset} {series.metric}"


def check_batches(
    found: Iterable[FoundBatch], recorded: Iterable[PushedBatch]
) -> Iterator[Finding]:
    """Yield a finding for each batch that differs from its event; both are ordered by number."""
    batches, events = iter(found), iter(recorded)
    batch, event = next(batches, None), next(events, None)
    while batch is not None or event is not None:
        if event is None or (batch is not None and batch.number < event.seq):
            if batch is not None:
                yield _report_missing_push(batch)
            batch = next(batches, None)
        elif batch is None or event.seq < batch.number:
            yield _report_missing_points(event)
            event = next(events, None)
        else:
            yield from _compare_batch(batch, event)
            batch, event = next(batches, None), next(events, None)


def _report_missing_push(batch: FoundBatch) -> Finding:
    what = f"{_format_points(batch.rows)} ({_format_names(batch)})"
    if batch.number == UNCOVERED:
        return make_finding(None, TABLE, f"{what} belong to no push")
    return make_finding(None, TABLE, f"{what} name event {batch.number}, which is not a push")


def _report_missing_points(event: PushedBatch) -> Finding:
    about = ", ".join(event.assets[:MOST_NAMED])
    return make_finding(event.seq, TABLE, f"{_format_points(event.rows)} ({about}) are missing")


def _compare_batch(batch: FoundBatch, event: PushedBatch) -> Iterator[Finding]:
    if batch.rows != event.rows:
        written, about = _format_points(event.rows), _format_names(batch)
        what = f"{written} were written, {batch.rows} are there ({about})"
        yield make_finding(event.seq, TABLE, what)
    elif batch.digest != event.digest:
        what = f"some of {_format_points(batch.rows)} ({_format_names(batch)}) were edited"
        yield make_finding(event.seq, TABLE, what)


def _format_names(batch: FoundBatch) -> str:
    more = batch.series_count - len(batch.names)
    return ", ".join(batch.names) + (f" and {more} more series" if more else "")


def _format_points(count: int) -> str:
    return "1 point" if count == 1 else f"{count} points"
