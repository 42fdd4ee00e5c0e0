"""The events of the ledger, chained by digests: drafts, links, stored rows and their checks.

An event contains the digest of its payload, not the payload itself. A payload can therefore be
erased while the chain, the tree and every signature stay valid. Payloads are stored with a random
salt; without it, someone could confirm a guessed payload by its remaining digest.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

import msgspec

from gatemark.core.canonical import DIGEST_PREFIX, canonical_bytes, digest_bytes, whole_floats
from gatemark.core.errors import ConflictError, IntegrityError, InvalidValueError, RefusedError
from gatemark.core.result import Result, occasion_of
from gatemark.core.stored import FORMAT
from gatemark.core.text import is_one_line
from gatemark.ledger.event_kinds import (
    CLOCK_SET_BACK,
    RESULT_SEALED,
    ResultSealed,
    as_payload,
    payload_format,
)

SCHEMA: Final = "gatemark.event/1"
GENESIS: Final = DIGEST_PREFIX + "0" * 64
"""The digest that the first event names as its predecessor."""

MAX_PAYLOAD_BYTES: Final = 1024 * 1024
MAX_NAME_LENGTH: Final = 512
_KIND: Final = re.compile(r"[a-z][a-z0-9_]{0,63}\Z")
# Maps every digit to 0 and every other character to a blank, which finds 16 digits in a row fast.
_DIGITS: Final = bytes(48 if 48 <= code <= 57 else 32 for code in range(256))
_MANY_DIGITS: Final = b"0" * 16
_SALT: Final = re.compile(r"[0-9a-f]{32}\Z")


class Head(msgspec.Struct, frozen=True):
    """The end of a ledger: the number and digest of its last event."""

    seq: int
    digest: str


EMPTY: Final = Head(0, GENESIS)
"""The head of an empty ledger."""


class EventDraft(msgspec.Struct, frozen=True):
    """An event that is not in the ledger yet.

    ``subject`` is the asset it is about; events can be found by it. ``actor`` and ``subject`` stay
    in the chain forever, so put personal data into the payload.
    """

    kind: str
    at: datetime
    actor: str
    subject: str | None
    payload: Mapping[str, object]

    def __post_init__(self) -> None:
        if not _KIND.match(self.kind):
            raise InvalidValueError(f"invalid event kind {self.kind!r} (expected lower_case words)")
        if self.at.utcoffset() != UTC.utcoffset(None):
            raise InvalidValueError(f"{self.kind}: at must be UTC, got {self.at.isoformat()}")
        _check_name(self.kind, "actor", self.actor)
        if self.subject is not None:
            _check_name(self.kind, "subject", self.subject)


class Event(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One event of the ledger. ``prev`` is the digest of the event before."""

    seq: int
    prev: str
    kind: str
    at: datetime
    actor: str
    subject: str | None
    payload_digest: str
    digest: str

    @property
    def head(self) -> Head:
        """The head of a ledger that ends with this event."""
        return Head(self.seq, self.digest)


_encode: Final = msgspec.json.Encoder().encode


def encode_event(event: Event) -> bytes:
    """Return the canonical bytes (RFC 8785) of an event without its digest: a leaf of the tree."""
    return _encode_body(event, event.prev, moment_text(event.at), event.payload_digest)


def _encode_body(event: Event | EventRow, prev: str, at: str, payload_digest: str) -> bytes:
    """Return the canonical bytes of an event whose time and digests are given as text.

    This is format gatemark.event/1, field by field in the order of RFC 8785. It must never change:
    every digest in every ledger is computed from these bytes. For strings and one integer, the fast
    encoder writes exactly what RFC 8785 requires.
    """
    return (
        b'{"actor":%b,"at":%b,"kind":%b,"payload_digest":%b,"prev":%b,%b,"seq":%b,"subject":%b}'
        % (
            _encode(event.actor),
            _encode(at),
            _encode(event.kind),
            _encode(payload_digest),
            _encode(prev),
            b'"schema":"gatemark.event/1"',
            _encode(event.seq),
            _encode(event.subject),
        )
    )


