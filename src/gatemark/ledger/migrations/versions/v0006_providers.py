"""Signing in by a provider: tries that are under way, and who is who."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from gatemark.ledger.migrations.guards import whole_number

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Make the tables. The secret of a try stays with the browser; here is its hash."""
    op.create_table(
        "sign_in_tries",
        sa.Column("hash", sa.String(64), primary_key=True),
        sa.Column("back_to", sa.Text, nullable=False),
        whole_number("expires_s"),
    )
    op.create_table(
        "identities",
        sa.Column("issuer", sa.String(512), primary_key=True),
        sa.Column("subject", sa.String(255), primary_key=True),
        sa.Column("person", sa.String(64), nullable=False),
        whole_number("added_s"),
    )
    op.create_index("identities_by_person", "identities", ["person"], unique=True)
