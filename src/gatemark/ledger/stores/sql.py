"""A whole ledger in a database, made or brought to today's layout when it is opened."""

from __future__ import annotations

import secrets
from collections.abc import Callable

import sqlalchemy as sa

from gatemark.core.result import read_result
from gatemark.ledger.port import BlobStore
from gatemark.ledger.stores.database import Database
from gatemark.ledger.stores.sql_events import SqlEvents
from gatemark.ledger.stores.sql_results import SqlResults
from gatemark.ledger.stores.tables import RESULTS
from gatemark.ledger.stores.upgrade import FIRST, NEWEST, revision_of, upgrade


class SqlStore:
    """Events and results in one database, blobs there or elsewhere."""

    def __init__(
        self,
        database: Database,
        blobs: BlobStore,
        salt: Callable[[], str] = lambda: secrets.token_hex(16),
    ) -> None:
        self.database = database
        self.events = SqlEvents(database, salt)
        self.results = SqlResults(database, self.events)
        self.blobs = blobs
        if not database.is_newest():
            self._bring_up_to_date()

    def forget(self) -> None:
        """Let removed rows leave the database's files too."""
        self.database.forget()

    def close(self) -> None:
        """Let go of every connection."""
        self.database.close()

    def _bring_up_to_date(self) -> None:
        with self.database.writing() as connection:
            found = revision_of(connection)
            if found == NEWEST:
                return
            upgrade(connection, found)
            if found == FIRST:
                self._tell_of_results(connection)

    def _tell_of_results(self, connection: sa.Connection) -> None:
        """Results of the first layout have no events; the ledger starts with them."""
        query = sa.select(RESULTS.c.id, RESULTS.c.document).order_by(RESULTS.c.seq)
        for row in connection.execute(query).all():
            result = read_result(row.id, row.document)
            self.results.tell(connection, result)
