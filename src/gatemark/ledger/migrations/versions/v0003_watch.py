"""Watching: points and their earlier revisions, memories, episodes, alerts, scheduled runs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from gatemark.ledger.migrations.guards import forbid_changes

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Make the tables; earlier revisions of points can only be added to."""
    _make_points()
    _make_episodes()
    _make_schedules()
    forbid_changes(op.get_bind(), "point_revisions")


def _whole(name: str, *, key: bool = False) -> sa.Column[int]:
    kind = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    return sa.Column(name, kind, primary_key=key, autoincrement=False, nullable=False)


def _content() -> list[sa.Column[object]]:
    return [
        _whole("items"),
        sa.Column("a", sa.Double, nullable=False),
        sa.Column("b", sa.Double, nullable=False),
        sa.Column("vector", sa.LargeBinary, nullable=False),
        _whole("pushed_at"),
    ]


def _make_points() -> None:
    op.create_table(
        "point_series",
        _whole("id", key=True),
        sa.Column("asset", sa.Text, nullable=False),
        sa.Column("metric", sa.Text, nullable=False),
        sa.Column("form", sa.String(16), nullable=False),
        _whole("length_s"),
        _whole("phase_s"),
        sa.Column("layout", sa.Text, nullable=False),
        sa.UniqueConstraint("asset", "metric"),
    )
    op.create_table(
        "points",
        _whole("series_id", key=True),
        _whole("start_s", key=True),
        sa.Column("source", sa.Text, primary_key=True),
        _whole("revision"),
        *_content(),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "point_revisions",
        _whole("series_id", key=True),
        _whole("start_s", key=True),
        sa.Column("source", sa.Text, primary_key=True),
        _whole("revision", key=True),
        *_content(),
        sqlite_with_rowid=False,
    )


def _make_episodes() -> None:
    op.create_table(
        "series_memories",
        _whole("series_id", key=True),
        sa.Column("detector", sa.Text, primary_key=True),
        sa.Column("policy_digest", sa.String(71), nullable=False),
        sa.Column("level", sa.String(24), nullable=False),
        sa.Column("content", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "episodes",
        sa.Column("id", sa.String(71), primary_key=True),
        sa.Column("asset", sa.Text, nullable=False),
        sa.Column("level", sa.String(24), nullable=False),
        sa.Column("is_open", sa.Boolean, nullable=False),
        sa.Column("opened_at", sa.String(40), nullable=False),
        sa.Column("document", sa.LargeBinary, nullable=False),
    )
    op.create_index("episodes_by_asset", "episodes", ["asset"])
    op.create_table(
        "episode_acts",
        sa.Column("episode", sa.String(71), primary_key=True),
        sa.Column("act", sa.String(24), primary_key=True),
        sa.Column("level", sa.String(24), primary_key=True),
        sa.Column("at", sa.String(40), nullable=False),
        sa.Column("outcome", sa.Text, nullable=False),
        sa.Column("events", sa.Text, nullable=False),
    )
    op.create_table(
        "alerts",
        sa.Column("id", sa.String(71), primary_key=True),
        sa.Column("sink", sa.Text, primary_key=True),
        sa.Column("state", sa.String(16), nullable=False),
        _whole("attempts"),
        sa.Column("created_at", sa.String(40), nullable=False),
        sa.Column("last_error", sa.Text, nullable=False),
        sa.Column("document", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "watch_ticks",
        sa.Column("name", sa.String(24), primary_key=True),
        _whole("number"),
        sa.Column("at", sa.String(40), nullable=False),
    )


def _make_schedules() -> None:
    op.create_table(
        "schedules_seen",
        sa.Column("schedule", sa.Text, primary_key=True),
        _whole("first_seen_s"),
    )
    op.create_table(
        "schedule_runs",
        sa.Column("schedule", sa.Text, primary_key=True),
        sa.Column("occasion", sa.Text, primary_key=True),
        _whole("due_s"),
        sa.Column("state", sa.String(24), nullable=False),
        sa.Column("worker", sa.Text, nullable=False),
        _whole("claimed_s"),
        _whole("lease_until_s"),
        sa.Column("finished_s", sa.BigInteger),
        sa.Column("detail", sa.Text, nullable=False),
    )
    op.create_index("schedule_runs_by_due", "schedule_runs", ["schedule", "due_s"])
    op.create_table(
        "schedule_triggers",
        sa.Column("kind", sa.String(64), primary_key=True),
        sa.Column("id", sa.String(256), primary_key=True),
        sa.Column("asset", sa.Text, nullable=False),
        _whole("at_s"),
    )
