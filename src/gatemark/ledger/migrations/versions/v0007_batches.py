"""Drift points say which event told of them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Add the number of the event to points and their earlier revisions; old rows have none."""
    kind = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    for table in ("points", "point_revisions"):
        op.add_column(table, sa.Column("batch", kind))
