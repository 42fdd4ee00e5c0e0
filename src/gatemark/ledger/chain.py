"""Add events to the chain, and check stored rows against their digests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

import msgspec

from gatemark.core.canonical import DIGEST_PREFIX, digest_bytes
from gatemark.core.errors import ConflictError, IntegrityError, InvalidValueError, RefusedError
from gatemark.core.formats import FORMAT
from gatemark.core.result import Result, occasion_of
from gatemark.ledger.event import (
    Event,
    EventDraft,
    Head,
    body_bytes,
    link,
    moment_text,
    payload_bytes,
    read_payload,
)
from gatemark.ledger.event_kinds import CLOCK_SET_BACK, RESULT_SEALED, payload_format
from gatemark.ledger.payloads import ResultSealed, as_payload
from gatemark.ledger.port import EventRow, EventStore

CLOCK_SKEW: Final = timedelta(seconds=10)
"""Maximum difference between the clocks of two writers; an event takes the later time."""


class NewEvent(NamedTuple):
    """An event about to be stored: itself, its canonical bytes, and those of its payload."""

    event: Event
    body: bytes
    payload: bytes


def extend(
    head: Head, last_at: datetime | None, drafts: Sequence[EventDraft], salt: Callable[[], str]
) -> list[NewEvent]:
    """Return the events that drafts become after ``head``; times never decrease."""
    made: list[NewEvent] = []
    for draft in drafts:
        placed = _in_time(draft, last_at)
        data = payload_bytes(_with_format(placed), salt())
        event, body = link(head, placed, digest_bytes(data))
        made.append(NewEvent(event, body, data))
        head, last_at = event.head, event.at
    return made


def _with_format(draft: EventDraft) -> Mapping[str, object]:
    """Return the payload with the name of its format, if this build declares the kind."""
    name = payload_format(draft.kind)
    return draft.payload if name is None else {**draft.payload, FORMAT: name}


def _in_time(draft: EventDraft, last_at: datetime | None) -> EventDraft:
    if last_at is None or draft.at >= last_at or draft.kind == CLOCK_SET_BACK:
        return draft
    if last_at - draft.at > CLOCK_SKEW:
        raise RefusedError(
            f"the clock went back: {draft.kind} is dated {draft.at.isoformat()}, "
            f"the event before it {last_at.isoformat()}; "
            "if a wrong clock was ahead, run 'gatemark ledger clock-back'"
        )
    return msgspec.structs.replace(draft, at=last_at)


def result_draft(result: Result, last_at: datetime | None) -> EventDraft:
    """Return the event of a sealed result, dated when the result was finished or later."""
    at = result.finished_at if last_at is None else max(result.finished_at, last_at)
    sealed = ResultSealed(
        result_id=result.id,
        stamp=result.stamp,
        verdict=result.verdict,
        candidate=result.candidate,
        baseline=result.baseline,
        pack=result.pack,
        policy_digest=result.policy_digest,
        occasion=occasion_of(result),
        result_format=result.schema,
    )
    subject = result.candidate.id.partition("/")[0] if result.candidate else None
    return EventDraft(RESULT_SEALED, at, result.actor, subject, as_payload(sealed))


def row_of(new: NewEvent) -> EventRow:
    """Return an event as a stored row."""
    event = new.event
    return EventRow(
        seq=event.seq,
        prev=raw_digest(event.prev),
        kind=event.kind,
        at=moment_text(event.at),
        actor=event.actor,
        subject=event.subject,
        payload_digest=raw_digest(event.payload_digest),
        digest=raw_digest(event.digest),
        payload=new.payload,
    )


def event_of(row: EventRow) -> Event:
    """Return the event in a stored row; its digest is not checked."""
    try:
        return Event(
            seq=row.seq,
            prev=DIGEST_PREFIX + row.prev.hex(),
            kind=row.kind,
            at=datetime.fromisoformat(row.at),
            actor=row.actor,
            subject=row.subject,
            payload_digest=DIGEST_PREFIX + row.payload_digest.hex(),
            digest=DIGEST_PREFIX + row.digest.hex(),
        )
    except (TypeError, ValueError, AttributeError) as error:
        raise IntegrityError(f"event {row.seq} cannot be read: {error}") from error


def row_bytes(row: EventRow) -> bytes:
    """Return the canonical bytes of a stored row; refuse a row that cannot be encoded."""
    if not isinstance(row.digest, bytes):
        raise IntegrityError(f"event {row.seq} cannot be read: its digest is not binary")
    try:
        if moment_text(datetime.fromisoformat(row.at)) != row.at:
            raise IntegrityError(f"event {row.seq} cannot be read: its time is {row.at!r}")
        return body_bytes(
            seq=row.seq,
            prev=DIGEST_PREFIX + row.prev.hex(),
            kind=row.kind,
            at=row.at,
            actor=row.actor,
            subject=row.subject,
            payload_digest=DIGEST_PREFIX + row.payload_digest.hex(),
        )
    except (TypeError, ValueError, AttributeError, msgspec.MsgspecError) as error:
        raise IntegrityError(f"event {row.seq} cannot be read: {error}") from error


def checked(row: EventRow) -> tuple[Event, dict[str, object] | None]:
    """Return the event and payload of a stored row; refuse them if a digest does not match."""
    found = digest_bytes(row_bytes(row))
    event = event_of(row)
    if found != event.digest:
        raise IntegrityError(f"event {row.seq} does not verify: its content gives {found}")
    return event, checked_payload(row)


def checked_payload(row: EventRow) -> dict[str, object] | None:
    """Return the payload of a stored row, checked; None if there is none."""
    stored: object = row.payload
    if stored is None:
        return None
    # SQLite stores any type in any column.
    data = stored if isinstance(stored, bytes) else b""
    if digest_bytes(data) != DIGEST_PREFIX + row.payload_digest.hex():
        raise IntegrityError(f"event {row.seq} does not verify: its payload was changed")
    try:
        return read_payload(data).content
    except InvalidValueError as error:
        raise IntegrityError(f"event {row.seq}: {error}") from error


def require_head(expected: Head | None, found: Head) -> None:
    """Refuse to add events to a ledger that no longer ends where the writer expects."""
    if expected is not None and expected != found:
        raise ConflictError(
            f"the ledger moved on: expected event {expected.seq} to be the last, "
            f"found {found.seq}; nothing was written"
        )


def raw_digest(digest: str) -> bytes:
    """Return the 32 bytes of a digest."""
    return bytes.fromhex(digest.removeprefix(DIGEST_PREFIX))


def event_moment(events: EventStore, now: datetime) -> datetime:
    """Return the current time, or that of the last event if the clock is behind it."""
    head = events.head()
    last = [event.at for event, _ in events.events(head.seq - 1)] if head.seq else []
    return max([now, *last])
