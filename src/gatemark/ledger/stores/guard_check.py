"""Whether the database still refuses what it was told to refuse."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa

_GUARDED: Final = (
    "results",
    "events",
    "nodes",
    "checkpoints",
    "payload_erasures",
    "blob_erasures",
    "payloads",
    "blobs",
    "blob_pieces",
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
_ACTS: Final = {"sqlite": ("update", "delete"), "postgresql": ("update", "delete", "truncate")}
_FOUND: Final = {
    "sqlite": "SELECT name FROM sqlite_master WHERE type = 'trigger'",
    # A trigger that was switched off is as good as none.
    "postgresql": "SELECT tgname FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid "
    "WHERE relnamespace = current_schema()::regnamespace AND tgenabled IN ('O', 'A')",
}


def missing_guards(connection: sa.Connection) -> list[str]:
    """The names of triggers that should be there and are not."""
    dialect = connection.dialect.name
    wanted = {f"{table}_no_{act}" for table in _GUARDED for act in _ACTS[dialect]}
    wanted.add("events_in_succession")
    return sorted(wanted - set(connection.execute(sa.text(_FOUND[dialect])).scalars()))
