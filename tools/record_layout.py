"""Write the statements that make an empty store of the newest layout, for each kind of database.

They are what every migration together leaves behind, so that a new store need not run them one by
one. Run this after adding a migration; tests/ledger/stores/test_layouts.py compares.

    python tools/record_layout.py
"""

from __future__ import annotations

import sys
from pathlib import Path

import sqlalchemy as sa

from gatemark.ledger.stores.database import (
    NEW_POSTGRES_STORE,
    NEW_SQLITE_STORE,
    NEWEST,
    SCHEMA_MARK,
    run_migrations,
)

LAYOUT_ROW = f"INSERT INTO alembic_version (version_num) VALUES ('{NEWEST}')"  # noqa: S608
SCHEMA = "gatemark_recorded"


def sqlite_statements() -> list[str]:
    """Each table, index and trigger of a migrated store, and its layout."""
    with sa.create_engine("sqlite://").begin() as connection:
        run_migrations(connection)
        # The database makes its own parts by itself.
        query = "SELECT sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%' ORDER BY rowid"
        made = [str(sql) for (sql,) in connection.exec_driver_sql(query)]
    return [*made, LAYOUT_ROW]


def postgres_statements(server: str) -> list[str]:
    """Each statement of the migrations that changes something, and the layout they end with."""
    made: list[str] = []
    seen: set[str] = set()

    def keep(_: object, __: object, statement: str, parameters: object, *___: object) -> None:
        act = statement.split(maxsplit=1)[0]
        if act in ("SELECT", "SHOW") or (act != "CREATE" and "alembic_version" in statement):
            return
        if parameters:
            raise ValueError(f"has parameters, which a recording cannot have: {statement}")
        if act == "CREATE" and statement in seen:
            # The same function, made sure of again for another table.
            return
        seen.add(statement)
        made.append(statement.strip().replace("%%", "%").replace(SCHEMA, SCHEMA_MARK))

    engine = sa.create_engine(server.replace("postgresql://", "postgresql+psycopg://"))
    with engine.connect() as connection, connection.begin() as transaction:
        connection.exec_driver_sql(f"CREATE SCHEMA {SCHEMA}")
        connection.exec_driver_sql(f"SET LOCAL search_path TO {SCHEMA}")
        sa.event.listen(connection, "before_cursor_execute", keep)
        run_migrations(connection)
        transaction.rollback()
    engine.dispose()
    # Alembic, too, is content with an empty table of its own.
    made[0] = made[0].replace("CREATE TABLE alembic", "CREATE TABLE IF NOT EXISTS alembic")
    return [*made, LAYOUT_ROW]


def main() -> None:
    """Write the files."""
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from tests.postgres_server import real_postgres  # noqa: PLC0415 - found only now

    with real_postgres() as server:
        made = postgres_statements(server)
    NEW_POSTGRES_STORE.write_text(";\n\n".join(made) + "\n", encoding="utf-8")
    NEW_SQLITE_STORE.write_text(";\n\n".join(sqlite_statements()) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
