"""A ledger in one SQLite file, with write-ahead log; the default."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Final

import sqlalchemy as sa

from gatemark.core.atomic import make_private_folder, secret_file
from gatemark.core.errors import BadInputError, IntegrityError
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
    engine = sa.create_engine("sqlite://", creator=lambda: _connect(path), poolclass=sa.QueuePool)

    def prepare(connection: sqlite3.Connection, _record: object) -> None:
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
    return StorePlace(database, FolderBlobs(path.parent / "blobs", is_private=True), path)


def _connect(path: Path) -> sqlite3.Connection:
    """Open a database file, for reading alone if it cannot be written; make a missing one."""
    try:
        if not path.exists():
            path.parent.parent.mkdir(parents=True, exist_ok=True)
            make_private_folder(path.parent)
            # SQLite gives its log the mode of the database.
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    except OSError as error:
        raise BadInputError(f"{path.parent}: cannot be made: {error.strerror}") from error
    if os.access(path, os.W_OK) and os.access(path.parent, os.W_OK):
        return sqlite3.connect(path, check_same_thread=False)
    # Without its log, SQLite could only open the file by making one.
    has_log = path.with_name(path.name + "-wal").exists()
    only = "mode=ro" if has_log else "mode=ro&immutable=1"
    return sqlite3.connect(f"{path.absolute().as_uri()}?{only}", uri=True, check_same_thread=False)


def _begin(connection: sa.Connection) -> None:
    if not connection.get_execution_options().get(WRITES, False):
        connection.exec_driver_sql("BEGIN")
        return
    if not connection.info.get(_HAS_LOG, False):
        # The mode is written into the file, so only those who write may ask for it.
        connection.exec_driver_sql("PRAGMA journal_mode=WAL")
        connection.info[_HAS_LOG] = True
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def copy_name(database: Path, layout: str, at: datetime) -> Path:
    """Where the copy of a database goes by default."""
    return database.with_name(f"{database.name}.backup-{layout}-{at:%Y%m%dT%H%M%SZ}")


def copy_sqlite(database: Path, target: Path) -> None:
    """Write a copy that only its owner can read, whole or not at all, and check it.

    It sees one state of the database, but only a caller who keeps other writers out knows that
    nothing was added since.
    """
    try:
        with secret_file(target) as temporary, closing(sqlite3.connect(database)) as source:
            with closing(sqlite3.connect(temporary)) as copy:
                source.backup(copy)
                # One plain file, without a log beside it that could be left behind.
                copy.execute("PRAGMA journal_mode=DELETE")
            _check_copy(source, temporary, target)
    except sqlite3.Error as error:
        raise BadInputError(f"{target}: the backup cannot be made: {error}") from error


def _check_copy(source: sqlite3.Connection, temporary: Path, target: Path) -> None:
    with closing(sqlite3.connect(temporary)) as copy:
        (found,) = copy.execute("PRAGMA quick_check(1)").fetchone()
        if found != "ok":
            raise IntegrityError(f"{target}: the backup is not a sound database: {found}")
        if _row_counts(copy) != _row_counts(source):
            raise IntegrityError(f"{target}: the backup does not have the rows of the store")


def _row_counts(connection: sqlite3.Connection) -> dict[str, int]:
    names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    counts = {}
    for (name,) in names:
        quoted = '"' + str(name).replace('"', '""') + '"'
        (counts[str(name)],) = connection.execute(f"SELECT count(*) FROM {quoted}").fetchone()  # noqa: S608
    return counts
