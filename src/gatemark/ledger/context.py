"""What the ledger commands need from the workspace."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Protocol

from gatemark.ledger.port import LedgerStore
from gatemark.ledger.stores.folder import StorePlace
from gatemark.ledger.stores.sql import SqlStore


class LedgerContext(Protocol):
    """Actor, clock and store. The workspace implements this; the ledger may not import it."""

    @property
    def actor(self) -> str:
        """Name of the person or process that acts."""

    @property
    def clock(self) -> Callable[[], datetime]:
        """Clock for the times of events."""

    @property
    def events(self) -> LedgerStore:
        """The event store; created on first use."""

    @property
    def folder(self) -> Path | None:
        """Folder of a file store, or None for a database server."""

    def existing_store(self) -> SqlStore:
        """Open the store; raise an error if there is none."""

    def place(self) -> StorePlace:
        """Return where the store is, or will be created."""

    def existing_place(self) -> StorePlace:
        """Return where the existing store is, whatever its layout."""
