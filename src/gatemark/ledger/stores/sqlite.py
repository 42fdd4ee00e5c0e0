"""A ledger in one SQLite file, with write-ahead log; the default."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import sqlalchemy as sa

from gatemark.core.errors import BadInputError
from gatemark.ledger.blobs import FolderBlobs
from gatemark.ledger.port import BlobStore
from gatemark.ledger.stores.database import WRITES, Database
from gatemark.ledger.stores.sql import SqlStore


def open_sqlite(path: Path, blobs: BlobStore | None = None) -> SqlStore:
    """The store in a file, made when there is none; blobs lie in a folder beside it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInputError(f"{path.parent}: cannot be made: {error.strerror}") from error
    engine = sa.create_engine(sa.URL.create("sqlite", database=str(path)))
    sa.event.listen(engine, "connect", _prepare)
    sa.event.listen(engine, "begin", _begin)
    # A transaction that will write takes the write lock when it begins.
    database = Database(
        engine,
        str(path),
        take_turn=lambda _: None,
        forget="PRAGMA wal_checkpoint(TRUNCATE)",
    )
    return SqlStore(database, blobs or FolderBlobs(path.parent / "blobs"))


def _prepare(connection: Any, _record: Any) -> None:
    # The driver must not begin transactions by itself: it would do so too late.
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute("PRAGMA busy_timeout=10000")
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA synchronous=FULL")
    cursor.execute("PRAGMA recursive_triggers=ON")
    cursor.execute("PRAGMA secure_delete=ON")
    cursor.close()


def _begin(connection: sa.Connection) -> None:
    writes = connection.get_execution_options().get(WRITES, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
