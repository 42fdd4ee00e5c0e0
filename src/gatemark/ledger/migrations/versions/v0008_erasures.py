"""Texts of results, pairs of reviews and items of labels can be erased.

The document of a row is emptied, in the act that adds a ``content_erased`` event about it. Empty
bytes and not NULL: SQLite can only lift NOT NULL by copying the whole table.
"""

from __future__ import annotations

from alembic import op

from gatemark.ledger.migrations.guards import allow_emptying

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Let an erasure empty a document; everything else stays refused."""
    connection = op.get_bind()
    allow_emptying(
        connection,
        "results",
        ("seq", "id", "title", "verdict", "finished_at"),
        {"what": "'result'", "name": "OLD.id"},
    )
    number = "OLD.number" if connection.dialect.name == "sqlite" else "OLD.number::text"
    allow_emptying(
        connection,
        "review_pairs",
        ("review", "number", "is_gold"),
        {"what": "'pair'", "name": "OLD.review", "number": number},
    )
    allow_emptying(
        connection,
        "label_items",
        ("label_set", "number", "id"),
        {"what": "'item'", "name": "OLD.label_set", "number": number},
    )
