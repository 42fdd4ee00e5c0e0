"""Read the rows of points batch by batch, in the order that digests need."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import msgspec
import sqlalchemy as sa

from gatemark.drift.batches import UNCOVERED, FoundBatch, PointBatch, PointRow, found_batches
from gatemark.drift.judging.parts import Series
from gatemark.drift.stores.rows import stream
from gatemark.drift.stores.tables import POINTS, REVISIONS, SERIES

COLUMN: Final = "batch"


def binary(connection: sa.Connection) -> str:
    """Return the collation that compares texts by their UTF-8 bytes."""
    return "BINARY" if connection.dialect.name == "sqlite" else "C"


def has_batches(connection: sa.Connection) -> bool:
    """Return whether rows name the event that recorded them; in layout 0006 they do not."""
    columns = sa.inspect(connection).get_columns(POINTS.name)
    return any(column["name"] == COLUMN for column in columns)


def row_count(connection: sa.Connection) -> int:
    """Return the number of points and earlier revisions."""
    counts = (sa.select(sa.func.count()).select_from(table) for table in (POINTS, REVISIONS))
    return sum(connection.execute(query).scalar_one() for query in counts)


def is_without_points(connection: sa.Connection) -> bool:
    """Return whether no points were ever pushed."""
    return connection.execute(sa.select(POINTS.c.series_id).limit(1)).first() is None


def stored_batches(
    connection: sa.Connection, *, only_uncovered: bool = False
) -> Iterator[FoundBatch]:
    """Yield every batch by number; rows without a batch come first."""
    query = _rows(connection, only_uncovered=only_uncovered)
    return found_batches(stream(connection, query), _series(connection))


def uncovered_batch(connection: sa.Connection) -> PointBatch:
    """Return all rows without an event as one batch."""
    (found,) = stored_batches(connection, only_uncovered=True)
    assets = connection.execute(sa.select(SERIES.c.asset).distinct()).scalars()
    return PointBatch(found.rows, found.digest, tuple(sorted(assets)))


def _rows(connection: sa.Connection, *, only_uncovered: bool) -> sa.Select[Any]:
    parts = []
    for table in (POINTS, REVISIONS):
        batch = sa.func.coalesce(table.c[COLUMN], UNCOVERED).label(COLUMN)
        part = sa.select(batch, *(table.c[name] for name in PointRow._fields))
        parts.append(part.where(table.c[COLUMN].is_(None)) if only_uncovered else part)
    rows = sa.union_all(*parts).subquery("written")
    collation = binary(connection)
    columns = (rows.c[name] for name in (COLUMN, *PointRow._fields))
    return (
        sa.select(*columns)
        .join_from(rows, SERIES, SERIES.c.id == rows.c.series_id)
        .order_by(
            rows.c[COLUMN],
            sa.collate(SERIES.c.asset, collation),
            sa.collate(SERIES.c.metric, collation),
            rows.c.start_s,
            sa.collate(rows.c.source, collation),
            rows.c.revision,
        )
    )


def _series(connection: sa.Connection) -> Callable[[int], Series | None]:
    """Return a lookup of stored series by number; unreadable ones give None."""
    names = ("id", "asset", "metric", "form", "length_s", "phase_s", "layout")
    query = sa.select(*(SERIES.c[name] for name in names))
    found = {row[0]: _read(row) for some in stream(connection, query) for row in some}
    return found.get


def _read(row: Sequence[Any]) -> Series | None:
    number, asset, metric, form, length_s, phase_s, text = row
    try:
        layout = msgspec.json.decode(text, type=tuple[float | str, ...])
    except (msgspec.MsgspecError, TypeError):
        return None
    return Series(number, asset, metric, form, length_s, phase_s, layout)
