"""Read the rows of points batch by batch, in the order that digests need."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import msgspec
import sqlalchemy as sa

from gatemark.release.drift.batches import UNCOVERED, FoundBatch, PointRow, find_batches
from gatemark.release.drift.judging.parts import Series
from gatemark.release.drift.stores.rows import stream
from gatemark.release.drift.stores.tables import POINTS, REVISIONS, SERIES

COLUMN: Final = "batch"


def name_binary_collation(connection: sa.Connection) -> str:
    """Return the collation that compares texts by their UTF-8 bytes."""
    return "BINARY" if connection.dialect.name == "sqlite" else "C"


def row_count(connection: sa.Connection) -> int:
    """Return the number of points and earlier revisions."""
    counts = (sa.select(sa.func.count()).select_from(table) for table in (POINTS, REVISIONS))
    return sum(connection.execute(query).scalar_one() for query in counts)


def stored_batches(connection: sa.Connection) -> Iterator[FoundBatch]:
    """Yield every batch by number."""
    query = _select_rows(connection)
    return find_batches(stream(connection, query), _make_series_lookup(connection))


def _select_rows(connection: sa.Connection) -> sa.Select[Any]:
    parts = []
    for table in (POINTS, REVISIONS):
        # The column is never null, unless somebody made the table again without that demand.
        batch = sa.func.coalesce(table.c[COLUMN], UNCOVERED).label(COLUMN)
        parts.append(sa.select(batch, *(table.c[name] for name in PointRow._fields)))
    rows = sa.union_all(*parts).subquery("written")
    collation = name_binary_collation(connection)
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


def _make_series_lookup(connection: sa.Connection) -> Callable[[int], Series | None]:
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
