"""Drift points say which event told of them."""

from __future__ import annotations

from alembic import op

from gatemark.ledger.migrations.guards import whole_number

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Add the number of the event to points and their earlier revisions; old rows have none."""
    for table in ("points", "point_revisions"):
        op.add_column(table, whole_number("batch", nullable=True))
