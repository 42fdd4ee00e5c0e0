"""Points in a database: one row for each window and sender, with all earlier revisions."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Final, NamedTuple, Protocol

import msgspec
import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from gatemark.ledger.database import Database
from gatemark.ledger.stored_rows import readable_rows
from gatemark.release.drift.batches import BatchMaker, FoundBatch, PointBatch, PointRow
from gatemark.release.drift.judging.parts import VECTORS, FormName, Series
from gatemark.release.drift.point import Pushed
from gatemark.release.drift.stores.batches import name_binary_collation, row_count, stored_batches
from gatemark.release.drift.stores.rows import FETCHED, stream
from gatemark.release.drift.stores.tables import POINTS, REVISIONS, SERIES

BATCH: Final = 50_000
NAMED_AT_ONCE: Final = 500
_STAGE: Final = "point_stage"
_KEY: Final = ("series_id", "start_s", "source")
_CONTENT: Final = ("items", "a", "b", "vector")
_SERIES_COLUMNS: Final = ("id", "asset", "metric", "form", "length_s", "phase_s", "layout")

Indices = NDArray[np.int64]
Floats = NDArray[np.float64]


Key = tuple[int, int, str]
"""The key of a point: series, start in seconds, source."""
Content = tuple[int, float, float, bytes]
"""The content of a point: items, two scalars ``a`` and ``b``, and the packed vector."""


class Chunk(NamedTuple):
    """Some points of one form, by column; a form has either scalars or vectors."""

    form: FormName
    series_id: Indices
    start_s: Indices
    revision: Indices
    batch: Indices
    items: Floats
    scalars: Floats
    vectors: Sequence[bytes]

    def rows(self, chosen: Indices) -> Chunk:
        """Return the chosen points, in the order of the chunk."""
        if chosen.size == self.series_id.size:
            return self
        return Chunk(
            form=self.form,
            series_id=self.series_id[chosen],
            start_s=self.start_s[chosen],
            revision=self.revision[chosen],
            batch=self.batch[chosen],
            items=self.items[chosen],
            scalars=self.scalars[chosen],
            vectors=[self.vectors[at] for at in chosen.tolist()] if self.vectors else (),
        )

    def parts(self, width: int) -> Floats:
        """Return the parts of each point."""
        if self.form in VECTORS:
            return unpack_vectors(self.vectors, width)
        return self.items[:, None] * self.scalars if self.form == "value" else self.scalars


class StoredPoint(NamedTuple):
    """One point of one series, with its revision."""

    start_s: int
    source: str
    revision: int
    items: int
    a: float
    b: float
    vector: bytes


class PushTeller(Protocol):
    """Writes events about pushed rows, in the transaction that writes the rows."""

    def next_number(self, connection: sa.Connection) -> int:
        """Return the number of the next event; no other writer can take it meanwhile."""
        ...

    def tell(self, connection: sa.Connection, batches: Sequence[PointBatch]) -> None:
        """Write one event for each batch, in order."""
        ...


class Pusher:
    """An open push: one transaction, all or nothing.

    Rows store the number of the event that records them. One event records at most about ``BATCH``
    rows, so that a push of any size fits into memory.
    """

    def __init__(
        self, connection: sa.Connection, dialect: str, pushed_at: int, teller: PushTeller
    ) -> None:
        self._connection = connection
        self._teller = teller
        self._next_event = teller.next_number(connection)
        self._written: list[Sequence[object]] = []
        self._batches: list[PointBatch] = []
        self._cursor_mark = "?" if dialect == "sqlite" else "%s"
        self._pushed_at = pushed_at
        self.series: dict[tuple[str, str], Series] = {
            (series.asset, series.metric): series for series in series_by_name(connection)
        }
        self._by_id = {series.id: series for series in self.series.values()}
        self._maker = BatchMaker(self.series.values(), self._by_id.get)
        self._next_id = 1 + max((series.id for series in self.series.values()), default=0)
        self._fresh: list[Series] = []
        self._grown: dict[int, Series] = {}
        self._rows: dict[Key, Content] = {}
        self._received = self._touched = self._corrected = self._series_added = 0
        temporary = "TEMP" if dialect == "sqlite" else "TEMPORARY"
        ending = "" if dialect == "sqlite" else " ON COMMIT DROP"
        connection.exec_driver_sql(f"DROP TABLE IF EXISTS {_STAGE}")
        real = "REAL" if dialect == "sqlite" else "DOUBLE PRECISION"
        blob = "BLOB" if dialect == "sqlite" else "BYTEA"
        connection.exec_driver_sql(
            f"CREATE {temporary} TABLE {_STAGE} (series_id BIGINT, start_s BIGINT, source TEXT, "
            f"revision BIGINT, items BIGINT, a {real}, b {real}, vector {blob}, "
            f"pushed_at BIGINT){ending}"
        )

    def new_series(self, series: Series) -> Series:
        """Give a series its number; it is written with the next points."""
        numbered = msgspec.structs.replace(series, id=self._next_id)
        self._next_id += 1
        self.series[series.asset, series.metric] = self._by_id[numbered.id] = numbered
        self._fresh.append(numbered)
        return numbered

    def grow(self, series: Series) -> None:
        """Store a series that got new classes."""
        self.series[series.asset, series.metric] = self._by_id[series.id] = series
        self._grown[series.id] = series

    def add(self, key: Key, content: Content) -> None:
        """Add a point; a different point for the same window is a correction."""
        if self._rows.setdefault(key, content) != content:
            self._flush()
            self._rows[key] = content
        self._received += 1
        if len(self._rows) >= BATCH:
            self._flush()

    def finish(self) -> Pushed:
        """Write the remaining points and return the counts."""
        self._flush()
        self._close_batch()
        if self._batches:
            self._teller.tell(self._connection, self._batches)
        return Pushed(
            received=self._received,
            added=self._touched - self._corrected,
            repeated=self._received - self._touched,
            corrected=self._corrected,
            series_added=self._series_added,
        )

    def _flush(self) -> None:
        self._write_series()
        if not self._rows:
            return
        connection = self._connection
        marks = ", ".join([self._cursor_mark] * len(PointRow._fields))
        pushed_at = self._pushed_at
        rows = [(*key, 1, *content, pushed_at) for key, content in self._rows.items()]
        self._rows.clear()
        connection.exec_driver_sql(f"INSERT INTO {_STAGE} VALUES ({marks})", rows)  # noqa: S608
        same = " AND ".join(f"p.{name} = s.{name}" for name in _KEY)
        known = connection.exec_driver_sql(
            f"SELECT count(*) FROM {_STAGE} s JOIN {POINTS.name} p ON {same}"  # noqa: S608
        ).scalar_one()
        self._written.extend(self._write_known(same) if known else self._write_new(rows))
        connection.exec_driver_sql(f"DELETE FROM {_STAGE}")  # noqa: S608
        if len(self._written) >= BATCH:
            self._close_batch()

    def _write_new(self, rows: Sequence[Sequence[object]]) -> Sequence[Sequence[object]]:
        """Write points of windows that have none; return all rows as stored."""
        self._connection.exec_driver_sql(self._insert())
        self._touched += len(rows)
        return rows

    def _write_known(self, same: str) -> list[Sequence[object]]:
        """Write points of windows that may have some; return the rows that changed."""
        kept = ", ".join(f"p.{name}" for name in (*PointRow._fields, "batch"))
        differs = " OR ".join(f"p.{name} <> s.{name}" for name in _CONTENT)
        corrected = self._connection.exec_driver_sql(
            f"INSERT INTO {REVISIONS.name} ({', '.join(PointRow._fields)}, batch) "  # noqa: S608
            f"SELECT {kept} FROM {_STAGE} s JOIN {POINTS.name} p ON {same} WHERE {differs}"
        )
        self._corrected += corrected.rowcount
        fresh = (*_CONTENT, "pushed_at", "batch")
        changed = ", ".join(f"{name} = excluded.{name}" for name in fresh)
        moved = " OR ".join(f"{POINTS.name}.{name} <> excluded.{name}" for name in _CONTENT)
        touched = self._connection.exec_driver_sql(
            f"{self._insert()} ON CONFLICT ({', '.join(_KEY)}) DO UPDATE SET {changed}, "
            f"revision = {POINTS.name}.revision + 1 WHERE {moved} "
            f"RETURNING {', '.join(PointRow._fields)}"
        ).cursor.fetchall()
        self._touched += len(touched)
        return list(touched)

    def _insert(self) -> str:
        columns, number = ", ".join(PointRow._fields), self._next_event + len(self._batches)
        return (
            f"INSERT INTO {POINTS.name} ({columns}, batch) "  # noqa: S608
            f"SELECT {columns}, {number} FROM {_STAGE} WHERE TRUE ORDER BY {', '.join(_KEY)}"
        )

    def _close_batch(self) -> None:
        """Compute the digest of the rows written since the last batch."""
        if self._written:
            self._batches.append(self._maker.batch(self._written))
            self._written = []

    def _write_series(self) -> None:
        if self._fresh:
            fresh = [_make_series_row(self._grown.pop(s.id, s)) for s in self._fresh]
            self._connection.execute(sa.insert(SERIES), fresh)
            self._series_added += len(self._fresh)
            self._fresh.clear()
        for series in self._grown.values():
            layout = _make_series_row(series)["layout"]
            self._connection.execute(
                sa.update(SERIES).where(SERIES.c.id == series.id).values(layout=layout)
            )
        self._grown.clear()


class SqlPoints:
    """The points of a store."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @contextmanager
    def pushing(self, pushed_at: int, teller: PushTeller) -> Iterator[Pusher]:
        """Open a push that is committed at the end of the block, or rolled back on an error."""
        with self._database.writing() as connection:
            yield Pusher(connection, self._database.dialect, pushed_at, teller)

    @contextmanager
    def batches(self) -> Iterator[Iterator[FoundBatch]]:
        """Yield every batch by number."""
        with self._database.streaming() as connection:
            yield stored_batches(connection)

    def row_count(self) -> int:
        """Return the number of points and earlier revisions."""
        with self._database.reading() as connection:
            return row_count(connection)

    def series(self, asset: str | None = None) -> list[Series]:
        """Return every series, or those of one asset."""
        with self._database.streaming() as connection, readable_rows("point_series"):
            found = list(read_series(connection, asset))
            return [msgspec.convert(msgspec.structs.asdict(one), Series) for one in found]

    def chunks(self, form: FormName, length_s: int, since_s: int) -> Iterator[Chunk]:
        """Yield the points of all series of one form and window length, from a time on."""
        # By key: the attribute "items" is a method of the collection.
        names = ("series_id", "start_s", "revision", "batch", "items", *_list_content_columns(form))
        # Start the join at the series: a short range scan for each, not a scan of all points.
        query = (
            sa.select(*(POINTS.c[name] for name in names))
            .join_from(SERIES, POINTS, SERIES.c.id == POINTS.c.series_id)
            .where(
                SERIES.c.length_s == length_s,
                SERIES.c.form == form,
                POINTS.c.start_s >= since_s,
            )
        )
        with self._database.streaming() as connection:
            some: list[Chunk] = []
            for rows in stream(connection, query):
                with readable_rows("points"):
                    some.append(_make_chunk(form, rows))
                if len(some) * FETCHED >= BATCH:
                    yield _join_chunks(some)
                    some = []
            if some:
                yield _join_chunks(some)

    def corrected_since(self, event: int) -> frozenset[tuple[int, int]]:
        """Return series and start of the windows with a point that was another one at an event."""
        same = (POINTS.c[name] == REVISIONS.c[name] for name in _KEY)
        query = (
            sa.select(REVISIONS.c.series_id, REVISIONS.c.start_s)
            .join_from(REVISIONS, POINTS, sa.and_(*same))
            .where(REVISIONS.c.batch <= event, POINTS.c.batch > event)
        )
        with self._database.streaming() as connection:
            return frozenset(
                (int(a), int(b)) for rows in stream(connection, query) for a, b in rows
            )

    def last_starts(self, series_ids: Sequence[int], before_s: int) -> dict[int, int]:
        """Return the start of the last point before a moment of each series that has one."""
        last = sa.func.max(POINTS.c.start_s)
        found: dict[int, int] = {}
        with self._database.reading() as connection:
            for at in range(0, len(series_ids), NAMED_AT_ONCE):
                some = list(series_ids[at : at + NAMED_AT_ONCE])
                query = sa.select(POINTS.c.series_id, last).where(
                    POINTS.c.series_id.in_(some), POINTS.c.start_s < before_s
                )
                rows = connection.execute(query.group_by(POINTS.c.series_id)).all()
                found.update((int(number), int(start)) for number, start in rows)
        return found

    def points(self, series_id: int, *, earlier: bool = False) -> list[StoredPoint]:
        """Return the points of one series in order; ``earlier`` returns superseded revisions."""
        table = REVISIONS if earlier else POINTS
        columns = tuple(table.c[name] for name in StoredPoint._fields)
        query: sa.Select[Any] = sa.select(*columns).where(table.c.series_id == series_id)
        with self._database.reading() as connection:
            rows = connection.execute(query.order_by(table.c.start_s, table.c.source)).all()
        return [StoredPoint(*row) for row in rows]