def moment_text(moment: datetime) -> str:
    """Return a time as the ledger writes it: UTC with Z, and microseconds only if not zero."""
    return moment.astimezone(UTC).isoformat().removesuffix("+00:00") + "Z"


class Payload(NamedTuple):
    """The content of a payload and its salt."""

    content: dict[str, object]
    salt: str


class _PayloadForm(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    payload: dict[str, Any]
    salt: str


_decode_payload: Final = msgspec.json.Decoder(_PayloadForm).decode
_encode_sorted: Final = msgspec.json.Encoder(order="sorted").encode


def encode_payload(payload: Mapping[str, object], salt: str) -> bytes:
    """Return the bytes that a payload digest covers: canonical JSON of payload and salt."""
    if not _SALT.match(salt):
        raise InvalidValueError("a salt must be 32 hex digits")
    data = b'{"payload":' + canonical_bytes(dict(payload)) + b',"salt":"' + salt.encode() + b'"}'
    if len(data) > MAX_PAYLOAD_BYTES:
        raise InvalidValueError(
            f"a payload must be at most {MAX_PAYLOAD_BYTES} bytes, got {len(data)}"
        )
    return data


def read_payload(data: bytes) -> Payload:
    """Return the payload in stored bytes; raise an error if they are not canonical JSON."""
    try:
        form = _decode_payload(data)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise InvalidValueError(f"the payload cannot be read: {error}") from error
    # Canonical bytes encode back to themselves; JSON with repeated keys, which parsers read
    # differently, does not. The fast encoder differs from RFC 8785 for some numbers and rare keys.
    content = form.payload
    if _MANY_DIGITS in data.translate(_DIGITS):
        content = whole_floats(content)
    if _encode_sorted(form) != data:
        again = canonical_bytes({"payload": content, "salt": form.salt})
        if again != data:
            raise InvalidValueError("the payload is not canonical JSON")
    return Payload(content, form.salt)


def link(head: Head, draft: EventDraft, payload_digest: str) -> tuple[Event, bytes]:
    """Return the event for a draft that follows ``head``, and its canonical bytes."""
    unnamed = Event(
        seq=head.seq + 1,
        prev=head.digest,
        kind=draft.kind,
        at=draft.at,
        actor=draft.actor,
        subject=draft.subject,
        payload_digest=payload_digest,
        digest="",
    )
    body = encode_event(unnamed)
    return msgspec.structs.replace(unnamed, digest=digest_bytes(body)), body


def _check_name(kind: str, field: str, text: str) -> None:
    if not text.strip() or not is_one_line(text) or len(text) > MAX_NAME_LENGTH:
        raise InvalidValueError(
            f"{kind}: {field} must be one line of 1 to {MAX_NAME_LENGTH} characters, got {text!r}"
        )
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidValueError(f"{kind}: {field} {text!r} is not Unicode text") from error


class EventRow(NamedTuple):
    """An event as it is stored, not yet parsed."""

    seq: int
    prev: bytes
    kind: str
    at: str
    actor: str
    subject: str | None
    payload_digest: bytes
    digest: bytes
    payload: bytes | None


CLOCK_SKEW: Final = timedelta(seconds=10)
"""Maximum clock difference between two writers; within it, an event takes the later time."""


class NewEvent(NamedTuple):
    """An event to be stored, with its canonical bytes and those of its payload."""

    event: Event
    body: bytes
    payload: bytes


def extend(
    head: Head, last_at: datetime | None, drafts: Sequence[EventDraft], salt: Callable[[], str]
) -> list[NewEvent]:
    """Return the events for drafts that follow ``head``; times never decrease."""
    made: list[NewEvent] = []
    for draft in drafts:
        placed = _move_draft_forward(draft, last_at)
        data = encode_payload(_add_format(placed), salt())
        event, body = link(head, placed, digest_bytes(data))
        made.append(NewEvent(event, body, data))
        head, last_at = event.head, event.at
    return made


def _add_format(draft: EventDraft) -> Mapping[str, object]:
    """Return the payload with its format name added, if this build declares the kind."""
    name = payload_format(draft.kind)
    return draft.payload if name is None else {**draft.payload, FORMAT: name}


def _move_draft_forward(draft: EventDraft, last_at: datetime | None) -> EventDraft:
    if last_at is None or draft.at >= last_at or draft.kind == CLOCK_SET_BACK:
        return draft
    if last_at - draft.at > CLOCK_SKEW:
        raise RefusedError(
            f"the clock went back: {draft.kind} is dated {draft.at.isoformat()}, "
            f"the event before it {last_at.isoformat()}; "
            "if a wrong clock was ahead, run 'gatemark ledger resync-clock'"
        )
    return msgspec.structs.replace(draft, at=last_at)


def draft_result(result: Result, last_at: datetime | None) -> EventDraft:
    """Return the event draft of a sealed result, dated no earlier than the result's end."""
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


def make_row(new: NewEvent) -> EventRow:
    """Return an event as a stored row."""
    event = new.event
    return EventRow(
        seq=event.seq,
        prev=decode_digest(event.prev),
        kind=event.kind,
        at=moment_text(event.at),
        actor=event.actor,
        subject=event.subject,
        payload_digest=decode_digest(event.payload_digest),
        digest=decode_digest(event.digest),
        payload=new.payload,
    )


def event_of(row: EventRow) -> Event:
    """Return the event in a stored row without checking its digest."""
    try:
        return Event(
            seq=row.seq,
            prev=DIGEST_PREFIX + row.prev.hex(),
            kind=row.kind,
            at=datetime.fromisoformat(row.at).astimezone(UTC),
            actor=row.actor,
            subject=row.subject,
            payload_digest=DIGEST_PREFIX + row.payload_digest.hex(),
            digest=DIGEST_PREFIX + row.digest.hex(),
        )
    except (TypeError, ValueError, AttributeError, OverflowError) as error:
        raise IntegrityError(f"event {row.seq} cannot be read: {error}") from error


def encode_row(row: EventRow) -> bytes:
    """Return the canonical bytes of a stored row; raise IntegrityError if it cannot be encoded."""
    if not isinstance(row.digest, bytes):
        raise IntegrityError(f"event {row.seq} cannot be read: its digest is not binary")
    try:
        if moment_text(datetime.fromisoformat(row.at)) != row.at:
            raise IntegrityError(f"event {row.seq} cannot be read: its time is {row.at!r}")
        payload_digest = DIGEST_PREFIX + row.payload_digest.hex()
        return _encode_body(row, DIGEST_PREFIX + row.prev.hex(), row.at, payload_digest)
    except (TypeError, ValueError, AttributeError, OverflowError, msgspec.MsgspecError) as error:
        raise IntegrityError(f"event {row.seq} cannot be read: {error}") from error


def check_row(row: EventRow) -> tuple[Event, dict[str, object] | None]:
    """Return the event and payload of a stored row; raise IntegrityError on a wrong digest."""
    found = digest_bytes(encode_row(row))
    event = event_of(row)
    if found != event.digest:
        raise IntegrityError(f"event {row.seq} does not verify: its content gives {found}")
    return event, check_payload(row)


def check_payload(row: EventRow) -> dict[str, object] | None:
    """Return the payload of a stored row after checking its digest; None if there is none."""
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
    """Raise ConflictError if the ledger no longer ends where the writer expects."""
    if expected is not None and expected != found:
        raise ConflictError(
            f"the ledger moved on: expected event {expected.seq} to be the last, "
            f"found {found.seq}; nothing was written"
        )


def decode_digest(digest: str) -> bytes:
    """Return the 32 bytes of a digest."""
    return bytes.fromhex(digest.removeprefix(DIGEST_PREFIX))
