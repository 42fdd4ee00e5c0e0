"""The ledger: one chain of events, its payloads, its tree, checkpoints, and blobs for teams."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from gatemark.ledger.migrations.guards import (
    allow_erasure,
    forbid_changes,
    require_succession,
    whole_number,
)

revision = "0002"
down_revision = "0001"

APPEND_ONLY = ("events", "nodes", "checkpoints", "payload_erasures", "blob_erasures")


def upgrade() -> None:
    """Make the tables and their guards."""
    connection = op.get_bind()
    _make_chain()
    _make_tree()
    _make_blobs()
    for table in APPEND_ONLY:
        forbid_changes(connection, table)
    require_succession(connection)
    allow_erasure(connection, "payloads", "payload_erasures", "seq")
    for table in ("blobs", "blob_pieces"):
        allow_erasure(connection, table, "blob_erasures", "digest")


def _make_chain() -> None:
    op.create_table(
        "events",
        whole_number("seq", key=True),
        sa.Column("prev", sa.LargeBinary, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("at", sa.Text, nullable=False),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("subject", sa.Text),
        sa.Column("payload_digest", sa.LargeBinary, nullable=False),
        sa.Column("digest", sa.LargeBinary, nullable=False),
    )
    # SQLite puts the row's number behind every index entry by itself.
    order = [] if op.get_bind().dialect.name == "sqlite" else ["seq"]
    op.create_index("events_by_subject", "events", ["subject", *order])
    op.create_index("events_by_kind", "events", ["kind", *order])
    op.create_index("events_by_payload", "events", ["payload_digest"])
    op.create_table(
        "payloads", whole_number("seq", key=True), sa.Column("data", sa.LargeBinary, nullable=False)
    )
    op.create_table("payload_erasures", whole_number("seq", key=True), whole_number("tombstone"))


def _make_tree() -> None:
    op.create_table(
        "nodes", whole_number("number", key=True), sa.Column("hash", sa.LargeBinary, nullable=False)
    )
    op.create_table(
        "checkpoints", whole_number("size", key=True), sa.Column("note", sa.Text, primary_key=True)
    )


def _make_blobs() -> None:
    op.create_table(
        "blobs", sa.Column("digest", sa.String(71), primary_key=True), whole_number("byte_count")
    )
    op.create_table(
        "blob_pieces",
        sa.Column("digest", sa.String(71), primary_key=True),
        whole_number("part", key=True),
        sa.Column("data", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "blob_erasures",
        sa.Column("digest", sa.String(71), primary_key=True),
        whole_number("tombstone"),
    )
