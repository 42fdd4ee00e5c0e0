"""The tables of accounts, the same in every database. A migration of the ledger makes them."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa

METADATA: Final = sa.MetaData()

PEOPLE: Final = sa.Table(
    "people",
    METADATA,
    sa.Column("name", sa.String(64), primary_key=True),
    sa.Column("password", sa.Text),
    sa.Column("is_closed", sa.Boolean, nullable=False),
    sa.Column("added_s", sa.BigInteger, nullable=False),
)

JOIN_LINKS: Final = sa.Table(
    "join_links",
    METADATA,
    sa.Column("hash", sa.String(64), primary_key=True),
    sa.Column("person", sa.String(64)),
    sa.Column("expires_s", sa.BigInteger, nullable=False),
)

SESSIONS: Final = sa.Table(
    "sessions",
    METADATA,
    sa.Column("hash", sa.String(64), primary_key=True),
    sa.Column("person", sa.String(64), nullable=False),
    sa.Column("started_s", sa.BigInteger, nullable=False),
    sa.Column("expires_s", sa.BigInteger, nullable=False),
)

SIGN_IN_TRIES: Final = sa.Table(
    "sign_in_tries",
    METADATA,
    sa.Column("hash", sa.String(64), primary_key=True),
    sa.Column("back_to", sa.Text, nullable=False),
    sa.Column("expires_s", sa.BigInteger, nullable=False),
)

IDENTITIES: Final = sa.Table(
    "identities",
    METADATA,
    sa.Column("issuer", sa.String(512), primary_key=True),
    sa.Column("subject", sa.String(255), primary_key=True),
    sa.Column("person", sa.String(64), nullable=False),
    sa.Column("added_s", sa.BigInteger, nullable=False),
)

TOKENS: Final = sa.Table(
    "api_tokens",
    METADATA,
    sa.Column("id", sa.String(32), primary_key=True),
    sa.Column("hash", sa.String(64), nullable=False),
    sa.Column("person", sa.String(64), nullable=False),
    sa.Column("label", sa.Text, nullable=False),
    sa.Column("scopes", sa.Text, nullable=False),
    sa.Column("made_s", sa.BigInteger, nullable=False),
    sa.Column("expires_s", sa.BigInteger, nullable=False),
    sa.Column("revoked_s", sa.BigInteger),
)

ANSWERS: Final = sa.Table(
    "kept_answers",
    METADATA,
    sa.Column("person", sa.String(64), primary_key=True),
    sa.Column("key", sa.String(128), primary_key=True),
    sa.Column("request", sa.String(71), nullable=False),
    sa.Column("status", sa.Integer),
    sa.Column("body", sa.LargeBinary),
    sa.Column("kept_s", sa.BigInteger, nullable=False),
)

PAGE_RUNS: Final = sa.Table(
    "page_runs",
    METADATA,
    sa.Column("id", sa.String(32), primary_key=True),
    sa.Column("pack", sa.Text, nullable=False),
    sa.Column("person", sa.String(64), nullable=False),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("choices", sa.Text, nullable=False),
    sa.Column("result_id", sa.String(71)),
    sa.Column("detail", sa.Text, nullable=False),
    sa.Column("started_s", sa.BigInteger, nullable=False),
    sa.Column("alive_s", sa.BigInteger, nullable=False),
    sa.Column("finished_s", sa.BigInteger),
)
