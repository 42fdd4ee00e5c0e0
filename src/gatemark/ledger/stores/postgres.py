"""A store in PostgreSQL, for several people and machines."""

from __future__ import annotations

import time
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import sqlalchemy as sa
from sqlalchemy.engine.interfaces import DBAPIConnection

from gatemark.core.errors import UsageError, not_installed
from gatemark.ledger.stores.database import SqlDatabase
from gatemark.ledger.stores.folder import FolderBlobs, StorePlace
from gatemark.ledger.stores.sql import SqlStore
from gatemark.ledger.stores.sql_blobs import SqlBlobs

BLOBS_PARAMETER: Final = "blobs"
TRIED_AFTER_S: Final = 5.0
_IDLE_SINCE: Final = "gatemark_idle_since"
# One lock per schema, so that stores in other schemas of the database do not wait.
_TURN: Final = sa.text("SELECT pg_advisory_xact_lock(1734440045, hashtext(current_schema()))")


def open_postgres(address: str, *, must_exist: bool = False) -> SqlStore:
    """Open the store at an address; ``blobs=FOLDER`` in it keeps blobs in that folder.

    With ``must_exist``, an address without a store is refused, and nothing is created.
    """
    place = postgres_place(address)
    return SqlStore(place.database, place.blobs, must_exist=must_exist)


def postgres_place(address: str) -> StorePlace:
    """Return the store at an address; any layout, or not created yet."""
    if find_spec("psycopg") is None:
        raise UsageError(not_installed("a PostgreSQL store needs", "psycopg", "postgres"))
    url = _parse_address(address)
    folder = url.query.get(BLOBS_PARAMETER)
    url = url.difference_update_query([BLOBS_PARAMETER])
    database = SqlDatabase(
        _make_engine(url),
        redact_address(address),
        take_turn=lambda connection: connection.execute(_TURN),
        forget="VACUUM payloads, blob_pieces, results, review_pairs, label_items",
        # Each read sees what is committed by then, with or without a transaction. Without one it
        # costs one round trip instead of three, and there is nothing to roll back.
        looking=_make_engine(url, isolation_level="AUTOCOMMIT", pool_reset_on_return=None),
    )
    blobs = FolderBlobs(Path(folder)) if isinstance(folder, str) else SqlBlobs(database)
    return StorePlace(database, blobs)


def private_files(address: str, environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the blobs of a store, and the files in which libpq looks for passwords and keys."""
    query = _parse_address(address).query
    named = [query.get(name) for name in (BLOBS_PARAMETER, "passfile", "sslkey")]
    named += [environ.get(name) for name in ("PGPASSFILE", "PGSERVICEFILE", "PGSSLKEY")]
    usual = (".pgpass", ".pg_service.conf", ".postgresql")
    return (
        *(Path(name) for name in named if isinstance(name, str) and name),
        *(Path.home() / name for name in usual),
    )


def redact_address(address: str) -> str:
    """Return an address for messages: without user, password, port and options."""
    url = _parse_address(address)
    return f"postgresql://{url.host or ''}/{url.database or ''}"


def _parse_address(address: str) -> sa.URL:
    """Parse an address; errors never repeat it, because a password may be anywhere in it."""
    try:
        url = sa.make_url(address).set(drivername="postgresql+psycopg")
    except (sa.exc.ArgumentError, ValueError):
        # The parser's own message would contain the address.
        raise UsageError("the store's address is not of the form postgresql://…") from None
    if "@" in f"{url.host}{url.database}":
        raise UsageError(
            "the store's address cannot be read: write @, : and / in the user name and password "
            "as %40, %3A and %2F"
        )
    return url


def _make_engine(url: sa.URL, **options: object) -> sa.Engine:
    """Return an engine that tests idle connections before it uses them again."""
    engine = sa.create_engine(url, **options)

    def rested(_connection: object, record: sa.pool.ConnectionPoolEntry) -> None:
        record.info[_IDLE_SINCE] = time.monotonic()

    def tried(connection: DBAPIConnection, record: sa.pool.ConnectionPoolEntry, _: object) -> None:
        since = record.info.get(_IDLE_SINCE)
        if since is None or time.monotonic() - since < TRIED_AFTER_S:
            return
        try:
            engine.dialect.do_ping(connection)
        except engine.dialect.loaded_dbapi.Error as error:
            # The pool opens a new connection in its place.
            raise sa.exc.DisconnectionError from error

    sa.event.listen(engine, "checkin", rested)
    sa.event.listen(engine, "checkout", tried)
    return engine