def read_series(connection: sa.Connection, asset: str | None = None) -> Iterator[Series]:
    """Yield the series of a store, by number."""
    query = _select_all_series().order_by(SERIES.c.id)
    return _read_series(
        connection, query if asset is None else query.where(SERIES.c.asset == asset)
    )


def series_by_name(connection: sa.Connection) -> Iterator[Series]:
    """Yield the series of a store in the order of batches."""
    names = (
        sa.collate(name, name_binary_collation(connection))
        for name in (SERIES.c.asset, SERIES.c.metric)
    )
    return _read_series(connection, _select_all_series().order_by(*names))


def _select_all_series() -> sa.Select[Any]:
    return sa.select(*(SERIES.c[name] for name in _SERIES_COLUMNS))


def _read_series(connection: sa.Connection, query: sa.Select[Any]) -> Iterator[Series]:
    for rows in stream(connection, query):
        for number, of_asset, metric, form, length_s, phase_s, layout in rows:
            yield Series(number, of_asset, metric, form, length_s, phase_s, _decode_layout(layout))


def pack_numbers(numbers: Sequence[float]) -> bytes:
    """Return counts or sums as bytes."""
    return struct.pack(f"<{len(numbers)}d", *numbers)


def unpack_vectors(vectors: Sequence[bytes], width: int) -> Floats:
    """Return vectors as rows of an array, padded with zeros."""
    size = 8 * width
    joined = b"".join(vectors)
    if len(joined) != size * len(vectors) or max(map(len, vectors), default=0) > size:
        # Classes that were added after the series was read wait for the next tick.
        joined = b"".join(vector[:size].ljust(size, b"\0") for vector in vectors)
    return np.frombuffer(joined, dtype="<f8").reshape(len(vectors), width).astype(np.float64)


