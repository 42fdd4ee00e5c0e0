"""What feature stores need from a database."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

import sqlalchemy as sa


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
