"""A whole ledger in a database, made when there is none and otherwise opened as it is."""

from __future__ import annotations

import hashlib
import logging
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import sqlalchemy as sa

from gatemark.core.errors import GatemarkError, IntegrityError, UnknownNameError, UsageError
from gatemark.core.result import Result, read_result, verify_seal
from gatemark.ledger.chain import result_draft
from gatemark.ledger.port import BlobStore, ResultLine, line_of, wanted_prefix
from gatemark.ledger.stored_rows import ListedRow
from gatemark.ledger.stores.database import SqlDatabase
from gatemark.ledger.stores.sql_blobs import SqlBlobs
from gatemark.ledger.stores.sql_events import SqlEvents
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

logger = logging.getLogger(__name__)

PAGE: Final = 50
MOST_LINES: Final = 1_000


class SqlResults:
    """The results of a store in a database."""

    def __init__(self, database: SqlDatabase, events: SqlEvents) -> None:
        self._database = database
        self._events = events
        self._lines: dict[tuple[int, str, bytes], ResultLine] = {}

    def append(self, result: Result) -> int:
        verify_seal(result)
        row = {
            "id": result.id,
            "title": result.title,
            "verdict": result.verdict,
            "finished_at": result.finished_at.isoformat(),
            "document": result.document,
        }
        known = sa.select(RESULTS.c.seq, RESULTS.c.document).where(RESULTS.c.id == result.id)
        with self._database.writing() as connection:
            found = connection.execute(known).first()
            if found is None or read_result(result.id, found.document).stamp != result.stamp:
                self.tell(connection, result)
            if found is not None:
                return int(found.seq)
            added = sa.insert(RESULTS).values(row).returning(RESULTS.c.seq)
            seq = int(connection.execute(added).scalar_one())
        logger.info("result sealed", extra={"result": result.id, "verdict": result.verdict})
        return seq

    def tell(self, connection: sa.Connection, result: Result) -> None:
        """Add the event that tells of a result, in a caller's transaction."""
        self._events.add(connection, lambda last_at: (result_draft(result, last_at),))

    def get(self, reference: str) -> Result:
        matching = RESULTS.c.id.startswith(wanted_prefix(reference), autoescape=True)
        query = sa.select(RESULTS.c.id, RESULTS.c.document).where(matching).limit(2)
        with self._database.reading() as connection:
            rows = connection.execute(query).all()
        if not rows:
            raise UnknownNameError(f"the store holds no result {reference}")
        if len(rows) > 1:
            raise UsageError(f"{reference} matches more than one result; give more digits")
        return read_result(rows[0].id, rows[0].document)

    def lines(self, limit: int, before: int | None = None) -> Sequence[ResultLine]:
        # From documents, not from the columns beside them: those carry no seal.
        columns = (RESULTS.c.seq, RESULTS.c.id, RESULTS.c.document)
        query = sa.select(*columns).order_by(RESULTS.c.seq.desc())
        if before is not None:
            query = query.where(RESULTS.c.seq < before)
        found: list[ResultLine] = []
        while len(found) < limit:
            if found:
                query = query.where(RESULTS.c.seq < found[-1].seq)
            wanted = min(PAGE, limit - len(found))
            with self._database.reading() as connection:
                page = connection.execute(query.limit(wanted)).all()
            found.extend(self._line(row.seq, row.id, row.document) for row in page)
            if len(page) < wanted:
                break
        return found

    def _line(self, seq: int, identity: str, document: object) -> ResultLine:
        """A line from a document whose seal holds; the same bytes are checked once.

        Checking takes milliseconds and a page shows the same results again and again.
        """
        # SQLite stores any type in any column.
        data = document if isinstance(document, bytes) else b""
        key = (seq, identity, hashlib.sha256(data).digest())
        line = self._lines.get(key)
        if line is None:
            line = line_of(seq, read_result(identity, data))
            if len(self._lines) >= MOST_LINES:
                self._lines.clear()
            self._lines[key] = line
        return line

    def listed(self) -> Iterator[ListedRow]:
        """Every result with the columns beside its document, as they are stored."""
        columns = (RESULTS.c[name] for name in ListedRow._fields)
        query = sa.select(*columns, RESULTS.c.seq)
        for row in self._database.pages(query, RESULTS.c.seq, PAGE):
            yield ListedRow._make(tuple(row)[:-1])

    def ids_by_title(self, beginning: str) -> dict[str, list[str]]:
        """The ids of results whose title column begins so, by title."""
        fitting = RESULTS.c.title.startswith(beginning, autoescape=True)
        query = sa.select(RESULTS.c.title, RESULTS.c.id).where(fitting).order_by(RESULTS.c.seq)
        found: dict[str, list[str]] = {}
        with self._database.reading() as connection:
            for title, result_id in connection.execute(query):
                found.setdefault(title, []).append(result_id)
        return found

    def documents(self) -> Iterator[tuple[str, bytes]]:
        query = sa.select(RESULTS.c.seq, RESULTS.c.id, RESULTS.c.document)
        for row in self._database.pages(query, RESULTS.c.seq, PAGE):
            yield str(row.id), row.document


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
