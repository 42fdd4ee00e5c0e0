"""Read table rows without trusting them, and report how they differ from the ledger."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

import msgspec

from gatemark.core.errors import GatemarkError, IntegrityError

Finding = tuple[int | None, str]
"""A finding: the event number (None if no event is concerned) and the message."""

SKEW: Final = timedelta(seconds=10)
"""Maximum time between the time in a row and the time of its event."""


def make_finding(seq: int | None, table: str, message: str) -> Finding:
    """Return a finding about a table, as reports show it."""
    place = f"table {table}" if seq is None else f"event {seq}: table {table}"
    return seq, f"{place}: {message}"


@contextmanager
def readable_rows(table: str) -> Iterator[None]:
    """Raise IntegrityError if rows of a table contain values that no build writes."""
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
    """Whether the fields of a row have these types; SQLite stores any type in any column."""
    return all(isinstance(value, kind) for value, kind in zip(row, types, strict=True))


def stored_bytes(value: object) -> bytes:
    """Return the bytes of a stored document.

    SQLite stores any type in any column: a number becomes its text, which has no known digest.
    """
    return bytes(value) if isinstance(value, bytes | memoryview) else str(value).encode()


def plain_json(data: object) -> Any:
    """Return the JSON in a stored text, or None if it cannot be parsed."""
    if not isinstance(data, str | bytes):
        return None
    try:
        return msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeError):
        return None


def parse_stored_moment(text: object) -> datetime | None:
    """Return the time in a stored text, or None if it is not a time with a time zone."""
    if not isinstance(text, str):
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else None


def is_moment_of(text: object, expected: datetime) -> bool:
    """Whether a stored time matches that of its event, which may be a few seconds later."""
    moment = parse_stored_moment(text)
    return moment is not None and timedelta(0) <= expected - moment <= SKEW


class ListedRow(NamedTuple):
    """A stored result: its columns as they are in the database, and its document."""

    id: str
    title: object
    verdict: object
    finished_at: object
    document: bytes


class _Shown(msgspec.Struct, frozen=True):
    """The fields of a document that the columns repeat."""

    title: str
    verdict: str
    finished_at: datetime


def column_differences(row: ListedRow) -> Iterator[str]:
    """Yield the columns that differ from the document.

    A document that cannot be read is skipped here; checking its seal reports it.
    """
    try:
        sealed = msgspec.json.decode(row.document, type=_Shown)
    except (msgspec.MsgspecError, TypeError, UnicodeError):
        return
    pairs = (
        ("title", row.title, sealed.title),
        ("verdict", row.verdict, sealed.verdict),
        ("finished_at", parse_stored_moment(row.finished_at), sealed.finished_at),
    )
    for column, kept, expected in pairs:
        if kept != expected:
            shown = getattr(row, column)
            yield f"column {column} is {shown!r}, the sealed document has {str(expected)!r}"
