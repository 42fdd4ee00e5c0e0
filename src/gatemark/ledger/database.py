"""What rooms ask of a database; the ledger's is handed to them."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

import sqlalchemy as sa


class Database(Protocol):
    """Connections for looking and for writing, in turn or not."""

    @property
    def place(self) -> str:
        """Where it is, as messages call it."""
        ...

    @property
    def dialect(self) -> str:
        """The kind of database."""
        ...

    def reading(self) -> AbstractContextManager[sa.Connection]:
        """A connection for looking."""
        ...

    def streaming(self) -> AbstractContextManager[sa.Connection]:
        """A transaction for looking at an answer that is fetched piece by piece."""
        ...

    def adding(self) -> AbstractContextManager[sa.Connection]:
        """A transaction that writes, but nothing whose order matters."""
        ...

    def writing(self) -> AbstractContextManager[sa.Connection]:
        """A transaction that no other writer is inside at the same time."""
        ...
