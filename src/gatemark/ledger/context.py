"""What the ledger's commands ask of the workspace that they run in."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Protocol

from gatemark.ledger.port import LedgerStore
from gatemark.ledger.stores.place import StorePlace
from gatemark.ledger.stores.sql import SqlStore


class LedgerContext(Protocol):
    """Who acts, when, and on which store. A workspace is one; the ledger stands below it."""

    @property
    def actor(self) -> str:
        """Who acts."""
        ...

    @property
    def clock(self) -> Callable[[], datetime]:
        """The clock that dates events."""
        ...

    @property
    def events(self) -> LedgerStore:
        """The chain of events; its store is made on first use."""
        ...

    @property
    def folder(self) -> Path | None:
        """The folder of a store in files; None for one in a database server."""
        ...

    def existing_store(self) -> SqlStore:
        """A store that is already there."""
        ...

    def place(self) -> StorePlace:
        """Where the store is or will be."""
        ...

    def existing_place(self) -> StorePlace:
        """Where a store should be, whatever its layout."""
        ...
