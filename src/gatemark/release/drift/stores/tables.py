"""The drift tables, the same in every database. A ledger migration creates them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import sqlalchemy as sa

METADATA: Final = sa.MetaData()


def _make_content_columns() -> Iterator[sa.Column[object]]:
    yield sa.Column("items", sa.BigInteger, nullable=False)
    yield sa.Column("a", sa.Double, nullable=False)
    yield sa.Column("b", sa.Double, nullable=False)
    yield sa.Column("vector", sa.LargeBinary, nullable=False)
    yield sa.Column("pushed_at", sa.BigInteger, nullable=False)
    # The number of the event that recorded the row; null in rows from before layout 0007.
    yield sa.Column("batch", sa.BigInteger, nullable=False)


SERIES: Final = sa.Table(
    "point_series",
    METADATA,
    sa.Column("id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("asset", sa.Text, nullable=False),
    sa.Column("metric", sa.Text, nullable=False),
    sa.Column("form", sa.String(16), nullable=False),
    sa.Column("length_s", sa.BigInteger, nullable=False),
    sa.Column("phase_s", sa.BigInteger, nullable=False),
    sa.Column("layout", sa.Text, nullable=False),
)

POINTS: Final = sa.Table(
    "points",
    METADATA,
    sa.Column("series_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("start_s", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("source", sa.Text, primary_key=True),
    sa.Column("revision", sa.BigInteger, nullable=False),
    *_make_content_columns(),
)

REVISIONS: Final = sa.Table(
    "point_revisions",
    METADATA,
    sa.Column("series_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("start_s", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("source", sa.Text, primary_key=True),
    sa.Column("revision", sa.BigInteger, primary_key=True, autoincrement=False),
    *_make_content_columns(),
)

LEVELS: Final = sa.Table(
    "drift_levels",
    METADATA,
    sa.Column("series_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("detector", sa.Text, primary_key=True),
    sa.Column("level", sa.String(24), nullable=False),
)

EPISODES: Final = sa.Table(
    "episodes",
    METADATA,
    sa.Column("id", sa.String(71), primary_key=True),
    sa.Column("asset", sa.Text, nullable=False),
    sa.Column("level", sa.String(24), nullable=False),
    sa.Column("is_open", sa.Boolean, nullable=False),
    sa.Column("opened_at", sa.String(40), nullable=False),
    sa.Column("document", sa.LargeBinary, nullable=False),
    # The windows of the frozen baseline as JSON; empty if the episode froze none.
    sa.Column("baseline", sa.LargeBinary, nullable=False),
)

ACTS: Final = sa.Table(
    "episode_acts",
    METADATA,
    sa.Column("episode", sa.String(71), primary_key=True),
    sa.Column("act", sa.String(24), primary_key=True),
    sa.Column("level", sa.String(24), primary_key=True),
    sa.Column("at", sa.String(40), nullable=False),
    sa.Column("outcome", sa.Text, nullable=False),
    sa.Column("events", sa.Text, nullable=False),
)

TICKS: Final = sa.Table(
    "drift_ticks",
    METADATA,
    sa.Column("name", sa.String(24), primary_key=True),
    sa.Column("number", sa.BigInteger, nullable=False),
    sa.Column("at", sa.String(40), nullable=False),
)
