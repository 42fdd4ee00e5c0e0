"""A complete ledger in a database, created if there is none.

One operation is one transaction, and triggers refuse any change to a row of the chain.
"""

from __future__ import annotations

import hashlib
import logging
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import cache
from typing import Any, Final

import sqlalchemy as sa

from gatemark.core.errors import (
    ConflictError,
    GatemarkError,
    IntegrityError,
    RefusedError,
    UnknownNameError,
    UsageError,
)
from gatemark.core.result import Result, read_result, verify_seal
from gatemark.ledger.database import NOTE_EVENTS
from gatemark.ledger.event import (
    EMPTY,
    Event,
    EventDraft,
    EventRow,
    Head,
    NewEvent,
    check_row,
    decode_digest,
    draft_result,
    encode_event,
    extend,
    make_row,
    require_head,
)
from gatemark.ledger.merkle import Frontier, leaf_hash, node_number, peaks_of
from gatemark.ledger.port import BlobStore, Erasure, ResultLine, erasures, line_of, wanted_prefix
from gatemark.ledger.stored_rows import ListedRow
from gatemark.ledger.stores.database import (
    NEWEST,
    SqlDatabase,
    existing_layout,
    layout_of,
    migrate,
    require_known,
    require_usable,
)
from gatemark.ledger.stores.sql_blobs import SqlBlobs
from gatemark.ledger.stores.tables import (
    CHECKPOINTS,
    EVENTS,
    METADATA,
    NODES,
    PAYLOAD_ERASURES,
    PAYLOADS,
    RESULTS,
)

_GUARDED: Final = (
    "results",
    "events",
    "nodes",
    "checkpoints",
    "payload_erasures",
    "blob_erasures",
    "payloads",
    "blobs",
    "blob_pieces",
    "reviews",
    "review_pairs",
    "review_shows",
    "review_votes",
    "review_closings",
    "label_sets",
    "label_items",
    "label_marks",
    "label_acceptances",
)
_ACTS: Final = {"sqlite": ("update", "delete"), "postgresql": ("update", "delete", "truncate")}
_FOUND: Final = {
    "sqlite": "SELECT name FROM sqlite_master WHERE type = 'trigger'",
    # A disabled trigger counts as missing.
    "postgresql": "SELECT tgname FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid "
    "WHERE relnamespace = current_schema()::regnamespace AND tgenabled IN ('O', 'A')",
}


def missing_guards(connection: sa.Connection) -> list[str]:
    """Return the names of triggers that are missing."""
    dialect = connection.dialect.name
    wanted = {f"{table}_no_{act}" for table in _GUARDED for act in _ACTS[dialect]}
    wanted.add("events_in_succession")
    return sorted(wanted - set(connection.execute(sa.text(_FOUND[dialect])).scalars()))


EVENTS_PAGE: Final = 2_000

_ROW: Final = sa.select(*EVENTS.c, PAYLOADS.c.data).select_from(
    EVENTS.outerjoin(PAYLOADS, PAYLOADS.c.seq == EVENTS.c.seq)
)
_LAST: Final = _ROW.order_by(EVENTS.c.seq.desc()).limit(1)


@cache
def _build_page_query(*columns: str) -> sa.Select[Any]:
    """Return the query for a page of later events, by columns; to build it takes as long as a run.

    A slow reader of many pages holds no transaction open.
    """
    here = (EVENTS.c[name] == sa.bindparam(name) for name in columns)
    later = _ROW.where(EVENTS.c.seq > sa.bindparam("after"), *here)
    return later.order_by(EVENTS.c.seq).limit(EVENTS_PAGE)


