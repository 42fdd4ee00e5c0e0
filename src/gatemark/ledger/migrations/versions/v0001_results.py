"""The first layout: sealed results in one table."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from gatemark.ledger.migrations.guards import forbid_changes

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Make the table of results."""
    op.create_table(
        "results",
        sa.Column("seq", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("id", sa.String(71), nullable=False, unique=True),
        sa.Column("title", sa.Text, nullable=False),
        sa.Column("verdict", sa.String(16), nullable=False),
        sa.Column("finished_at", sa.String(40), nullable=False),
        sa.Column("document", sa.LargeBinary, nullable=False),
        sqlite_autoincrement=True,
    )
    forbid_changes(op.get_bind(), "results")
