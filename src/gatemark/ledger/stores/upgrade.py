"""Bringing a store to today's layout, whatever layout it has."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import sqlalchemy as sa

import gatemark.ledger.migrations
from gatemark.core.errors import BadInputError

NEWEST: Final = "0007"
FIRST: Final = "0001"
_KNOWN: Final = (None, FIRST, "0002", "0003", "0004", "0005", "0006", NEWEST)


def revision_of(connection: sa.Connection) -> str | None:
    """The layout of a store; None when there is nothing yet."""
    tables = sa.inspect(connection)
    if tables.has_table("alembic_version"):
        found = connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar()
        if found is not None:
            return str(found)
    # Stores of the first layout were made without Alembic.
    return FIRST if tables.has_table("results") else None


def upgrade(connection: sa.Connection, found: str | None) -> None:
    """Run the missing migrations in the caller's transaction."""
    if found not in _KNOWN:
        raise BadInputError(f"the store has layout {found}, which only a newer Gatemark knows")
    # Alembic takes a while to load, and most stores are up to date.
    from alembic import command  # noqa: PLC0415
    from alembic.config import Config  # noqa: PLC0415

    config = Config()
    folder = Path(gatemark.ledger.migrations.__file__).parent
    config.set_main_option("script_location", str(folder).replace("%", "%%"))
    config.attributes["connection"] = connection
    if found == FIRST:
        command.stamp(config, FIRST)
    command.upgrade(config, NEWEST)
