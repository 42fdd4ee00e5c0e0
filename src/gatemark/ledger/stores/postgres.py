"""A ledger in PostgreSQL, for several people and machines at once."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Final

import sqlalchemy as sa

from gatemark.core.errors import UsageError
from gatemark.ledger.blobs import FolderBlobs
from gatemark.ledger.stores.database import Database
from gatemark.ledger.stores.sql import SqlStore
from gatemark.ledger.stores.sql_blobs import SqlBlobs

BLOBS_PARAMETER: Final = "blobs"
# One lock per schema: stores in other schemas of the same database have their own.
_TURN: Final = sa.text("SELECT pg_advisory_xact_lock(1734440045, hashtext(current_schema()))")


def open_postgres(address: str, *, must_exist: bool = False) -> SqlStore:
    """The store at an address; ``blobs=FOLDER`` in it keeps blobs in that folder.

    With ``must_exist`` a place without a store is refused, and none is made there.
    """
    if find_spec("psycopg") is None:
        raise UsageError("PostgreSQL needs the driver psycopg: install gatemark[postgres]")
    try:
        url = sa.make_url(address).set(drivername="postgresql+psycopg")
    except (sa.exc.ArgumentError, ValueError) as error:
        raise UsageError("the store's address is not of the form postgresql://…") from error
    folder = url.query.get(BLOBS_PARAMETER)
    url = url.difference_update_query([BLOBS_PARAMETER])
    database = Database(
        sa.create_engine(url, pool_pre_ping=True),
        f"postgresql://{url.host or ''}/{url.database or ''}",
        take_turn=lambda connection: connection.execute(_TURN),
        forget="VACUUM payloads, blob_pieces",
    )
    if must_exist and database.is_empty():
        raise UsageError(f"there is no store at {database.place}")
    blobs = FolderBlobs(Path(folder)) if isinstance(folder, str) else SqlBlobs(database)
    return SqlStore(database, blobs)
