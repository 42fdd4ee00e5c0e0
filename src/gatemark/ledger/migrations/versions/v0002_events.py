"""The ledger: one chain of events, its payloads, its tree, checkpoints, and blobs for teams."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from gatemark.ledger.migrations.guards import (
    allow_erasure,
    forbid_changes,
    require_succession,
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


def _number(name: str, *, key: bool = False) -> sa.Column[int]:
    # Only a column of this very type is the number that SQLite keeps its rows by.
    kind = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    return sa.Column(name, kind, primary_key=key, autoincrement=False, nullable=False)


def _make_chain() -> None:
    op.create_table(
        "events",
        _number("seq", key=True),
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
        "payloads", _number("seq", key=True), sa.Column("data", sa.LargeBinary, nullable=False)
    )
    op.create_table("payload_erasures", _number("seq", key=True), _number("tombstone"))


def _make_tree() -> None:
    op.create_table(
        "nodes", _number("number", key=True), sa.Column("hash", sa.LargeBinary, nullable=False)
    )
    op.create_table(
        "checkpoints", _number("size", key=True), sa.Column("note", sa.Text, primary_key=True)
    )


def _make_blobs() -> None:
    op.create_table(
        "blobs", sa.Column("digest", sa.String(71), primary_key=True), _number("byte_count")
    )
    op.create_table(
        "blob_pieces",
        sa.Column("digest", sa.String(71), primary_key=True),
        _number("part", key=True),
        sa.Column("data", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "blob_erasures", sa.Column("digest", sa.String(71), primary_key=True), _number("tombstone")
    )
