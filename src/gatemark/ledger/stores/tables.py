"""The tables of a store, the same in every database. Migrations create them."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa

METADATA: Final = sa.MetaData()

RESULTS: Final = sa.Table(
    "results",
    METADATA,
    sa.Column("seq", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("id", sa.String(71), nullable=False, unique=True),
    sa.Column("title", sa.Text, nullable=False),
    sa.Column("verdict", sa.String(16), nullable=False),
    sa.Column("finished_at", sa.String(40), nullable=False),
    sa.Column("document", sa.LargeBinary, nullable=False),
    sqlite_autoincrement=True,
)

EVENTS: Final = sa.Table(
    "events",
    METADATA,
    sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("prev", sa.LargeBinary, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("at", sa.Text, nullable=False),
    sa.Column("actor", sa.Text, nullable=False),
    sa.Column("subject", sa.Text),
    sa.Column("payload_digest", sa.LargeBinary, nullable=False),
    sa.Column("digest", sa.LargeBinary, nullable=False),
)

PAYLOADS: Final = sa.Table(
    "payloads",
    METADATA,
    sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("data", sa.LargeBinary, nullable=False),
)

NODES: Final = sa.Table(
    "nodes",
    METADATA,
    sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("hash", sa.LargeBinary, nullable=False),
)

CHECKPOINTS: Final = sa.Table(
    "checkpoints",
    METADATA,
    sa.Column("size", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("note", sa.Text, primary_key=True),
)

PAYLOAD_ERASURES: Final = sa.Table(
    "payload_erasures",
    METADATA,
    sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("tombstone", sa.BigInteger, nullable=False),
)

BLOBS: Final = sa.Table(
    "blobs",
    METADATA,
    sa.Column("digest", sa.String(71), primary_key=True),
    sa.Column("byte_count", sa.BigInteger, nullable=False),
)

BLOB_PIECES: Final = sa.Table(
    "blob_pieces",
    METADATA,
    sa.Column("digest", sa.String(71), primary_key=True),
    sa.Column("part", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("data", sa.LargeBinary, nullable=False),
)

BLOB_ERASURES: Final = sa.Table(
    "blob_erasures",
    METADATA,
    sa.Column("digest", sa.String(71), primary_key=True),
    sa.Column("tombstone", sa.BigInteger, nullable=False),
)
