"""Fetch large query results in chunks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import sqlalchemy as sa

FETCHED: Final = 1_000
"""Few enough rows to stay in the CPU cache until they are arrays."""


def stream(connection: sa.Connection, query: sa.Select[Any]) -> Iterator[Sequence[Sequence[Any]]]:
    """Yield the rows of a large query result in chunks."""
    if connection.dialect.name != "sqlite":
        streamed = connection.execute(query.execution_options(stream_results=True))
        while some := streamed.fetchmany(FETCHED):
            yield some
        return
    # SQLite streams by itself; the driver's plain tuples are fast enough for millions of rows.
    driver = connection.execute(query).cursor
    failures = connection.dialect.loaded_dbapi.Error
    try:
        while rows := driver.fetchmany(FETCHED):
            yield rows
    except failures as error:
        raise sa.exc.DatabaseError(None, None, error) from error
