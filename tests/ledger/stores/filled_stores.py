"""Stores with rows in every table."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from alembic.config import Config
from tests.ledger.samples import ATTACHMENT, EVIDENCE, draft, result

import gatemark.ledger.migrations
from gatemark.ledger.stores import DATABASE
from gatemark.ledger.stores.database import run_migrations
from gatemark.ledger.stores.folder import StorePlace
from gatemark.ledger.stores.sql import SqlEvents, SqlResults
from gatemark.ledger.stores.tables import METADATA
from gatemark.workspace import Workspace

SEALED = (result("a", with_blobs=True), result("b", verdict="fail"), result("c"))
NOTES = 5
TOLD = ("episode", "point", "review", "label_")
"""How tables begin whose rows do not verify without events that tell of them."""
Rows = dict[str, list[dict[str, Any]]]
Columns = dict[str, sa.types.TypeEngine[Any]]


def alembic_config(connection: sa.Connection | None = None) -> Config:
    config = Config()
    folder = Path(gatemark.ledger.migrations.__file__).parent
    config.set_main_option("script_location", str(folder))
    config.attributes["connection"] = connection
    return config


def make_filled_store(address: str, *, everywhere: bool = False) -> None:
    """A store with results, events and made-up rows in other tables.

    The ledger verifies, unless the rows are to be ``everywhere``, also where events must tell of
    them. One in a folder is a copy of the first that was made.
    """
    if "://" in address:
        _make_filled_store(address, everywhere=everywhere)
    else:
        shutil.copytree(_filled_folder(everywhere=everywhere), address)


@cache
def _filled_folder(*, everywhere: bool) -> Path:
    parent = Path(tempfile.mkdtemp(prefix="gm-filled-store-"))
    atexit.register(shutil.rmtree, parent, ignore_errors=True)
    _make_filled_store(str(parent / "store"), everywhere=everywhere)
    return parent / "store"


def _make_filled_store(address: str, *, everywhere: bool) -> None:
    place = Workspace(store=address).place()
    with place.database.writing() as connection:
        run_migrations(connection)
    events = SqlEvents(place.database, lambda: "5a" * 16)
    results = SqlResults(place.database, events)
    for one in SEALED:
        results.append(one)
    events.append([draft(number) for number in range(NOTES)])
    events.erase_payload(5, draft(NOTES, "payload_erased", **_erasure(events, 5)))
    place.blobs.put(EVIDENCE)
    place.blobs.put(ATTACHMENT)
    _add_made_up_rows(place, everywhere=everywhere)
    place.database.close()


def _erasure(events: SqlEvents, seq: int) -> dict[str, Any]:
    row = events.rows_at([seq])[seq]
    return {
        "seq": seq,
        "payload_digest": f"sha256:{row.payload_digest.hex()}",
        "reason": "somebody asked",
    }


def _add_made_up_rows(place: StorePlace, *, everywhere: bool) -> None:
    values = {int: 7, str: "x", bytes: b"\x00\xff", bool: True, float: 0.1}
    with place.database.writing() as connection:
        for name, kinds in _columns_of(connection).items():
            if name in METADATA.tables:
                continue
            if everywhere or not name.startswith(TOLD):
                row = {column: values[kind.python_type] for column, kind in kinds.items()}
                connection.execute(sa.insert(_table(name, kinds)), row)


def _columns_of(connection: sa.Connection) -> dict[str, Columns]:
    """The columns of every table, without the one of the layout, and their types."""
    found = sa.inspect(connection).get_multi_columns()
    return {
        name: {column["name"]: column["type"] for column in columns}
        for (_, name), columns in found.items()
        if name != "alembic_version"
    }


def _table(name: str, kinds: Columns) -> sa.TableClause:
    return sa.table(name, *(sa.column(column, kind) for column, kind in kinds.items()))


def rows_of(database: sa.Engine | Path | str) -> Rows:
    """Every row of every table, without the layout."""
    if isinstance(database, Path):
        engine = sa.create_engine(sa.URL.create("sqlite", database=str(database)))
    elif isinstance(database, str):
        url = sa.make_url(database).difference_update_query(["blobs"])
        engine = sa.create_engine(url.set(drivername="postgresql+psycopg"))
    else:
        engine = database
    found = {}
    with engine.connect() as connection:
        for name, kinds in _columns_of(connection).items():
            table = _table(name, dict(sorted(kinds.items())))
            rows = connection.execute(sa.select(table)).mappings()
            found[name] = sorted((dict(row) for row in rows), key=repr)
    engine.dispose()
    return found


def store_rows(address: str) -> Rows:
    """Every row of a store by its address."""
    return rows_of(address if "://" in address else Path(address) / DATABASE)


def layout_found(address: str) -> str | None:
    """The layout of a store by its address."""
    place = Workspace(store=address).place()
    try:
        return place.database.layout()
    finally:
        place.database.close()


def set_layout(address: str, layout: str) -> None:
    """Let a store say that it has another layout."""
    place = Workspace(store=address).place()
    with place.database.writing() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = :n"), {"n": layout})
    place.database.close()
