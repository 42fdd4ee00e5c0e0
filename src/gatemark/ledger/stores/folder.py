"""A store in a folder, the default: one SQLite file with a write-ahead log, and a blob folder."""

from __future__ import annotations

import hashlib
import logging
import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Final, NamedTuple

import sqlalchemy as sa

from gatemark.core.atomic import make_private_folder, replacing, secret_file, write_whole
from gatemark.core.canonical import DIGEST_PREFIX, digest_bytes, is_digest, same_digest
from gatemark.core.errors import BadInputError, IntegrityError, UsageError
from gatemark.ledger.blobs import join_blob, read_pieces
from gatemark.ledger.stores import DATABASE
from gatemark.ledger.stores.database import WRITES, SqlDatabase
from gatemark.ledger.stores.sql import SqlStore
from gatemark.ledger.stores.sql_blobs import SqlBlobs, blob_pieces, blob_sizes


class FolderBlobs:
    """A folder of files, each named by its digest; files are only added.

    Only the owner can read the files of a private folder.
    """

    def __init__(self, folder: Path, *, is_private: bool = False) -> None:
        self._folder = folder
        self._is_private = is_private

    def put(self, data: bytes) -> str:
        name = digest_bytes(data)
        target = self._place_of(name)
        if not target.exists():
            write_whole(target, [data], is_private=self._is_private)
        return name

    def put_file(self, source: Path, expected: str) -> str:
        self.put_pieces(
            read_pieces(source), expected, f"{source.name}: changed after it was judged"
        )
        return expected

    def put_pieces(self, pieces: Iterable[bytes], expected: str, problem: str) -> None:
        """Store bytes in pieces; raise ``trouble`` if they do not have the expected digest."""
        target = self._place_of(expected)
        if target.exists():
            return
        seen = hashlib.sha256()
        with replacing(target, is_private=self._is_private) as out:
            for piece in pieces:
                seen.update(piece)
                out.write(piece)
            if not same_digest(DIGEST_PREFIX + seen.hexdigest(), expected):
                raise IntegrityError(problem)

    def sizes(self) -> Iterator[tuple[str, int]]:
        """Yield the digest and size of every blob in order; skip other files."""
        for path in sorted(self._folder.glob("[0-9a-f][0-9a-f]/*")):
            name = DIGEST_PREFIX + path.name
            if is_digest(name) and path.parent.name == path.name[:2] and path.is_file():
                yield name, path.stat().st_size

    def get(self, name: str) -> bytes:
        return join_blob(name, self.pieces(name))

    def pieces(self, name: str) -> Iterator[bytes]:
        target = self._place_of(name)
        if not target.exists():
            raise IntegrityError(f"blob {name} is missing from the store")
        yield from read_pieces(target)

    def has(self, name: str) -> bool:
        return self._place_of(name).exists()

    def remove(self, name: str, tombstone: int) -> None:  # noqa: ARG002 - the folder cannot ask
        self._place_of(name).unlink(missing_ok=True)

    def _place_of(self, name: str) -> Path:
        if not is_digest(name):
            raise UsageError(f"{name!r} is not a digest")
        hexadecimal = name.removeprefix(DIGEST_PREFIX)
        return self._folder / hexadecimal[:2] / hexadecimal


class StorePlace(NamedTuple):
    """A store as backup and upgrade see it; other code opens a ``SqlStore``."""

    database: SqlDatabase
    blobs: FolderBlobs | SqlBlobs
    file: Path | None = None
    """The file of a SQLite database."""

    def blob_sizes(self, connection: sa.Connection) -> Iterator[tuple[str, int]]:
        """Yield digest and size of every blob, as the transaction sees them if they are in it."""
        if isinstance(self.blobs, FolderBlobs):
            return self.blobs.sizes()
        # The first layout has no table for blobs.
        return blob_sizes(connection) if sa.inspect(connection).has_table("blobs") else iter(())

    def blob_pieces(self, connection: sa.Connection, name: str) -> Iterator[bytes]:
        """Yield the bytes of a blob without checking them."""
        if isinstance(self.blobs, FolderBlobs):
            return self.blobs.pieces(name)
        return blob_pieces(connection, name)


WAIT_S: Final = 10
"""Seconds that a writer waits for the one before it."""
PATIENT_S: Final = 600
"""Seconds that an upgrade waits for a writer, which may be another upgrade during its backup."""
RESERVE: Final = "reserve"
RESERVE_BYTES: Final = 512 * 1024
"""Room for the index of SQLite's log (32 KB) and the pages of one transaction."""
NO_ROOM: Final = ("disk is full", "disk I/O error", "unable to open database file")
logger = logging.getLogger(__name__)
_HAS_LOG: Final = "gatemark_write_ahead_log"


def open_sqlite(path: Path, *, must_exist: bool = False) -> SqlStore:
    """Open the store in a file, or create it; blobs are in a folder alongside it.

    With ``must_exist``, a file without a store is refused, and nothing is created.
    """
    place = sqlite_place(path)
    return SqlStore(place.database, place.blobs, must_exist=must_exist)


