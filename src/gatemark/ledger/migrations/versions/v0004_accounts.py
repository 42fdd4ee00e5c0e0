"""The page: people and how they sign in, tokens, answers to repeat, and runs that were started."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from gatemark.ledger.migrations.guards import whole_number

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Make the tables. Secrets are kept as hashes only."""
    _make_people()
    _make_answers()


def _make_people() -> None:
    op.create_table(
        "people",
        sa.Column("name", sa.String(64), primary_key=True),
        sa.Column("password", sa.Text),
        sa.Column("is_closed", sa.Boolean, nullable=False),
        whole_number("added_s"),
    )
    op.create_table(
        "join_links",
        sa.Column("hash", sa.String(64), primary_key=True),
        sa.Column("person", sa.String(64)),
        whole_number("expires_s"),
    )
    op.create_table(
        "sessions",
        sa.Column("hash", sa.String(64), primary_key=True),
        sa.Column("person", sa.String(64), nullable=False),
        whole_number("started_s"),
        whole_number("expires_s"),
    )
    op.create_index("sessions_by_person", "sessions", ["person"])
    op.create_table(
        "api_tokens",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("hash", sa.String(64), nullable=False),
        sa.Column("person", sa.String(64), nullable=False),
        sa.Column("label", sa.Text, nullable=False),
        sa.Column("scopes", sa.Text, nullable=False),
        whole_number("made_s"),
        whole_number("expires_s"),
        whole_number("revoked_s", nullable=True),
    )
    op.create_index("api_tokens_by_person", "api_tokens", ["person"])


def _make_answers() -> None:
    op.create_table(
        "kept_answers",
        sa.Column("person", sa.String(64), primary_key=True),
        sa.Column("key", sa.String(128), primary_key=True),
        sa.Column("request", sa.String(71), nullable=False),
        sa.Column("status", sa.Integer),
        sa.Column("body", sa.LargeBinary),
        whole_number("kept_s"),
    )
    op.create_table(
        "page_runs",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("pack", sa.Text, nullable=False),
        sa.Column("person", sa.String(64), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("choices", sa.Text, nullable=False),
        sa.Column("result_id", sa.String(71)),
        sa.Column("detail", sa.Text, nullable=False),
        whole_number("started_s"),
        whole_number("alive_s"),
        whole_number("finished_s", nullable=True),
    )
    op.create_index("page_runs_by_start", "page_runs", ["started_s"])
