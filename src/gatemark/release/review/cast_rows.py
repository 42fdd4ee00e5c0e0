"""Votes and labels in the ledger: each has an event with its digest.

A row that is added, edited or removed in the database no longer matches its event, even while the
review or label set is open.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from gatemark.core.canonical import digest
from gatemark.core.errors import IntegrityError
from gatemark.ledger.event import Event


class GivenRow(NamedTuple):
    """One version of a vote or label; ``number`` is the reviewer's ordinal or the item's number."""

    reviewer: str
    number: int
    version: int
    digest: str

    @property
    def words(self) -> str:
        """Return the name of the row for messages."""
        return f"{self.reviewer}'s {self.number}, version {self.version}"


def build_given_payload(name: str, row: GivenRow) -> dict[str, object]:
    """Return the payload of the event of a vote or label."""
    return {"name": name, **row._asdict()}


def read_given(payload: Mapping[str, Any] | None) -> GivenRow:
    """Return the vote or label that an event names."""
    said = payload or {}
    return GivenRow(*(said.get(name) for name in GivenRow._fields))  # type: ignore[arg-type]


def read_promised(
    events: Iterable[tuple[Event, Mapping[str, object] | None]],
) -> dict[GivenRow, int]:
    """Return the votes or labels that events name, with the number of each event."""
    return {read_given(payload): event.seq for event, payload in events}


def find_differences(
    rows: Iterable[GivenRow], promised_rows: Mapping[GivenRow, int]
) -> Iterator[tuple[int | None, str]]:
    """Yield the rows without an event and the events without a row."""
    missing = dict(promised_rows)
    edited = {row[:3]: seq for row, seq in promised_rows.items()}
    for row in rows:
        if missing.pop(row, None) is not None:
            continue
        if row[:3] in edited:
            missing = {one: seq for one, seq in missing.items() if one[:3] != row[:3]}
            yield edited[row[:3]], f"{row.words} was edited after it was given"
        else:
            yield None, f"{row.words} has no event in the ledger"
    for row, seq in missing.items():
        yield seq, f"{row.words} is missing"


def require_given(
    what: str, rows: Iterable[GivenRow], promised_rows: Mapping[GivenRow, int]
) -> None:
    """Raise IntegrityError if rows and events differ."""
    for _, message in find_differences(rows, promised_rows):
        raise IntegrityError(f"{what} does not verify: {message}; see 'gatemark ledger verify'")


def digest_items(items: Iterable[tuple[int, str, str]]) -> str:
    """Return the digest of a label set's items: number, id and digest of each."""
    return digest([list(item) for item in items])