class SqlEvents:
    """The events of a store in a database."""

    def __init__(self, database: SqlDatabase, salt: Callable[[], str]) -> None:
        self._database = database
        self._salt = salt
        self._edge: tuple[Head, Frontier] | None = None

    def head(self) -> Head:
        with self._database.reading() as connection:
            last = _read_last(connection)
        return EMPTY if last is None else last.head

    def append(
        self, drafts: Sequence[EventDraft], expected: Head | None = None
    ) -> tuple[Event, ...]:
        with self._database.writing() as connection:
            added = self.add(connection, lambda _: drafts, expected)
        if added:
            kinds = ",".join(sorted({event.kind for event in added}))
            seqs = {"first": added[0].seq, "last": added[-1].seq}
            logger.info("events appended", extra={"kinds": kinds, **seqs})
        return added

    def add(
        self,
        connection: sa.Connection,
        drafts_after: Callable[[datetime | None], Sequence[EventDraft]],
        expected: Head | None = None,
    ) -> tuple[Event, ...]:
        """Add events in a caller's transaction; drafts may depend on the last event's time."""
        last = _read_last(connection)
        head = EMPTY if last is None else last.head
        require_head(expected, head)
        last_at = None if last is None else last.at
        made = extend(head, last_at, drafts_after(last_at), self._salt)
        if made:
            frontier = self._read_frontier(connection, head, last)
            self._edge = None
            _insert(connection, made, frontier)
            self._edge = (made[-1].event.head, frontier)
        added = tuple(new.event for new in made)
        note = NOTE_EVENTS.get()
        if note is not None and added:
            note(connection, added)
        return added

    def next_number(self, connection: sa.Connection) -> int:
        """Return the number of the next event, for a caller that holds the write lock."""
        last = _read_last(connection)
        return 1 if last is None else last.seq + 1

    def has_kind(self, connection: sa.Connection, kind: str) -> bool:
        """Whether there is any event of a kind."""
        query = sa.select(EVENTS.c.seq).where(EVENTS.c.kind == kind).limit(1)
        return connection.execute(query).first() is not None

    def newest(self, kind: str) -> tuple[Event, Mapping[str, object]] | None:
        """Return the last event of a kind that has its payload, checked."""
        wanted = sa.and_(EVENTS.c.kind == kind, PAYLOADS.c.data.is_not(None))
        query = _ROW.where(wanted).order_by(EVENTS.c.seq.desc()).limit(1)
        with self._database.reading() as connection:
            found = connection.execute(query).first()
        if found is None:
            return None
        event, payload = check_row(EventRow._make(found))
        return event, payload or {}

    def _read_frontier(self, connection: sa.Connection, head: Head, last: Event | None) -> Frontier:
        """Return the right edge of the tree: remembered from the last append, or read."""
        if self._edge is not None and self._edge[0] == head:
            return self._edge[1]
        numbers = [node_number(*place) for place in peaks_of(head.seq) if place[0] > 0]
        kept = _read_nodes(connection, numbers)
        if len(kept) < len(numbers):
            raise IntegrityError(f"{self._database.place}: the tree over the events lacks nodes")
        peaks = [kept[number] for number in numbers]
        if last is not None and head.seq & 1:
            peaks.append(leaf_hash(encode_event(last)))
        return Frontier(head.seq, peaks)

    def events(
        self, after: int = 0, kind: str | None = None, subject: str | None = None
    ) -> Iterator[tuple[Event, Mapping[str, object] | None]]:
        given = {"kind": kind, "subject": subject}
        wanted = {name: value for name, value in given.items() if value is not None}
        return map(check_row, self._read_rows(after, wanted))

    def payload(self, digest: str) -> Mapping[str, object] | None:
        query = _ROW.where(EVENTS.c.payload_digest == decode_digest(digest)).limit(1)
        with self._database.reading() as connection:
            found = connection.execute(query).first()
        if found is None:
            raise UsageError(f"the ledger holds no payload {digest}")
        return check_row(EventRow._make(found))[1]

    def rows(self, after: int = 0) -> Iterator[EventRow]:
        return self._read_rows(after, {})

    def rows_at(self, numbers: Sequence[int]) -> dict[int, EventRow]:
        with self._database.reading() as connection:
            found = connection.execute(_ROW.where(EVENTS.c.seq.in_(numbers))).all()
        return {row.seq: EventRow._make(row) for row in found}

    def _read_rows(self, after: int, wanted: Mapping[str, str]) -> Iterator[EventRow]:
        query = _build_page_query(*wanted)
        while True:
            with self._database.reading() as connection:
                page = connection.execute(query, {"after": after, **wanted}).all()
            yield from map(EventRow._make, page)
            if len(page) < EVENTS_PAGE:
                return
            after = page[-1].seq

    def nodes(self) -> Iterator[tuple[int, bytes]]:
        query = sa.select(NODES.c.number, NODES.c.hash)
        for row in self._database.pages(query, NODES.c.number, EVENTS_PAGE):
            yield row.number, row.hash

    def nodes_at(self, numbers: Sequence[int]) -> dict[int, bytes]:
        with self._database.reading() as connection:
            return _read_nodes(connection, numbers)

    def last_payload(self) -> int:
        with self._database.reading() as connection:
            return connection.execute(sa.select(sa.func.max(PAYLOADS.c.seq))).scalar() or 0

    def add_checkpoint(self, size: int, note: str) -> None:
        known = sa.select(CHECKPOINTS.c.size).where(
            CHECKPOINTS.c.size == size, CHECKPOINTS.c.note == note
        )
        with self._database.writing() as connection:
            if connection.execute(known).first() is None:
                connection.execute(sa.insert(CHECKPOINTS).values(size=size, note=note))

    def checkpoints(self) -> Sequence[tuple[int, str]]:
        query = sa.select(CHECKPOINTS.c.size, CHECKPOINTS.c.note)
        with self._database.reading() as connection:
            rows = connection.execute(query.order_by(CHECKPOINTS.c.size, CHECKPOINTS.c.note)).all()
        # The column may have been edited; the size in the note is what counts.
        return [(row.size if isinstance(row.size, int) else 0, str(row.note)) for row in rows]

    def missing_guards(self) -> Sequence[str]:
        with self._database.reading() as connection:
            return missing_guards(connection)

    def erase_payload(self, seq: int, tombstone: EventDraft) -> Event:
        with self._database.writing() as connection:
            (event,) = self.add(connection, lambda _: (tombstone,))
            connection.execute(sa.insert(PAYLOAD_ERASURES).values(seq=seq, tombstone=event.seq))
            connection.execute(sa.delete(PAYLOADS).where(PAYLOADS.c.seq == seq))
        logger.info("payload erased", extra={"seq": seq, "tombstone": event.seq})
        return event

    def erase_document(
        self, table: sa.Table, row: Mapping[str, object], tombstone: EventDraft
    ) -> Event:
        """Add the tombstone and empty the document of a row in one act."""
        here = sa.and_(*(table.c[name] == value for name, value in row.items()))
        with self._database.writing() as connection:
            (event,) = self.add(connection, lambda _: (tombstone,))
            emptied = connection.execute(sa.update(table).where(here).values(document=b""))
            if emptied.rowcount != 1:
                raise ConflictError(f"{self._database.place}: the row to erase is gone")
        logger.info("document erased", extra={"table": table.name, "tombstone": event.seq})
        return event


