"""Rows of tables held against the ledger: reading them without trust, telling what is wrong."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

import msgspec

from gatemark.core.errors import GatemarkError, IntegrityError

Finding = tuple[int | None, str]
"""The number of the event that something is wrong with, None when it is no event's, and what."""

SKEW: Final = timedelta(seconds=10)
"""How far the ledger may have moved an event on from the moment that its row has."""


def finding(seq: int | None, table: str, message: str) -> Finding:
    """A finding about a table, in the words of a report."""
    place = f"table {table}" if seq is None else f"event {seq}: table {table}"
    return seq, f"{place}: {message}"


@contextmanager
def readable_rows(table: str) -> Iterator[None]:
    """Raise IntegrityError where rows of a table hold what no build writes."""
    try:
        yield
    except GatemarkError:
        raise
    except (ValueError, TypeError, OverflowError, MemoryError, msgspec.MsgspecError) as error:
        raise IntegrityError(
            f"table {table}: has a row that cannot be read ({type(error).__name__}): it was edited "
            "or damaged; see 'gatemark ledger verify'"
        ) from error


def has_types(row: Sequence[object], *types: type) -> bool:
    """Whether the fields of a row are of these types; SQLite keeps anything in any column."""
    return all(isinstance(value, kind) for value, kind in zip(row, types, strict=True))


def plain_json(data: object) -> Any:
    """Return the JSON in a stored text; None when it cannot be read."""
    if not isinstance(data, str | bytes):
        return None
    try:
        return msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeError):
        return None


def moment_in(text: object) -> datetime | None:
    """The moment in a stored text; None when there is none, or nobody can say where."""
    if not isinstance(text, str):
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else None


def is_moment_of(text: object, told: datetime) -> bool:
    """Whether a stored moment is that of its event, which may be a few seconds later."""
    moment = moment_in(text)
    return moment is not None and timedelta(0) <= told - moment <= SKEW


class ListedRow(NamedTuple):
    """A stored result: its columns as they stand in the database, and its document."""

    id: str
    title: object
    verdict: object
    finished_at: object
    document: bytes


class _Shown(msgspec.Struct, frozen=True):
    """What the columns repeat of a document; a document has more."""

    title: str
    verdict: str
    finished_at: datetime


def column_differences(row: ListedRow) -> Iterator[str]:
    """What a column says otherwise than the document.

    A document that cannot be read is the seal's business, and says nothing about columns.
    """
    try:
        sealed = msgspec.json.decode(row.document, type=_Shown)
    except (msgspec.MsgspecError, TypeError, UnicodeError):
        return
    pairs = (
        ("title", row.title, sealed.title),
        ("verdict", row.verdict, sealed.verdict),
        ("finished_at", moment_in(row.finished_at), sealed.finished_at),
    )
    for column, kept, told in pairs:
        if kept != told:
            shown = getattr(row, column)
            yield f"column {column} is {shown!r}, the sealed document has {str(told)!r}"
