"""A ledger in one SQLite file, with write-ahead log; the default."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa

from gatemark.core.errors import BadInputError
from gatemark.ledger.blobs import FolderBlobs
from gatemark.ledger.port import BlobStore
from gatemark.ledger.stores import DATABASE
from gatemark.ledger.stores.database import WRITES, SqlDatabase
from gatemark.ledger.stores.place import StorePlace
from gatemark.ledger.stores.sql import SqlStore

WAIT_S: Final = 10
"""How long a writer waits for the one before it."""
PATIENT_S: Final = 600
"""How long an upgrade waits for a writer, which may be another upgrade that makes its backup."""
_HAS_LOG: Final = "gatemark_write_ahead_log"


def open_sqlite(
    path: Path, blobs: BlobStore | None = None, *, must_exist: bool = False
) -> SqlStore:
    """The store in a file, made when there is none; blobs lie in a folder beside it.

    With ``must_exist`` a file without a store is refused, and none is made there.
    """
    place = sqlite_place(path)
    return SqlStore(place.database, blobs or place.blobs, must_exist=must_exist)


def folder_place(folder: Path) -> StorePlace:
    """A folder that holds a store of any layout, or will; for whoever copies or upgrades it."""
    return sqlite_place(folder / DATABASE, wait_s=PATIENT_S)


def sqlite_place(path: Path, wait_s: int = WAIT_S) -> StorePlace:
    """A file that holds a store of any layout, or will."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInputError(f"{path.parent}: cannot be made: {error.strerror}") from error
    engine = sa.create_engine(sa.URL.create("sqlite", database=str(path)))

    def prepare(connection: Any, _record: Any) -> None:
        # The driver must not begin transactions by itself: it would do so too late.
        connection.isolation_level = None
        cursor = connection.cursor()
        cursor.execute(f"PRAGMA busy_timeout={wait_s * 1000}")
        cursor.execute("PRAGMA synchronous=FULL")
        cursor.execute("PRAGMA recursive_triggers=ON")
        cursor.execute("PRAGMA secure_delete=ON")
        cursor.close()

    sa.event.listen(engine, "connect", prepare)
    sa.event.listen(engine, "begin", _begin)
    # A transaction that will write takes the write lock when it begins.
    database = SqlDatabase(
        engine,
        str(path),
        take_turn=lambda _: None,
        forget="PRAGMA wal_checkpoint(TRUNCATE)",
    )
    return StorePlace(database, FolderBlobs(path.parent / "blobs"), path)


def _begin(connection: sa.Connection) -> None:
    if not connection.get_execution_options().get(WRITES, False):
        connection.exec_driver_sql("BEGIN")
        return
    if not connection.info.get(_HAS_LOG, False):
        # The mode is written into the file, so only those who write may ask for it.
        connection.exec_driver_sql("PRAGMA journal_mode=WAL")
        connection.info[_HAS_LOG] = True
    connection.exec_driver_sql("BEGIN IMMEDIATE")
