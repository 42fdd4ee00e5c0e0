"""A place that holds a store, or will: its database, whatever the layout, and its blobs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import sqlalchemy as sa

from gatemark.ledger.blobs import FolderBlobs
from gatemark.ledger.stores.database import SqlDatabase
from gatemark.ledger.stores.sql_blobs import SqlBlobs, blob_pieces, blob_sizes


class StorePlace(NamedTuple):
    """What copying a store or changing its layout works on; everyone else opens a ``SqlStore``."""

    database: SqlDatabase
    blobs: FolderBlobs | SqlBlobs
    file: Path | None = None
    """The file of a SQLite database."""

    def blob_sizes(self, connection: sa.Connection) -> Iterator[tuple[str, int]]:
        """Digest and size of every blob, as the transaction sees them if they are in it."""
        if isinstance(self.blobs, FolderBlobs):
            return self.blobs.sizes()
        # The first layout has no table for blobs.
        return blob_sizes(connection) if sa.inspect(connection).has_table("blobs") else iter(())

    def blob_pieces(self, connection: sa.Connection, name: str) -> Iterator[bytes]:
        """The bytes of a blob, not checked."""
        if isinstance(self.blobs, FolderBlobs):
            return self.blobs.pieces(name)
        return blob_pieces(connection, name)
