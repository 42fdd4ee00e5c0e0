"""Write the statements that make an empty SQLite store of the newest layout.

They are what every migration together leaves behind, so that a new store need not run them one by
one. Run this after adding a migration; tests/ledger/stores/test_layouts.py compares.

    python tools/record_layout.py
"""

from __future__ import annotations

import sqlalchemy as sa

from gatemark.ledger.stores.database import NEW_SQLITE_STORE, NEWEST, run_migrations


def statements() -> list[str]:
    """Each table, index and trigger of a migrated store, and its layout."""
    with sa.create_engine("sqlite://").begin() as connection:
        run_migrations(connection, None)
        # The database makes its own parts by itself.
        query = "SELECT sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%' ORDER BY rowid"
        made = [str(sql) for (sql,) in connection.exec_driver_sql(query)]
    return [*made, f"INSERT INTO alembic_version (version_num) VALUES ('{NEWEST}')"]  # noqa: S608


def main() -> None:
    """Write the file."""
    NEW_SQLITE_STORE.write_text(";\n\n".join(statements()) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