def folder_place(folder: Path) -> StorePlace:
    """Return the store in a folder for backup or upgrade; any layout, or not created yet."""
    return sqlite_place(folder / DATABASE, wait_s=PATIENT_S)


def sqlite_place(path: Path, wait_s: int = WAIT_S) -> StorePlace:
    """Return the store in a file; any layout, or not created yet."""
    engine = sa.create_engine("sqlite://", creator=lambda: _connect(path), poolclass=sa.QueuePool)

    def prepare(connection: sqlite3.Connection, _record: object) -> None:
        # The driver must not begin transactions itself: it would do so too late.
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
        engine, str(path), take_turn=lambda _: None, forget="PRAGMA wal_checkpoint(TRUNCATE)"
    )
    return StorePlace(database, FolderBlobs(path.parent / "blobs", is_private=True), path)


def _connect(path: Path) -> sqlite3.Connection:
    """Open a database file, read-only if it cannot be written; create a missing one."""
    try:
        if not path.exists():
            path.parent.parent.mkdir(parents=True, exist_ok=True)
            make_private_folder(path.parent)
            # SQLite gives its log the mode of the database.
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    except OSError as error:
        raise BadInputError(f"{path.parent}: cannot be made: {error.strerror}") from error
    if os.access(path, os.W_OK) and os.access(path.parent, os.W_OK):
        connection = sqlite3.connect(path, check_same_thread=False)
        if _has_room(connection):
            return connection
        connection.close()
        return _connect_without_room(path)
    # Without a log, SQLite could open the file only by creating one.
    has_log = path.with_name(path.name + "-wal").exists()
    only = "mode=ro" if has_log else "mode=ro&immutable=1"
    return sqlite3.connect(f"{path.absolute().as_uri()}?{only}", uri=True, check_same_thread=False)


def _has_room(connection: sqlite3.Connection) -> bool:
    """Whether SQLite has room for the index of its log; later calls report other errors."""
    try:
        connection.execute("PRAGMA schema_version").fetchone()
    except sqlite3.Error as error:
        return not any(words in str(error) for words in NO_ROOM)
    return True


def _connect_without_room(path: Path) -> sqlite3.Connection:
    """Open a database exclusively on a full disk, with the index of its log in memory."""
    connection = sqlite3.connect(path, check_same_thread=False)
    connection.execute("PRAGMA locking_mode=EXCLUSIVE")
    connection.execute("PRAGMA temp_store=MEMORY")
    return connection


def keep_reserve(folder: Path) -> None:
    """Reserve disk space for one more transaction, to be released when the disk is full."""
    path = folder / RESERVE
    if path.exists():
        return
    try:
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        try:
            os.posix_fallocate(descriptor, 0, RESERVE_BYTES)
        finally:
            os.close(descriptor)
    except OSError as error:
        path.unlink(missing_ok=True)
        logger.debug("no disk space reserved", extra={"reason": error.strerror})


def release_reserve(folder: Path) -> bool:
    """Release the reserved disk space; return whether there was any."""
    path = folder / RESERVE
    if not path.exists():
        return False
    path.unlink(missing_ok=True)
    return True


def _begin(connection: sa.Connection) -> None:
    if not connection.get_execution_options().get(WRITES, False):
        connection.exec_driver_sql("BEGIN")
        return
    if not connection.info.get(_HAS_LOG, False):
        # The mode is stored in the file, so only writers may set it.
        connection.exec_driver_sql("PRAGMA journal_mode=WAL")
        connection.info[_HAS_LOG] = True
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def copy_name(database: Path, layout: str, at: datetime) -> Path:
    """Return the default path for the copy of a database."""
    return database.with_name(f"{database.name}.backup-{layout}-{at:%Y%m%dT%H%M%SZ}")


def copy_sqlite(database: Path, target: Path) -> None:
    """Write and verify a copy that only its owner can read; on an error, none is left behind.

    The copy has one state of the database. Lock out other writers to be sure that nothing was added
    since.
    """
    try:
        with secret_file(target) as temporary, closing(sqlite3.connect(database)) as source:
            with closing(sqlite3.connect(temporary)) as copy:
                source.backup(copy)
                # One plain file, without a log that could be left behind.
                copy.execute("PRAGMA journal_mode=DELETE")
            _check_copy(source, temporary, target)
    except sqlite3.Error as error:
        raise BadInputError(f"{target}: the backup cannot be made: {error}") from error


def _check_copy(source: sqlite3.Connection, temporary: Path, target: Path) -> None:
    with closing(sqlite3.connect(temporary)) as copy:
        (found,) = copy.execute("PRAGMA quick_check(1)").fetchone()
        if found != "ok":
            raise IntegrityError(f"{target}: the backup is not a valid database: {found}")
        if _count_rows(copy) != _count_rows(source):
            raise IntegrityError(f"{target}: the backup does not have the rows of the store")


def _count_rows(connection: sqlite3.Connection) -> dict[str, int]:
    names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    counts = {}
    for (name,) in names:
        quoted = '"' + str(name).replace('"', '""') + '"'
        (counts[str(name)],) = connection.execute(f"SELECT count(*) FROM {quoted}").fetchone()  # noqa: S608
    return counts
