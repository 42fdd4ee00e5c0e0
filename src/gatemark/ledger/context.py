"""What the ledger's commands need from the workspace."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Protocol

from gatemark.ledger.port import LedgerStore
from gatemark.ledger.stores.folder import StorePlace
from gatemark.ledger.stores.sql import SqlStore


class LedgerContext(Protocol):
    """Actor, clock and store. A workspace is one; the ledger must not import it."""

    @property
    def actor(self) -> str:
        """Name of the person or process that acts."""
        ...

    @property
    def clock(self) -> Callable[[], datetime]:
        """Clock for the times of events."""
        ...

    @property
    def events(self) -> LedgerStore:
        """The chain of events; the store is created on first use."""
        ...

    @property
    def folder(self) -> Path | None:
        """Folder of a file store; None for a database server."""
        ...

    def existing_store(self) -> SqlStore:
        """Open a store that exists."""
        ...

    def place(self) -> StorePlace:
        """Return where the store is or will be."""
        ...

    def existing_place(self) -> StorePlace:
        """Return where an existing store of any layout is."""
        ...
