"""Watching: points and their earlier revisions, memories, episodes, alerts, scheduled runs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from gatemark.ledger.migrations.guards import forbid_changes, whole_number

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Make the tables; earlier revisions of points can only be added to."""
    _make_points()
    _make_episodes()
    _make_schedules()
    forbid_changes(op.get_bind(), "point_revisions")


def _content() -> list[sa.Column[object]]:
    return [
        whole_number("items"),
        sa.Column("a", sa.Double, nullable=False),
        sa.Column("b", sa.Double, nullable=False),
        sa.Column("vector", sa.LargeBinary, nullable=False),
        whole_number("pushed_at"),
    ]


def _make_points() -> None:
    op.create_table(
        "point_series",
        whole_number("id", key=True),
        sa.Column("asset", sa.Text, nullable=False),
        sa.Column("metric", sa.Text, nullable=False),
        sa.Column("form", sa.String(16), nullable=False),
        whole_number("length_s"),
        whole_number("phase_s"),
        sa.Column("layout", sa.Text, nullable=False),
        sa.UniqueConstraint("asset", "metric"),
    )
    op.create_table(
        "points",
        whole_number("series_id", key=True),
        whole_number("start_s", key=True),
        sa.Column("source", sa.Text, primary_key=True),
        whole_number("revision"),
        *_content(),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "point_revisions",
        whole_number("series_id", key=True),
        whole_number("start_s", key=True),
        sa.Column("source", sa.Text, primary_key=True),
        whole_number("revision", key=True),
        *_content(),
        sqlite_with_rowid=False,
    )


def _make_episodes() -> None:
    op.create_table(
        "series_memories",
        whole_number("series_id", key=True),
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
        whole_number("attempts"),
        sa.Column("created_at", sa.String(40), nullable=False),
        sa.Column("last_error", sa.Text, nullable=False),
        sa.Column("document", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "watch_ticks",
        sa.Column("name", sa.String(24), primary_key=True),
        whole_number("number"),
        sa.Column("at", sa.String(40), nullable=False),
    )


def _make_schedules() -> None:
    op.create_table(
        "schedules_seen",
        sa.Column("schedule", sa.Text, primary_key=True),
        whole_number("first_seen_s"),
    )
    op.create_table(
        "schedule_runs",
        sa.Column("schedule", sa.Text, primary_key=True),
        sa.Column("occasion", sa.Text, primary_key=True),
        whole_number("due_s"),
        sa.Column("state", sa.String(24), nullable=False),
        sa.Column("worker", sa.Text, nullable=False),
        whole_number("claimed_s"),
        whole_number("lease_until_s"),
        sa.Column("finished_s", sa.BigInteger),
        sa.Column("detail", sa.Text, nullable=False),
    )
    op.create_index("schedule_runs_by_due", "schedule_runs", ["schedule", "due_s"])
    op.create_table(
        "schedule_triggers",
        sa.Column("kind", sa.String(64), primary_key=True),
        sa.Column("id", sa.String(256), primary_key=True),
        sa.Column("asset", sa.Text, nullable=False),
        whole_number("at_s"),
    )
