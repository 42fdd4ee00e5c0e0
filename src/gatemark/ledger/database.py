"""What feature stores need from a database."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Final, Protocol

import sqlalchemy as sa

from gatemark.ledger.event import Event

EventNote = Callable[[sa.Connection, Sequence[Event]], None]
NOTE_EVENTS: Final[ContextVar[EventNote | None]] = ContextVar("note_events", default=None)
"""Called with the events of each append of this context, in the transaction that adds them."""


class Database(Protocol):
    """Transactions for reading and for writing."""

    @property
    def place(self) -> str:
        """Database address without secrets, for messages."""

    @property
    def dialect(self) -> str:
        """Name of the SQL dialect."""

    def reading(self) -> AbstractContextManager[sa.Connection]:
        """Open a connection for reading."""

    def streaming(self) -> AbstractContextManager[sa.Connection]:
        """Open a read transaction whose rows are fetched in batches."""

    def adding(self) -> AbstractContextManager[sa.Connection]:
        """Open a write transaction for rows whose order does not matter."""

    def writing(self) -> AbstractContextManager[sa.Connection]:
        """Open a write transaction that excludes other writers."""