def _read_last(connection: sa.Connection) -> Event | None:
    """Return the last event after checking it: nothing is ever chained to a changed event."""
    found = connection.execute(_LAST).first()
    return None if found is None else check_row(EventRow._make(found))[0]


def _read_nodes(connection: sa.Connection, numbers: Sequence[int]) -> dict[int, bytes]:
    if not numbers:
        return {}
    query = sa.select(NODES.c.number, NODES.c.hash).where(NODES.c.number.in_(numbers))
    return {row.number: row.hash for row in connection.execute(query)}


def _insert(connection: sa.Connection, made: Sequence[NewEvent], frontier: Frontier) -> None:
    rows = [make_row(new)._asdict() for new in made]
    payloads = [{"seq": row["seq"], "data": row.pop("payload")} for row in rows]
    nodes = [
        {"number": number, "hash": hashed}
        for new in made
        for number, hashed in frontier.add(leaf_hash(new.body))
    ]
    connection.execute(sa.insert(EVENTS), rows)
    connection.execute(sa.insert(PAYLOADS), payloads)
    if nodes:
        connection.execute(sa.insert(NODES), nodes)


logger = logging.getLogger(__name__)

RESULTS_PAGE: Final = 50
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
            if found is not None and not found.document:
                words = self._find_erasure(result.id).words
                raise RefusedError(f"result {result.id} was {words}; it cannot be sealed again")
            if found is None or read_result(result.id, found.document).stamp != result.stamp:
                self.tell(connection, result)
            if found is not None:
                return int(found.seq)
            added = sa.insert(RESULTS).values(row).returning(RESULTS.c.seq)
            seq = int(connection.execute(added).scalar_one())
        logger.info("result sealed", extra={"result": result.id, "verdict": result.verdict})
        return seq

    def tell(self, connection: sa.Connection, result: Result) -> None:
        """Add the ``result_sealed`` event of a result in a caller's transaction."""
        self._events.add(connection, lambda last_at: (draft_result(result, last_at),))

    def get(self, reference: str) -> Result:
        matching = RESULTS.c.id.startswith(wanted_prefix(reference), autoescape=True)
        query = sa.select(RESULTS.c.id, RESULTS.c.document).where(matching).limit(2)
        with self._database.reading() as connection:
            rows = connection.execute(query).all()
        if not rows:
            raise UnknownNameError(f"the store holds no result {reference}")
        if len(rows) > 1:
            raise UsageError(f"{reference} matches more than one result; give more digits")
        return self._read(rows[0].id, rows[0].document)

    def _read(self, identity: str, document: bytes) -> Result:
        """A result; of an erased one, what is left."""
        return (
            read_result(identity, document) if document else self._find_erasure(identity).result()
        )

    def _find_erasure(self, identity: str) -> Erasure:
        found = erasures(self._events, "result").get((identity, 0))
        if found is None:
            raise IntegrityError(f"result {identity}: its document is gone, and no event erased it")
        return found

    def lines(self, limit: int, before: int | None = None) -> Sequence[ResultLine]:
        # From documents, not from the columns alongside them: the seal does not cover columns.
        columns = (RESULTS.c.seq, RESULTS.c.id, RESULTS.c.document)
        query = sa.select(*columns).order_by(RESULTS.c.seq.desc())
        if before is not None:
            query = query.where(RESULTS.c.seq < before)
        found: list[ResultLine] = []
        while len(found) < limit:
            if found:
                query = query.where(RESULTS.c.seq < found[-1].seq)
            wanted = min(RESULTS_PAGE, limit - len(found))
            with self._database.reading() as connection:
                page = connection.execute(query.limit(wanted)).all()
            found.extend(self._make_line(row.seq, row.id, row.document) for row in page)
            if len(page) < wanted:
                break
        return found

    def _make_line(self, seq: int, identity: str, document: object) -> ResultLine:
        """Return a list row from a sealed document; cached, because pages list it often."""
        # SQLite stores any type in any column.
        data = document if isinstance(document, bytes) else b""
        key = (seq, identity, hashlib.sha256(data).digest())
        line = self._lines.get(key)
        if line is None:
            line = line_of(seq, self._read(identity, data))
            if len(self._lines) >= MOST_LINES:
                self._lines.clear()
            self._lines[key] = line
        return line

    def listed(self) -> Iterator[ListedRow]:
        """Yield every result with the columns alongside its document, as they are stored."""
        columns = (RESULTS.c[name] for name in ListedRow._fields)
        query = sa.select(*columns, RESULTS.c.seq)
        for row in self._database.pages(query, RESULTS.c.seq, RESULTS_PAGE):
            yield ListedRow._make(tuple(row)[:-1])

    def ids_by_title(self, beginning: str) -> dict[str, list[str]]:
        """Return the ids of results whose title starts with ``beginning``, by title."""
        fitting = RESULTS.c.title.startswith(beginning, autoescape=True)
        query = sa.select(RESULTS.c.title, RESULTS.c.id).where(fitting).order_by(RESULTS.c.seq)
        found: dict[str, list[str]] = {}
        with self._database.reading() as connection:
            for title, result_id in connection.execute(query):
                found.setdefault(title, []).append(result_id)
        return found

    def documents(self) -> Iterator[tuple[str, bytes]]:
        query = sa.select(RESULTS.c.seq, RESULTS.c.id, RESULTS.c.document)
        for row in self._database.pages(query, RESULTS.c.seq, RESULTS_PAGE):
            yield str(row.id), row.document


