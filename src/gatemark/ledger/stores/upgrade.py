"""The layouts of a store that this build knows, which of them it can use, and how to reach one.

A layout is the set of tables that one migration leaves behind. Opening a store never changes its
layout: ``USABLE`` lists the layouts that this build reads and writes as they are, and a user brings
an older store to the newest one with ``gatemark store upgrade``.
"""

from __future__ import annotations

import pkgutil
import re
from pathlib import Path
from typing import Final, Literal

import sqlalchemy as sa

import gatemark.ledger.migrations
import gatemark.ledger.migrations.versions
from gatemark import __version__
from gatemark.core.errors import BadInputError, NewerFormatError, UsageError

LayoutState = Literal["newest", "usable", "too_old", "too_new", "unknown"]

_FOLDER: Final = Path(gatemark.ledger.migrations.__file__).parent
NEW_SQLITE_STORE: Final = _FOLDER / "new_sqlite_store.sql"
"""Statements that make an empty store of the newest layout, by ``tools/record_layout.py``."""
_MODULE: Final = re.compile(r"v(\d{4})_(\w+)")
_NUMBER: Final = re.compile(r"[0-9]{4}")


def _steps() -> dict[str, str]:
    """Each known layout with the name of its migration, in order: ``v0006_providers`` is 0006."""
    modules = pkgutil.iter_modules(gatemark.ledger.migrations.versions.__path__)
    found = (_MODULE.fullmatch(module.name) for module in modules)
    return dict(sorted((match[1], match[2]) for match in found if match))


STEPS: Final = _steps()
LAYOUTS: Final = tuple(STEPS)
FIRST: Final = LAYOUTS[0]
NEWEST: Final = LAYOUTS[-1]
OLDEST_USABLE: Final = "0006"
USABLE: Final = LAYOUTS[LAYOUTS.index(OLDEST_USABLE) :]


def layout_of(connection: sa.Connection) -> str | None:
    """The layout of a store; None when there is nothing yet."""
    tables = sa.inspect(connection)
    if tables.has_table("alembic_version"):
        found = connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar()
        if found is not None:
            return str(found)
    # Stores of the first layout were made without Alembic.
    return FIRST if tables.has_table("results") else None


def existing_layout(connection: sa.Connection, place: str) -> str:
    """The layout of a store; refuses a place without one."""
    found = layout_of(connection)
    if found is None:
        raise UsageError(f"there is no store at {place}")
    return found


def state_of(found: str) -> LayoutState:
    """What this build can do with a layout."""
    if found == NEWEST:
        return "newest"
    if found in USABLE:
        return "usable"
    if found in LAYOUTS:
        return "too_old"
    # Other programs keep their layouts in a table of the same name.
    is_later = _NUMBER.fullmatch(found) is not None and int(found) > int(NEWEST)
    return "too_new" if is_later else "unknown"


def require_known(place: str, found: str) -> None:
    """Refuse a layout that no migration of this build makes."""
    state = state_of(found)
    if state == "too_new":
        raise NewerFormatError(
            f"{place}: has layout {found}, which this build ({__version__}, layouts up to "
            f"{NEWEST}) does not know: install a newer Gatemark"
        )
    if state == "unknown":
        raise BadInputError(
            f"{place}: has layout {found!r}, which is not a layout of Gatemark: "
            "does the database belong to another program?"
        )


def require_usable(place: str, found: str) -> None:
    """Refuse a layout that this build cannot read and write as it is."""
    require_known(place, found)
    if found not in USABLE:
        raise BadInputError(
            f"{place}: has layout {found}, this build needs {OLDEST_USABLE} or newer: "
            'run "gatemark store upgrade" (it makes a backup first)'
        )


def steps_after(found: str) -> tuple[str, ...]:
    """The migrations that a store of a known layout lacks, such as ``0006 providers``."""
    missing = LAYOUTS[LAYOUTS.index(found) + 1 :]
    return tuple(f"{layout} {STEPS[layout].replace('_', ' ')}" for layout in missing)


def migrate(connection: sa.Connection, found: str | None, to: str = NEWEST) -> None:
    """Bring a store to a layout in the caller's transaction; ``found`` is None for a new store."""
    if found is None and to == NEWEST and connection.dialect.name == "sqlite":
        # What the migrations leave behind, without the time they take: most stores are new ones.
        for statement in NEW_SQLITE_STORE.read_text(encoding="utf-8").split(";\n\n"):
            connection.exec_driver_sql(statement)
        return
    run_migrations(connection, found, to)


def run_migrations(connection: sa.Connection, found: str | None, to: str = NEWEST) -> None:
    """Run the missing migrations one by one in the caller's transaction."""
    # Alembic takes a while to load, and most stores have the layout they need.
    from alembic import command  # noqa: PLC0415
    from alembic.config import Config  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", str(_FOLDER).replace("%", "%%"))
    config.attributes["connection"] = connection
    if found == FIRST:
        command.stamp(config, FIRST)
    command.upgrade(config, to)
