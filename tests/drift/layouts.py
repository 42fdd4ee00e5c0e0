"""Stores as 0.1.0 left them: layout 0006, with points that no event tells of."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa

from gatemark.ledger.stores.database import migrate

from .series import START

POINTS = 16


def write_layout_0006(store: str) -> None:
    """Make the tables of layout 0006 and push a few days of one metric, as 0.1.0 would."""
    engine = _engine(store)
    with engine.begin() as connection:
        migrate(connection, None, "0006")
        connection.execute(
            sa.text(
                "INSERT INTO point_series (id, asset, metric, form, length_s, phase_s, layout) "
                "VALUES (1, 'old', 'latency_ms', 'value', 86400, 0, '[]')"
            )
        )
        for number in range(POINTS):
            _insert(connection, "points", number, revision=2 if number == 3 else 1)
        _insert(connection, "point_revisions", 3, revision=1)
    engine.dispose()


def upgrade(store: str) -> None:
    """Bring a store to the newest layout, and do nothing else to it."""
    engine = _engine(store)
    with engine.begin() as connection:
        migrate(connection, "0006")
    engine.dispose()


def layout(store: str) -> str:
    engine = _engine(store)
    with engine.begin() as connection:
        found = connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar()
    engine.dispose()
    return str(found)


def _insert(connection: sa.Connection, table: str, number: int, *, revision: int) -> None:
    connection.execute(
        sa.text(
            f"INSERT INTO {table} (series_id, start_s, source, revision, items, a, b, vector, "
            "pushed_at) VALUES (1, :start, '', :revision, 7, :value, 0, :vector, :pushed_at)"
        ),
        {
            "start": int(START.timestamp()) + 86_400 * number,
            "revision": revision,
            "value": 10.0 + number % 3,
            "vector": b"",
            "pushed_at": int(START.timestamp()) + 86_400 * POINTS,
        },
    )


def _engine(store: str) -> sa.Engine:
    if store.startswith("postgresql"):
        return sa.create_engine(sa.make_url(store).set(drivername="postgresql+psycopg"))
    Path(store).mkdir(parents=True, exist_ok=True)
    return sa.create_engine(f"sqlite:///{store}/gatemark.sqlite3")
