"""Sealed results in a database, each with its event in the same transaction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

import sqlalchemy as sa

from gatemark.core.errors import UnknownNameError, UsageError
from gatemark.core.result import Result, read_result, verify_seal
from gatemark.ledger.chain import result_draft
from gatemark.ledger.port import ResultLine
from gatemark.ledger.stores.database import Database
from gatemark.ledger.stores.reading import wanted_prefix
from gatemark.ledger.stores.sql_events import SqlEvents
from gatemark.ledger.stores.tables import RESULTS

PAGE: Final = 50


class SqlResults:
    """The results of a store in a database."""

    def __init__(self, database: Database, events: SqlEvents) -> None:
        self._database = database
        self._events = events

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
            return int(connection.execute(added).scalar_one())

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
            raise UsageError(f"{reference} fits more than one result; give more digits")
        return read_result(rows[0].id, rows[0].document)

    def lines(self, limit: int, before: int | None = None) -> Sequence[ResultLine]:
        columns = (RESULTS.c.seq, RESULTS.c.id, RESULTS.c.title, RESULTS.c.verdict)
        query = sa.select(*columns, RESULTS.c.finished_at).order_by(RESULTS.c.seq.desc())
        if before is not None:
            query = query.where(RESULTS.c.seq < before)
        with self._database.reading() as connection:
            rows = connection.execute(query.limit(limit)).all()
        return [
            ResultLine(
                seq=row.seq,
                id=row.id,
                title=row.title,
                verdict=row.verdict,
                finished_at=datetime.fromisoformat(row.finished_at),
            )
            for row in rows
        ]

    def documents(self) -> Iterator[tuple[str, bytes]]:
        after = 0
        columns = sa.select(RESULTS.c.seq, RESULTS.c.id, RESULTS.c.document)
        ordered = columns.order_by(RESULTS.c.seq).limit(PAGE)
        while True:
            with self._database.reading() as connection:
                page = connection.execute(ordered.where(RESULTS.c.seq > after)).all()
            yield from ((str(row.id), row.document) for row in page)
            if len(page) < PAGE:
                return
            after = page[-1].seq
