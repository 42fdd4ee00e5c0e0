"""Fetching large answers of a database some rows at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import sqlalchemy as sa

FETCHED: Final = 1_000
"""So few rows at a time stay in the processor's cache until they are arrays."""


def stream(connection: sa.Connection, query: sa.Select[Any]) -> Iterator[Sequence[Sequence[Any]]]:
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