def new_salt() -> str:
    """Return a random salt, so that nobody can guess a payload from its digest."""
    return secrets.token_hex(16)


class SqlStore:
    """Events and results in one database, with blobs there or elsewhere.

    A new store gets the newest layout; with ``must_exist``, a missing store is refused. An existing
    store keeps its layout; one that this build cannot use is refused.
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
            self.layout = _prepare_layout(database, must_exist=must_exist)
        except GatemarkError:
            # On refusal, leave no connection open and no log alongside a SQLite file.
            database.close()
            raise

    @contextmanager
    def frozen(self) -> Iterator[SqlStore]:
        """Yield the store as it is now; a folder's blobs are the current ones."""
        with self.database.frozen() as database:
            blobs = SqlBlobs(database) if isinstance(self.blobs, SqlBlobs) else self.blobs
            yield SqlStore(database, blobs, must_exist=True)

    def forget(self) -> None:
        self.database.forget()

    def close(self) -> None:
        self.database.close()


def _prepare_layout(database: SqlDatabase, *, must_exist: bool) -> str:
    """Return the layout of a store that can be used directly; create a store if there is none."""
    found = database.layout()
    if found is None and must_exist:
        raise UsageError(f"there is no store at {database.place}")
    if found is None:
        with database.writing() as connection:
            # Another process may have created it just now.
            found = layout_of(connection)
            if found is None:
                migrate(connection, None)
                return NEWEST
    require_usable(database.place, found)
    return found


def upgrade_database(
    database: SqlDatabase,
    before: Callable[[str], None] = lambda _: None,
) -> str | None:
    """Upgrade a store to the newest layout in one transaction.

    Return the layout it had, or None if it already has the newest. ``before`` is called with the
    old layout, while other writers are locked out and nothing has changed yet.
    """
    with database.writing() as connection:
        found = existing_layout(connection, database.place)
        require_known(database.place, found)
        if found == NEWEST:
            return None
        before(found)
        counts = _count_ledger_rows(connection)
        migrate(connection, found)
        lost = [
            name for name, n in _count_ledger_rows(connection).items() if n < counts.get(name, 0)
        ]
        if lost:
            names = ", ".join(lost)
            raise IntegrityError(f"{database.place}: the upgrade would lose rows of {names}")
    return found


def _count_ledger_rows(connection: sa.Connection) -> dict[str, int]:
    """Return the row count of each ledger table that exists."""
    there = set(sa.inspect(connection).get_table_names())
    return {
        table.name: connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one()
        for table in METADATA.tables.values()
        if table.name in there
    }
