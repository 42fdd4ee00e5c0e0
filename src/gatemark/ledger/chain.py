"""Adding to the chain, and telling whether a stored line is what it claims to be."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

import msgspec

from gatemark.core.canonical import DIGEST_PREFIX, digest_bytes
from gatemark.core.errors import IntegrityError, InvalidValueError, RefusedError
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
"""How far two writers' clocks may be apart. An event takes the later time of the two."""


class NewEvent(NamedTuple):
    """An event about to be stored: itself, its canonical bytes, and those of its payload."""

    event: Event
    body: bytes
    payload: bytes


def extend(
    head: Head, last_at: datetime | None, drafts: Sequence[EventDraft], salt: Callable[[], str]
) -> list[NewEvent]:
    """The events that drafts become after ``head``. Times never fall along the chain."""
    made: list[NewEvent] = []
    for draft in drafts:
        placed = _in_time(draft, last_at)
        data = payload_bytes(_with_format(placed), salt())
        event, body = link(head, placed, digest_bytes(data))
        made.append(NewEvent(event, body, data))
        head, last_at = event.head, event.at
    return made


def _with_format(draft: EventDraft) -> Mapping[str, Any]:
    """The payload under the name of its format, for kinds that are ours."""
    name = payload_format(draft.kind)
    return draft.payload if name is None else {**draft.payload, FORMAT: name}


def _in_time(draft: EventDraft, last_at: datetime | None) -> EventDraft:
    if last_at is None or draft.at >= last_at or draft.kind == CLOCK_SET_BACK:
        return draft
    if last_at - draft.at > CLOCK_SKEW:
        raise RefusedError(
            f"the clock went backwards: {draft.kind} is dated {draft.at.isoformat()}, "
            f"the event before it {last_at.isoformat()}"
        )
    return msgspec.structs.replace(draft, at=last_at)


def result_draft(result: Result, last_at: datetime | None) -> EventDraft:
    """The event that tells of a sealed result, dated when it was finished or later."""
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
    """How an event is stored."""
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
    """The event in a stored row, its own digest not checked."""
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
    """The canonical bytes of a stored row as it stands; refuses one that cannot have any."""
    if not isinstance(row.digest, bytes):
        raise IntegrityError(f"event {row.seq} cannot be read: its digest is no bytes")
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


def checked(row: EventRow) -> tuple[Event, dict[str, Any] | None]:
    """The event and payload of a stored row; refuses what its digests do not name."""
    found = digest_bytes(row_bytes(row))
    event = event_of(row)
    if found != event.digest:
        raise IntegrityError(f"event {row.seq} does not verify: its content gives {found}")
    return event, checked_payload(row)


def checked_payload(row: EventRow) -> dict[str, Any] | None:
    """The payload of a stored row, None when it is not there."""
    stored: Any = row.payload
    if stored is None:
        return None
    # A database may hold something else than bytes where bytes belong.
    data = stored if isinstance(stored, bytes) else b""
    if digest_bytes(data) != DIGEST_PREFIX + row.payload_digest.hex():
        raise IntegrityError(f"event {row.seq} does not verify: its payload was changed")
    try:
        return read_payload(data).content
    except InvalidValueError as error:
        raise IntegrityError(f"event {row.seq}: {error}") from error


def raw_digest(digest: str) -> bytes:
    """The 32 bytes behind a digest text."""
    return bytes.fromhex(digest.removeprefix(DIGEST_PREFIX))


def event_moment(events: EventStore, now: datetime) -> datetime:
    """Now, or the last event's moment where our clock is behind the ledger."""
    head = events.head()
    last = [event.at for event, _ in events.events(head.seq - 1)] if head.seq else []
    return max([now, *last])
