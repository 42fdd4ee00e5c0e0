"""The first layout: results, the ledger, drift, schedules, accounts, reviews and labels."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from gatemark.ledger.migrations.guards import (
    allow_emptying,
    allow_erasure,
    forbid_changes,
    require_succession,
    whole_number,
)

revision = "0001"
down_revision = None

APPEND_ONLY = (
    "results",
    "events",
    "nodes",
    "checkpoints",
    "payload_erasures",
    "blob_erasures",
    "point_revisions",
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
    """Make the tables and their guards."""
    _make_results()
    _make_chain()
    _make_tree()
    _make_blobs()
    _make_points()
    _make_episodes()
    _make_alerts()
    _make_schedules()
    _make_people()
    _make_identities()
    _make_answers()
    _make_reviews()
    _make_votes()
    _make_labels()
    _guard_tables(op.get_bind())


def _guard_tables(connection: sa.Connection) -> None:
    for table in APPEND_ONLY:
        forbid_changes(connection, table)
    require_succession(connection)
    allow_erasure(connection, "payloads", "payload_erasures", "seq")
    for table in ("blobs", "blob_pieces"):
        allow_erasure(connection, table, "blob_erasures", "digest")
    _allow_erased_texts(connection)


def _allow_erased_texts(connection: sa.Connection) -> None:
    """Let an erasure empty the document of a row, in the act that adds its event.

    Empty bytes and not NULL, so that a document is never missing by mistake.
    """
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


def _name_column(name: str, *, key: bool = True) -> sa.Column[str]:
    return sa.Column(name, sa.String(128), primary_key=key, nullable=False)


def _text_column(name: str) -> sa.Column[str]:
    return sa.Column(name, sa.Text, nullable=False)


def _bytes_column(name: str) -> sa.Column[bytes]:
    return sa.Column(name, sa.LargeBinary, nullable=False)


def _moment_column(name: str) -> sa.Column[str]:
    return sa.Column(name, sa.String(40), nullable=False)


def _make_results() -> None:
    op.create_table(
        "results",
        sa.Column("seq", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("id", sa.String(71), nullable=False, unique=True),
        sa.Column("title", sa.Text, nullable=False),
        sa.Column("verdict", sa.String(16), nullable=False),
        sa.Column("finished_at", sa.String(40), nullable=False),
        sa.Column("document", sa.LargeBinary, nullable=False),
        sqlite_autoincrement=True,
    )


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


def _point_columns() -> list[sa.Column[object]]:
    return [
        whole_number("items"),
        sa.Column("a", sa.Double, nullable=False),
        sa.Column("b", sa.Double, nullable=False),
        sa.Column("vector", sa.LargeBinary, nullable=False),
        whole_number("pushed_at"),
        whole_number("batch"),
    ]


def _make_points() -> None:
    op.create_table(
        "point_series",
        whole_number("id", key=True),
        sa.Column("asset", sa.Text, nullable=False),
        sa.Column("metric", sa.Text, nullable=False),
        sa.Column("form", sa.String(16), nullable=False),
        whole_number("length_s"),
        whole_number("phase_s"),
        sa.Column("layout", sa.Text, nullable=False),
        sa.UniqueConstraint("asset", "metric"),
    )
    op.create_table(
        "points",
        whole_number("series_id", key=True),
        whole_number("start_s", key=True),
        sa.Column("source", sa.Text, primary_key=True),
        whole_number("revision"),
        *_point_columns(),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "point_revisions",
        whole_number("series_id", key=True),
        whole_number("start_s", key=True),
        sa.Column("source", sa.Text, primary_key=True),
        whole_number("revision", key=True),
        *_point_columns(),
        sqlite_with_rowid=False,
    )


def _make_episodes() -> None:
    op.create_table(
        "drift_levels",
        whole_number("series_id", key=True),
        sa.Column("detector", sa.Text, primary_key=True),
        sa.Column("level", sa.String(24), nullable=False),
    )
    op.create_table(
        "episodes",
        sa.Column("id", sa.String(71), primary_key=True),
        sa.Column("asset", sa.Text, nullable=False),
        sa.Column("level", sa.String(24), nullable=False),
        sa.Column("is_open", sa.Boolean, nullable=False),
        sa.Column("opened_at", sa.String(40), nullable=False),
        sa.Column("document", sa.LargeBinary, nullable=False),
        sa.Column("baseline", sa.LargeBinary, nullable=False),
    )
    op.create_index("episodes_by_asset", "episodes", ["asset"])
    op.create_table(
        "episode_acts",
        sa.Column("episode", sa.String(71), primary_key=True),
        sa.Column("act", sa.String(24), primary_key=True),
        sa.Column("level", sa.String(24), primary_key=True),
        sa.Column("at", sa.String(40), nullable=False),
        sa.Column("outcome", sa.Text, nullable=False),
        sa.Column("events", sa.Text, nullable=False),
    )
    op.create_table(
        "drift_ticks",
        sa.Column("name", sa.String(24), primary_key=True),
        whole_number("number"),
        sa.Column("at", sa.String(40), nullable=False),
    )


def _make_alerts() -> None:
    op.create_table(
        "alerts",
        sa.Column("id", sa.String(71), primary_key=True),
        sa.Column("sink", sa.Text, primary_key=True),
        sa.Column("state", sa.String(16), nullable=False),
        whole_number("attempts"),
        sa.Column("created_at", sa.String(40), nullable=False),
        sa.Column("last_error", sa.Text, nullable=False),
        sa.Column("document", sa.LargeBinary, nullable=False),
    )


def _make_schedules() -> None:
    op.create_table(
        "schedules_seen",
        sa.Column("schedule", sa.Text, primary_key=True),
        whole_number("first_seen_s"),
    )
    op.create_table(
        "schedule_runs",
        sa.Column("schedule", sa.Text, primary_key=True),
        sa.Column("occasion", sa.Text, primary_key=True),
        whole_number("due_s"),
        sa.Column("state", sa.String(24), nullable=False),
        sa.Column("worker", sa.Text, nullable=False),
        whole_number("claimed_s"),
        whole_number("lease_until_s"),
        sa.Column("finished_s", sa.BigInteger),
        sa.Column("detail", sa.Text, nullable=False),
    )
    op.create_index("schedule_runs_by_due", "schedule_runs", ["schedule", "due_s"])
    op.create_table(
        "schedule_triggers",
        sa.Column("kind", sa.String(64), primary_key=True),
        sa.Column("id", sa.String(256), primary_key=True),
        sa.Column("asset", sa.Text, nullable=False),
        whole_number("at_s"),
    )


def _make_people() -> None:
    # Secrets are kept as hashes only.
    op.create_table(
        "people",
        sa.Column("name", sa.String(64), primary_key=True),
        sa.Column("password", sa.Text),
        sa.Column("is_closed", sa.Boolean, nullable=False),
        whole_number("added_s"),
    )
    op.create_table(
        "join_links",
        sa.Column("hash", sa.String(64), primary_key=True),
        sa.Column("person", sa.String(64)),
        whole_number("expires_s"),
    )
    op.create_table(
        "sessions",
        sa.Column("hash", sa.String(64), primary_key=True),
        sa.Column("person", sa.String(64), nullable=False),
        whole_number("started_s"),
        whole_number("expires_s"),
    )
    op.create_index("sessions_by_person", "sessions", ["person"])
    op.create_table(
        "api_tokens",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("hash", sa.String(64), nullable=False),
        sa.Column("person", sa.String(64), nullable=False),
        sa.Column("label", sa.Text, nullable=False),
        sa.Column("scopes", sa.Text, nullable=False),
        whole_number("made_s"),
        whole_number("expires_s"),
        whole_number("revoked_s", nullable=True),
    )
    op.create_index("api_tokens_by_person", "api_tokens", ["person"])


def _make_identities() -> None:
    # The secret of a try stays with the browser; here is its hash.
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


def _make_answers() -> None:
    op.create_table(
        "kept_answers",
        sa.Column("person", sa.String(64), primary_key=True),
        sa.Column("key", sa.String(128), primary_key=True),
        sa.Column("request", sa.String(71), nullable=False),
        sa.Column("status", sa.Integer),
        sa.Column("body", sa.LargeBinary),
        whole_number("kept_s"),
    )
    op.create_table(
        "page_runs",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("pack", sa.Text, nullable=False),
        sa.Column("person", sa.String(64), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("choices", sa.Text, nullable=False),
        sa.Column("result_id", sa.String(71)),
        sa.Column("detail", sa.Text, nullable=False),
        whole_number("started_s"),
        whole_number("alive_s"),
        whole_number("finished_s", nullable=True),
    )
    op.create_index("page_runs_by_start", "page_runs", ["started_s"])


def _make_reviews() -> None:
    op.create_table(
        "reviews",
        _name_column("name"),
        _bytes_column("plan"),
        sa.Column("commitment", sa.String(71), nullable=False),
        _bytes_column("sealed_key"),
        _bytes_column("facts"),
        _text_column("created_by"),
        _moment_column("created_at"),
    )
    op.create_table(
        "review_pairs",
        _name_column("review"),
        whole_number("number", key=True),
        sa.Column("is_gold", sa.Boolean, nullable=False),
        _bytes_column("document"),
    )
    op.create_table(
        "review_closings",
        _name_column("review"),
        _text_column("by"),
        _moment_column("at"),
        _text_column("note"),
    )


def _make_votes() -> None:
    op.create_table(
        "review_shows",
        _name_column("review"),
        _name_column("reviewer"),
        whole_number("ordinal", key=True),
        whole_number("number"),
        sa.Column("token", sa.String(32), nullable=False),
        _moment_column("at"),
        sa.UniqueConstraint("review", "token"),
    )
    op.create_table(
        "review_votes",
        _name_column("review"),
        _name_column("reviewer"),
        whole_number("ordinal", key=True),
        whole_number("version", key=True),
        sa.Column("answered", sa.String(16), nullable=False),
        _text_column("reason"),
        _moment_column("at"),
    )


def _make_labels() -> None:
    op.create_table(
        "label_sets",
        _name_column("name"),
        _bytes_column("document"),
        _text_column("created_by"),
        _moment_column("created_at"),
    )
    op.create_table(
        "label_items",
        _name_column("label_set"),
        whole_number("number", key=True),
        _text_column("id"),
        _bytes_column("document"),
        sa.UniqueConstraint("label_set", "id"),
    )
    op.create_table(
        "label_marks",
        _name_column("label_set"),
        whole_number("number", key=True),
        _name_column("reviewer"),
        whole_number("version", key=True),
        _text_column("label"),
        _text_column("note"),
        _moment_column("at"),
    )
    op.create_table(
        "label_acceptances",
        _name_column("label_set"),
        whole_number("number", key=True),
        whole_number("version", key=True),
        _text_column("label"),
        _text_column("reviewers"),
        _text_column("by"),
        _moment_column("at"),
    )
