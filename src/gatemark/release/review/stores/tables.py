"""The tables of reviews and labels, the same in every database. A migration creates them."""

from __future__ import annotations

from typing import Final, NamedTuple, TypeVar

import sqlalchemy as sa

METADATA: Final = sa.MetaData()
R = TypeVar("R", bound=NamedTuple)


def _make_key(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger, primary_key=True, autoincrement=False)


REVIEWS: Final = sa.Table(
    "reviews",
    METADATA,
    sa.Column("name", sa.String(128), primary_key=True),
    sa.Column("plan", sa.LargeBinary, nullable=False),
    sa.Column("commitment", sa.String(71), nullable=False),
    sa.Column("sealed_key", sa.LargeBinary, nullable=False),
    sa.Column("facts", sa.LargeBinary, nullable=False),
    sa.Column("created_by", sa.Text, nullable=False),
    sa.Column("created_at", sa.String(40), nullable=False),
)

PAIRS: Final = sa.Table(
    "review_pairs",
    METADATA,
    sa.Column("review", sa.String(128), primary_key=True),
    _make_key("number"),
    sa.Column("is_gold", sa.Boolean, nullable=False),
    sa.Column("document", sa.LargeBinary, nullable=False),
)

SHOWS: Final = sa.Table(
    "review_shows",
    METADATA,
    sa.Column("review", sa.String(128), primary_key=True),
    sa.Column("reviewer", sa.String(128), primary_key=True),
    _make_key("ordinal"),
    sa.Column("number", sa.BigInteger, nullable=False),
    sa.Column("token", sa.String(32), nullable=False),
    sa.Column("at", sa.String(40), nullable=False),
    sa.UniqueConstraint("review", "token"),
)

VOTES: Final = sa.Table(
    "review_votes",
    METADATA,
    sa.Column("review", sa.String(128), primary_key=True),
    sa.Column("reviewer", sa.String(128), primary_key=True),
    _make_key("ordinal"),
    _make_key("version"),
    sa.Column("answered", sa.String(16), nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("at", sa.String(40), nullable=False),
)

CLOSINGS: Final = sa.Table(
    "review_closings",
    METADATA,
    sa.Column("review", sa.String(128), primary_key=True),
    sa.Column("by", sa.Text, nullable=False),
    sa.Column("at", sa.String(40), nullable=False),
    sa.Column("note", sa.Text, nullable=False),
)

LABEL_SETS: Final = sa.Table(
    "label_sets",
    METADATA,
    sa.Column("name", sa.String(128), primary_key=True),
    sa.Column("document", sa.LargeBinary, nullable=False),
    sa.Column("created_by", sa.Text, nullable=False),
    sa.Column("created_at", sa.String(40), nullable=False),
)

LABEL_ITEMS: Final = sa.Table(
    "label_items",
    METADATA,
    sa.Column("label_set", sa.String(128), primary_key=True),
    _make_key("number"),
    sa.Column("id", sa.Text, nullable=False),
    sa.Column("document", sa.LargeBinary, nullable=False),
    sa.UniqueConstraint("label_set", "id"),
)

LABEL_MARKS: Final = sa.Table(
    "label_marks",
    METADATA,
    sa.Column("label_set", sa.String(128), primary_key=True),
    _make_key("number"),
    sa.Column("reviewer", sa.String(128), primary_key=True),
    _make_key("version"),
    sa.Column("label", sa.Text, nullable=False),
    sa.Column("note", sa.Text, nullable=False),
    sa.Column("at", sa.String(40), nullable=False),
)

LABEL_ACCEPTANCES: Final = sa.Table(
    "label_acceptances",
    METADATA,
    sa.Column("label_set", sa.String(128), primary_key=True),
    _make_key("number"),
    _make_key("version"),
    sa.Column("label", sa.Text, nullable=False),
    sa.Column("reviewers", sa.Text, nullable=False),
    sa.Column("by", sa.Text, nullable=False),
    sa.Column("at", sa.String(40), nullable=False),
)


def rows_of(
    connection: sa.Connection,
    table: sa.Table,
    kind: type[R],
    condition: sa.ColumnElement[bool],
    *order: str,
) -> list[R]:
    """Return rows of a table as instances of a type whose fields are columns."""
    columns = (table.c[name] for name in kind._fields)
    query = sa.select(*columns).where(condition).order_by(*(table.c[name] for name in order))
    return [kind(*row) for row in connection.execute(query)]


def next_version(
    connection: sa.Connection, table: sa.Table, here: sa.ColumnElement[bool], **said: str
) -> tuple[int, bool]:
    """Return the version of what a person says, and whether it differs from what they said last."""
    columns = (table.c[name] for name in said)
    query = sa.select(table.c.version, *columns).where(here).order_by(table.c.version.desc())
    last = connection.execute(query.limit(1)).first()
    if last is None:
        return 1, True
    is_new = tuple(last[1:]) != tuple(said.values())
    return int(last.version) + is_new, is_new