def _make_series_row(series: Series) -> dict[str, object]:
    return {
        "id": series.id,
        "asset": series.asset,
        "metric": series.metric,
        "form": series.form,
        "length_s": series.length_s,
        "phase_s": series.phase_s,
        "layout": msgspec.json.encode(series.layout).decode(),
    }


@lru_cache(maxsize=1024)
def _decode_layout(text: str) -> tuple[float | str, ...]:
    return msgspec.json.decode(text, type=tuple[float | str, ...])


def _list_content_columns(form: FormName) -> tuple[str, ...]:
    """Return the content columns of a form."""
    if form in VECTORS:
        return ("vector",)
    return ("a", "b") if form == "sum" else ("a",)


def _make_chunk(form: FormName, rows: Sequence[Sequence[object]]) -> Chunk:
    ids, starts, revisions, batches, items, *held = zip(*rows, strict=True)
    is_vector = form in VECTORS
    scalars = [] if is_vector else [np.array(column, dtype=np.float64) for column in held]
    return Chunk(
        form,
        np.array(ids, dtype=np.int64),
        np.array(starts, dtype=np.int64),
        np.array(revisions, dtype=np.int64),
        np.array(batches, dtype=np.int64),
        np.array(items, dtype=np.float64),
        np.stack(scalars, axis=1) if scalars else np.empty((len(rows), 0)),
        held[0] if is_vector else (),
    )


def _join_chunks(chunks: Sequence[Chunk]) -> Chunk:
    return Chunk(
        form=chunks[0].form,
        series_id=np.concatenate([chunk.series_id for chunk in chunks]),
        start_s=np.concatenate([chunk.start_s for chunk in chunks]),
        revision=np.concatenate([chunk.revision for chunk in chunks]),
        batch=np.concatenate([chunk.batch for chunk in chunks]),
        items=np.concatenate([chunk.items for chunk in chunks]),
        scalars=np.concatenate([chunk.scalars for chunk in chunks]),
        vectors=[vector for chunk in chunks for vector in chunk.vectors],
    )
