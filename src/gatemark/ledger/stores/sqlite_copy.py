"""A copy of a SQLite database beside it: what an upgrade makes before it changes anything."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import datetime
from pathlib import Path

from gatemark.core.atomic import secret_file
from gatemark.core.errors import BadInputError, IntegrityError


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
            raise IntegrityError(f"{target}: the backup has other rows than the store")


def _row_counts(connection: sqlite3.Connection) -> dict[str, int]:
    names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    counts = {}
    for (name,) in names:
        quoted = '"' + str(name).replace('"', '""') + '"'
        (counts[str(name)],) = connection.execute(f"SELECT count(*) FROM {quoted}").fetchone()  # noqa: S608
    return counts
