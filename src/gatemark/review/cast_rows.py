"""Votes and labels in the chain: each is named by its digest in an event when it is given.

A row that somebody adds, edits or removes behind the back of Gatemark no longer fits its event,
also while the review or label set is open. Reviews and label sets of earlier builds have no such
events; what made them does not promise any (``CHAINED``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from gatemark.core.canonical import digest
from gatemark.core.errors import IntegrityError
from gatemark.ledger.event import Event

CHAINED: Final = "votes_are_chained"
"""The member of a ``review_created`` that promises an event for each vote."""


class GivenRow(NamedTuple):
    """One version of a vote (``number`` is the reviewer's ordinal) or label (that of the item)."""

    reviewer: str
    number: int
    version: int
    digest: str

    @property
    def words(self) -> str:
        """Name the row in messages."""
        return f"{self.reviewer}'s {self.number}, version {self.version}"


def given_vote(
    *,
    review: str,
    reviewer: str,
    ordinal: int,
    number: int,
    version: int,
    answered: str,
    reason: str,
    at: str,
) -> GivenRow:
    """Return a vote with the digest that its event has; ``number`` is that of the pair."""
    content = {
        "schema": "gatemark.review-vote/1",
        "review": review,
        "reviewer": reviewer,
        "ordinal": ordinal,
        "pair": number,
        "version": version,
        "answered": answered,
        "reason": reason,
        "at": at,
    }
    return GivenRow(reviewer, ordinal, version, digest(content))


def given_label(
    *, label_set: str, reviewer: str, number: int, version: int, label: str, note: str, at: str
) -> GivenRow:
    """Return a label with the digest that its event has."""
    content = {
        "schema": "gatemark.label-mark/1",
        "labels": label_set,
        "reviewer": reviewer,
        "item": number,
        "version": version,
        "label": label,
        "note": note,
        "at": at,
    }
    return GivenRow(reviewer, number, version, digest(content))


def given_payload(name: str, row: GivenRow) -> dict[str, object]:
    """Return the payload of the event of a vote or label."""
    return {"name": name, **row._asdict()}


def given_by(payload: Mapping[str, Any] | None) -> GivenRow:
    """Return what the event of a vote or label names."""
    said = payload or {}
    return GivenRow(*(said.get(name) for name in GivenRow._fields))  # type: ignore[arg-type]


def promised(
    events: Iterable[tuple[Event, Mapping[str, object] | None]],
) -> dict[GivenRow, int]:
    """Return what events say was given, with the number of each event."""
    return {given_by(payload): event.seq for event, payload in events}


def differences(
    rows: Iterable[GivenRow], told: Mapping[GivenRow, int]
) -> Iterator[tuple[int | None, str]]:
    """Yield rows that no event names and events whose row is gone, with the event's number."""
    missing = dict(told)
    edited = {row[:3]: seq for row, seq in told.items()}
    for row in rows:
        if missing.pop(row, None) is not None:
            continue
        if row[:3] in edited:
            missing = {one: seq for one, seq in missing.items() if one[:3] != row[:3]}
            yield edited[row[:3]], f"{row.words} was edited after it was given"
        else:
            yield None, f"{row.words} was given by nobody"
    for row, seq in missing.items():
        yield seq, f"{row.words} is missing"


def require_given(what: str, rows: Iterable[GivenRow], told: Mapping[GivenRow, int]) -> None:
    """Refuse rows that are not the ones that were given."""
    for _, message in differences(rows, told):
        raise IntegrityError(f"{what} does not verify: {message}; see 'gatemark ledger verify'")


def items_digest(items: Iterable[tuple[int, str, str]]) -> str:
    """Return the digest of the items of a label set: number, id and digest of each."""
    return digest([list(item) for item in items])
