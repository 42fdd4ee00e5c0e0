"""Reviews and labels: what people said about answers, every version of it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from gatemark.ledger.migrations.guards import forbid_changes, whole_number

revision = "0005"
down_revision = "0004"

APPEND_ONLY = (
    "reviews",
    "review_pairs",
    "review_shows",
    "review_votes",
    "review_closings",
    "label_sets",
    "label_items",
    "label_marks",
    "label_acceptances",
)


def upgrade() -> None:
    """Make the tables; all of them can only be added to."""
    _make_reviews()
    _make_votes()
    _make_labels()
    for table in APPEND_ONLY:
        forbid_changes(op.get_bind(), table)


def _name(name: str, *, key: bool = True) -> sa.Column[str]:
    return sa.Column(name, sa.String(128), primary_key=key, nullable=False)


def _text(name: str) -> sa.Column[str]:
    return sa.Column(name, sa.Text, nullable=False)


def _bytes(name: str) -> sa.Column[bytes]:
    return sa.Column(name, sa.LargeBinary, nullable=False)


def _moment(name: str) -> sa.Column[str]:
    return sa.Column(name, sa.String(40), nullable=False)


def _make_reviews() -> None:
    op.create_table(
        "reviews",
        _name("name"),
        _bytes("plan"),
        sa.Column("commitment", sa.String(71), nullable=False),
        _bytes("sealed_key"),
        _bytes("facts"),
        _text("created_by"),
        _moment("created_at"),
    )
    op.create_table(
        "review_pairs",
        _name("review"),
        whole_number("number", key=True),
        sa.Column("is_gold", sa.Boolean, nullable=False),
        _bytes("document"),
    )
    op.create_table("review_closings", _name("review"), _text("by"), _moment("at"), _text("note"))


def _make_votes() -> None:
    op.create_table(
        "review_shows",
        _name("review"),
        _name("reviewer"),
        whole_number("ordinal", key=True),
        whole_number("number"),
        sa.Column("token", sa.String(32), nullable=False),
        _moment("at"),
        sa.UniqueConstraint("review", "token"),
    )
    op.create_table(
        "review_votes",
        _name("review"),
        _name("reviewer"),
        whole_number("ordinal", key=True),
        whole_number("version", key=True),
        sa.Column("answered", sa.String(16), nullable=False),
        _text("reason"),
        _moment("at"),
    )


def _make_labels() -> None:
    op.create_table(
        "label_sets", _name("name"), _bytes("document"), _text("created_by"), _moment("created_at")
    )
    op.create_table(
        "label_items",
        _name("label_set"),
        whole_number("number", key=True),
        _text("id"),
        _bytes("document"),
        sa.UniqueConstraint("label_set", "id"),
    )
    op.create_table(
        "label_marks",
        _name("label_set"),
        whole_number("number", key=True),
        _name("reviewer"),
        whole_number("version", key=True),
        _text("label"),
        _text("note"),
        _moment("at"),
    )
    op.create_table(
        "label_acceptances",
        _name("label_set"),
        whole_number("number", key=True),
        whole_number("version", key=True),
        _text("label"),
        _text("reviewers"),
        _text("by"),
        _moment("at"),
    )
