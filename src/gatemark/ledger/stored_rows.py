"""Rows of tables held against the ledger: reading them without trust, telling what is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

Finding = tuple[int | None, str]
"""The number of the event that something is wrong with, None when it is no event's, and what."""

SKEW: Final = timedelta(seconds=10)
"""How far the ledger may have moved an event on from the moment that its row has."""


def finding(seq: int | None, table: str, message: str) -> Finding:
    """A finding about a table, in the words of a report."""
    place = f"table {table}" if seq is None else f"event {seq}: table {table}"
    return seq, f"{place}: {message}"


def has_types(row: Sequence[Any], *types: type) -> bool:
    """Whether the fields of a row are of these types; SQLite keeps anything in any column."""
    return all(isinstance(value, kind) for value, kind in zip(row, types, strict=True))


def plain_json(data: Any) -> Any:
    """What a stored text says; None when it cannot be read."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.MsgspecError, TypeError, UnicodeError):
        return None


def moment_in(text: Any) -> datetime | None:
    """The moment in a stored text; None when there is none, or nobody can say where."""
    try:
        moment = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
    return moment if moment.tzinfo is not None else None


def is_moment_of(text: Any, told: datetime) -> bool:
    """Whether a stored moment is that of its event, which may be a few seconds later."""
    moment = moment_in(text)
    return moment is not None and timedelta(0) <= told - moment <= SKEW
