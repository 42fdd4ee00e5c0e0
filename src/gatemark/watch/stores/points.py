"""Points in a database: each window of each sender once, with every earlier revision kept."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from gatemark.disk.database import Database
from gatemark.watch.parts import VECTORS, FormName
from gatemark.watch.series import Series
from gatemark.watch.stores.tables import POINTS, REVISIONS, SERIES

BATCH: Final = 50_000
FETCHED: Final = 1_000
"""So few rows at a time stay in the processor's cache until they are arrays."""
_STAGE: Final = "point_stage"
_KEY: Final = ("series_id", "start_s", "source")
_CONTENT: Final = ("items", "a", "b", "vector")
_COLUMNS: Final = (*_KEY, *_CONTENT)
_SERIES_COLUMNS: Final = ("id", "asset", "metric", "form", "length_s", "phase_s", "layout")

Indices = NDArray[np.int64]
Floats = NDArray[np.float64]


Key = tuple[int, int, str]
"""What a point is kept under: series, start in seconds, source."""
Content = tuple[int, float, float, bytes]
"""What a point holds: items, two scalars ``a`` and ``b``, and the rest packed."""


class Pushed(msgspec.Struct, frozen=True):
    """What a push came to: points that were new, known already, or corrections."""

    received: int
    added: int
    repeated: int
    corrected: int
    series_added: int


class Chunk(NamedTuple):
    """Some points of one form, column by column; a form has either scalars or vectors."""

    form: FormName
    series_id: Indices
    start_s: Indices
    revision: Indices
    items: Floats
    scalars: Floats
    vectors: Sequence[bytes]

    def rows(self, chosen: Indices) -> Chunk:
        """Some of the points, in the order of the chunk."""
        if chosen.size == self.series_id.size:
            return self
        return Chunk(
            form=self.form,
            series_id=self.series_id[chosen],
            start_s=self.start_s[chosen],
            revision=self.revision[chosen],
            items=self.items[chosen],
            scalars=self.scalars[chosen],
            vectors=[self.vectors[at] for at in chosen.tolist()] if self.vectors else (),
        )

    def parts(self, width: int) -> Floats:
        """The parts of each point."""
        if self.form in VECTORS:
            return unpacked(self.vectors, width)
        return self.items[:, None] * self.scalars if self.form == "value" else self.scalars


class StoredPoint(NamedTuple):
    """One point of one series with its revision."""

    start_s: int
    source: str
    revision: int
    items: int
    a: float
    b: float
    vector: bytes


class Pusher:
    """An open push: one transaction, all of it or nothing."""

    def __init__(self, connection: sa.Connection, dialect: str, pushed_at: int) -> None:
        self._connection = connection
        self._cursor_mark = "?" if dialect == "sqlite" else "%s"
        self._pushed_at = pushed_at
        self.series: dict[tuple[str, str], Series] = {
            (series.asset, series.metric): series for series in read_series(connection)
        }
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
            f"items BIGINT, a {real}, b {real}, vector {blob}){ending}"
        )

    def new_series(self, series: Series) -> Series:
        """Give a series its number; it is written with the next points."""
        numbered = msgspec.structs.replace(series, id=self._next_id)
        self._next_id += 1
        self.series[series.asset, series.metric] = numbered
        self._fresh.append(numbered)
        return numbered

    def grow(self, series: Series) -> None:
        """Keep a series whose classes became more."""
        self.series[series.asset, series.metric] = series
        self._grown[series.id] = series

    def add(self, key: Key, content: Content) -> None:
        """Add a point; the same point twice is one, another one for the same window corrects it."""
        if self._rows.setdefault(key, content) != content:
            self._flush()
            self._rows[key] = content
        self._received += 1
        if len(self._rows) >= BATCH:
            self._flush()

    def finish(self) -> Pushed:
        """Write what is left and say what it all came to."""
        self._flush()
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
        marks = ", ".join([self._cursor_mark] * len(_COLUMNS))
        rows = [(*key, *content) for key, content in self._rows.items()]
        self._rows.clear()
        connection.exec_driver_sql(f"INSERT INTO {_STAGE} VALUES ({marks})", rows)  # noqa: S608
        kept = ", ".join(f"p.{name}" for name in (*_KEY, "revision", *_CONTENT, "pushed_at"))
        same = " AND ".join(f"p.{name} = s.{name}" for name in _KEY)
        differs = " OR ".join(f"p.{name} <> s.{name}" for name in _CONTENT)
        corrected = connection.exec_driver_sql(
            f"INSERT INTO {REVISIONS.name} (series_id, start_s, source, revision, items, a, b, "  # noqa: S608
            f"vector, pushed_at) SELECT {kept} FROM {_STAGE} s JOIN {POINTS.name} p ON {same} "
            f"WHERE {differs}"
        )
        self._corrected += corrected.rowcount
        columns = ", ".join(_COLUMNS)
        changed = ", ".join(f"{name} = excluded.{name}" for name in (*_CONTENT, "pushed_at"))
        moved = " OR ".join(f"{POINTS.name}.{name} <> excluded.{name}" for name in _CONTENT)
        touched = connection.exec_driver_sql(
            f"INSERT INTO {POINTS.name} ({columns}, revision, pushed_at) "  # noqa: S608
            f"SELECT {columns}, 1, {int(self._pushed_at)} FROM {_STAGE} WHERE TRUE "
            f"ORDER BY {', '.join(_KEY)} ON CONFLICT ({', '.join(_KEY)}) DO UPDATE SET {changed}, "
            f"revision = {POINTS.name}.revision + 1 WHERE {moved}"
        )
        self._touched += touched.rowcount
        connection.exec_driver_sql(f"DELETE FROM {_STAGE}")  # noqa: S608

    def _write_series(self) -> None:
        if self._fresh:
            fresh = [_series_row(self._grown.pop(s.id, s)) for s in self._fresh]
            self._connection.execute(sa.insert(SERIES), fresh)
            self._series_added += len(self._fresh)
            self._fresh.clear()
        for series in self._grown.values():
            layout = _series_row(series)["layout"]
            self._connection.execute(
                sa.update(SERIES).where(SERIES.c.id == series.id).values(layout=layout)
            )
        self._grown.clear()


