"""The chain in a database: one transaction per act, rows that the database lets nobody change."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import sqlalchemy as sa

from gatemark.core.errors import IntegrityError, UsageError
from gatemark.ledger.chain import NewEvent, checked, extend, raw_digest, require_head, row_of
from gatemark.ledger.event import EMPTY, Event, EventDraft, Head, event_bytes
from gatemark.ledger.merkle import Frontier, leaf_hash, node_number, peaks_of
from gatemark.ledger.port import EventRow
from gatemark.ledger.stores.database import SqlDatabase
from gatemark.ledger.stores.tables import CHECKPOINTS, EVENTS, NODES, PAYLOAD_ERASURES, PAYLOADS

logger = logging.getLogger(__name__)

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
    # A trigger that was switched off is as good as none.
    "postgresql": "SELECT tgname FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid "
    "WHERE relnamespace = current_schema()::regnamespace AND tgenabled IN ('O', 'A')",
}


def missing_guards(connection: sa.Connection) -> list[str]:
    """The names of triggers that should be there and are not."""
    dialect = connection.dialect.name
    wanted = {f"{table}_no_{act}" for table in _GUARDED for act in _ACTS[dialect]}
    wanted.add("events_in_succession")
    return sorted(wanted - set(connection.execute(sa.text(_FOUND[dialect])).scalars()))


PAGE: Final = 2_000

_ROW: Final = sa.select(*EVENTS.c, PAYLOADS.c.data).select_from(
    EVENTS.outerjoin(PAYLOADS, PAYLOADS.c.seq == EVENTS.c.seq)
)
_LAST: Final = _ROW.order_by(EVENTS.c.seq.desc()).limit(1)


class SqlEvents:
    """The events of a store in a database."""

    def __init__(self, database: SqlDatabase, salt: Callable[[], str]) -> None:
        self._database = database
        self._salt = salt
        self._edge: tuple[Head, Frontier] | None = None

    def head(self) -> Head:
        with self._database.reading() as connection:
            last = _last(connection)
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
        """Add events inside a caller's transaction; drafts may depend on the last event's time."""
        last = _last(connection)
        head = EMPTY if last is None else last.head
        require_head(expected, head)
        last_at = None if last is None else last.at
        made = extend(head, last_at, drafts_after(last_at), self._salt)
        if made:
            frontier = self._frontier(connection, head, last)
            self._edge = None
            _insert(connection, made, frontier)
            self._edge = (made[-1].event.head, frontier)
        return tuple(new.event for new in made)

    def next_number(self, connection: sa.Connection) -> int:
        """The number of the next event, for a caller whose transaction writes in turn."""
        last = _last(connection)
        return 1 if last is None else last.seq + 1

    def has_kind(self, connection: sa.Connection, kind: str) -> bool:
        """Whether there is any event of a kind."""
        query = sa.select(EVENTS.c.seq).where(EVENTS.c.kind == kind).limit(1)
        return connection.execute(query).first() is not None

    def _frontier(self, connection: sa.Connection, head: Head, last: Event | None) -> Frontier:
        """The right edge of the tree: remembered from our own last act, or read."""
        if self._edge is not None and self._edge[0] == head:
            return self._edge[1]
        numbers = [node_number(*place) for place in peaks_of(head.seq) if place[0] > 0]
        kept = _nodes_at(connection, numbers)
        if len(kept) < len(numbers):
            raise IntegrityError(f"{self._database.place}: the tree over the events lacks nodes")
        peaks = [kept[number] for number in numbers]
        if last is not None and head.seq & 1:
            peaks.append(leaf_hash(event_bytes(last)))
        return Frontier(head.seq, peaks)

    def events(
        self, after: int = 0, kind: str | None = None, subject: str | None = None
    ) -> Iterator[tuple[Event, Mapping[str, object] | None]]:
        query = _ROW
        if kind is not None:
            query = query.where(EVENTS.c.kind == kind)
        if subject is not None:
            query = query.where(EVENTS.c.subject == subject)
        for row in self._rows(query, after):
            yield checked(row)

    def payload(self, digest: str) -> Mapping[str, object] | None:
        query = _ROW.where(EVENTS.c.payload_digest == raw_digest(digest)).limit(1)
        with self._database.reading() as connection:
            found = connection.execute(query).first()
        if found is None:
            raise UsageError(f"the ledger holds no payload {digest}")
        return checked(EventRow._make(found))[1]

    def rows(self, after: int = 0) -> Iterator[EventRow]:
        return self._rows(_ROW, after)

    def rows_at(self, numbers: Sequence[int]) -> dict[int, EventRow]:
        with self._database.reading() as connection:
            found = connection.execute(_ROW.where(EVENTS.c.seq.in_(numbers))).all()
        return {row.seq: EventRow._make(row) for row in found}

    def _rows(self, query: sa.Select[Any], after: int) -> Iterator[EventRow]:
        later = query.where(EVENTS.c.seq > after)
        return map(EventRow._make, self._database.pages(later, EVENTS.c.seq, PAGE))

    def nodes(self) -> Iterator[tuple[int, bytes]]:
        query = sa.select(NODES.c.number, NODES.c.hash)
        for row in self._database.pages(query, NODES.c.number, PAGE):
            yield row.number, row.hash

    def nodes_at(self, numbers: Sequence[int]) -> dict[int, bytes]:
        with self._database.reading() as connection:
            return _nodes_at(connection, numbers)

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
        # Someone may have put something else there; the note itself is what counts.
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


def _last(connection: sa.Connection) -> Event | None:
    """The last event, checked: nothing is ever chained to an edited one."""
    found = connection.execute(_LAST).first()
    return None if found is None else checked(EventRow._make(found))[0]


def _nodes_at(connection: sa.Connection, numbers: Sequence[int]) -> dict[int, bytes]:
    if not numbers:
        return {}
    query = sa.select(NODES.c.number, NODES.c.hash).where(NODES.c.number.in_(numbers))
    return {row.number: row.hash for row in connection.execute(query)}


def _insert(connection: sa.Connection, made: Sequence[NewEvent], frontier: Frontier) -> None:
    rows = [row_of(new)._asdict() for new in made]
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
