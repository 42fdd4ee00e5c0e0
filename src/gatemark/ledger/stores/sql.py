"""A whole ledger in a database, made when there is none and otherwise opened as it is."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import sqlalchemy as sa

from gatemark.core.errors import GatemarkError, IntegrityError, UsageError
from gatemark.core.result import read_result
from gatemark.ledger.port import BlobStore
from gatemark.ledger.stores.database import SqlDatabase
from gatemark.ledger.stores.sql_blobs import SqlBlobs
from gatemark.ledger.stores.sql_events import SqlEvents
from gatemark.ledger.stores.sql_results import SqlResults
from gatemark.ledger.stores.tables import METADATA, RESULTS
from gatemark.ledger.stores.upgrade import (
    FIRST,
    NEWEST,
    existing_layout,
    layout_of,
    migrate,
    require_known,
    require_usable,
)


def new_salt() -> str:
    """What makes the digest of a payload unguessable."""
    return secrets.token_hex(16)


class SqlStore:
    """Events and results in one database, blobs there or elsewhere.

    A place without a store gets one of the newest layout, or is refused with ``must_exist``. A
    store that is there keeps its layout; one that this build cannot use is refused.
    """

    def __init__(
        self,
        database: SqlDatabase,
        blobs: BlobStore,
        salt: Callable[[], str] = new_salt,
        *,
        must_exist: bool = False,
    ) -> None:
        self.database = database
        self.events = SqlEvents(database, salt)
        self.results = SqlResults(database, self.events)
        self.blobs = blobs
        try:
            self.layout = _usable_layout(database, must_exist=must_exist)
        except GatemarkError:
            # Who is refused leaves no connection open, and no log beside a SQLite file.
            database.close()
            raise

    @contextmanager
    def frozen(self) -> Iterator[SqlStore]:
        """Yield the store as it is now; blobs in a folder are those of the moment."""
        with self.database.frozen() as database:
            blobs = SqlBlobs(database) if isinstance(self.blobs, SqlBlobs) else self.blobs
            yield SqlStore(database, blobs, must_exist=True)

    def forget(self) -> None:
        """Let removed rows leave the database's files too."""
        self.database.forget()

    def close(self) -> None:
        """Close every connection."""
        self.database.close()


def _usable_layout(database: SqlDatabase, *, must_exist: bool) -> str:
    """The layout of a store that can be used as it is; one is made where there is none."""
    found = database.layout()
    if found is None and must_exist:
        raise UsageError(f"there is no store at {database.place}")
    if found is None:
        with database.writing() as connection:
            # Somebody else may have made it a moment ago.
            found = layout_of(connection)
            if found is None:
                migrate(connection, None)
                return NEWEST
    require_usable(database.place, found)
    return found


def upgrade_database(
    database: SqlDatabase,
    before: Callable[[str], None] = lambda _: None,
    salt: Callable[[], str] = new_salt,
) -> str | None:
    """Bring a store to the newest layout in one transaction.

    Return the layout it had, or None when it has the newest one already. ``before`` is called with
    the old layout while no other writer can be inside and nothing has changed yet.
    """
    with database.writing() as connection:
        found = existing_layout(connection, database.place)
        require_known(database.place, found)
        if found == NEWEST:
            return None
        before(found)
        counts = _ledger_counts(connection)
        migrate(connection, found)
        lost = [name for name, n in _ledger_counts(connection).items() if n < counts.get(name, 0)]
        if lost:
            names = ", ".join(lost)
            raise IntegrityError(f"{database.place}: the upgrade would lose rows of {names}")
        if found == FIRST:
            _tell_of_results(connection, database, salt)
    return found


def _ledger_counts(connection: sa.Connection) -> dict[str, int]:
    """How many rows each table of the ledger has, as far as the layout has it."""
    there = set(sa.inspect(connection).get_table_names())
    return {
        table.name: connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one()
        for table in METADATA.tables.values()
        if table.name in there
    }


def _tell_of_results(
    connection: sa.Connection, database: SqlDatabase, salt: Callable[[], str]
) -> None:
    """Results of the first layout have no events; the ledger starts with them."""
    results = SqlResults(database, SqlEvents(database, salt))
    query = sa.select(RESULTS.c.id, RESULTS.c.document).order_by(RESULTS.c.seq)
    for row in connection.execute(query).all():
        results.tell(connection, read_result(row.id, row.document))