class SqlPoints:
    """The points of a store in a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @contextmanager
    def pushing(self, pushed_at: int) -> Iterator[Pusher]:
        """A push that is written when the block ends well, and not at all otherwise."""
        with self._database.writing() as connection:
            yield Pusher(connection, self._database.dialect, pushed_at)

    def series(self, asset: str | None = None) -> list[Series]:
        """Every series, or those of one asset."""
        with self._database.streaming() as connection:
            return list(read_series(connection, asset))

    def chunks(self, form: FormName, length_s: int, since_s: int) -> Iterator[Chunk]:
        """Points of all series of one form with windows of that length, from a moment on."""
        # The attribute named "items" is a method of the collection.
        names = ("series_id", "start_s", "revision", "items", *_held(form))
        # Joined from the series, so that each is a short range and not a scan of all that ever was.
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
            for rows in _batches(connection, query):
                some.append(_chunk(form, rows))
                if len(some) * FETCHED >= BATCH:
                    yield _joined(some)
                    some = []
            if some:
                yield _joined(some)

    def points(self, series_id: int, *, earlier: bool = False) -> list[StoredPoint]:
        """The points of one series in order; ``earlier`` gives its superseded revisions."""
        table = REVISIONS if earlier else POINTS
        columns = tuple(table.c[name] for name in StoredPoint._fields)
        query: sa.Select[Any] = sa.select(*columns).where(table.c.series_id == series_id)
        with self._database.reading() as connection:
            rows = connection.execute(query.order_by(table.c.start_s, table.c.source)).all()
        return [StoredPoint(*row) for row in rows]


def read_series(connection: sa.Connection, asset: str | None = None) -> Iterator[Series]:
    """The series of a store, by number."""
    columns = tuple(SERIES.c[name] for name in _SERIES_COLUMNS)
    query = sa.select(*columns).order_by(SERIES.c.id)
    if asset is not None:
        query = query.where(SERIES.c.asset == asset)
    for rows in _batches(connection, query):
        for number, of_asset, metric, form, length_s, phase_s, layout in rows:
            yield Series(number, of_asset, metric, form, length_s, phase_s, _layout(layout))


def packed(numbers: Sequence[float]) -> bytes:
    """Counts or sums as bytes."""
    return struct.pack(f"<{len(numbers)}d", *numbers)


def unpacked(vectors: Sequence[bytes], width: int) -> Floats:
    """The numbers of some vectors side by side, with zeros where one is shorter."""
    size = 8 * width
    joined = b"".join(vectors)
    if len(joined) != size * len(vectors) or max(map(len, vectors), default=0) > size:
        # Classes that came after the series was read wait for the next tick.
        joined = b"".join(vector[:size].ljust(size, b"\0") for vector in vectors)
    return np.frombuffer(joined, dtype="<f8").reshape(len(vectors), width).astype(np.float64)


def _series_row(series: Series) -> dict[str, object]:
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
def _layout(text: str) -> tuple[float | str, ...]:
    return msgspec.json.decode(text, type=tuple[float | str, ...])


def _batches(connection: sa.Connection, query: sa.Select[Any]) -> Iterator[Sequence[Sequence[Any]]]:
    """The rows of a large answer, some at a time."""
    if connection.dialect.name != "sqlite":
        streamed = connection.execute(query.execution_options(stream_results=True))
        while some := streamed.fetchmany(FETCHED):
            yield some
        return
    # SQLite streams by itself, and millions of rows cross here: plain tuples of the driver will do.
    driver = connection.execute(query).cursor
    failures = connection.dialect.loaded_dbapi.Error
    try:
        while rows := driver.fetchmany(FETCHED):
            yield rows
    except failures as error:
        raise sa.exc.DatabaseError(None, None, error) from error


def _held(form: FormName) -> tuple[str, ...]:
    """The columns that hold what points of a form say."""
    if form in VECTORS:
        return ("vector",)
    return ("a", "b") if form == "sum" else ("a",)


def _chunk(form: FormName, rows: Sequence[Sequence[Any]]) -> Chunk:
    ids, starts, revisions, items, *held = zip(*rows, strict=True)
    is_vector = form in VECTORS
    scalars = [] if is_vector else [np.array(column, dtype=np.float64) for column in held]
    return Chunk(
        form,
        np.array(ids, dtype=np.int64),
        np.array(starts, dtype=np.int64),
        np.array(revisions, dtype=np.int64),
        np.array(items, dtype=np.float64),
        np.stack(scalars, axis=1) if scalars else np.empty((len(rows), 0)),
        held[0] if is_vector else (),
    )


def _joined(chunks: Sequence[Chunk]) -> Chunk:
    return Chunk(
        form=chunks[0].form,
        series_id=np.concatenate([chunk.series_id for chunk in chunks]),
        start_s=np.concatenate([chunk.start_s for chunk in chunks]),
        revision=np.concatenate([chunk.revision for chunk in chunks]),
        items=np.concatenate([chunk.items for chunk in chunks]),
        scalars=np.concatenate([chunk.scalars for chunk in chunks]),
        vectors=[vector for chunk in chunks for vector in chunk.vectors],
    )
