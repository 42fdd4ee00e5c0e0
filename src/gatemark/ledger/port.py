"""The interface of a store, and code that every store shares."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final, NamedTuple, Protocol

import msgspec

from gatemark.core.canonical import DIGEST_PREFIX, canonical_bytes
from gatemark.core.errors import IntegrityError, InvalidValueError, UsageError
from gatemark.core.policy import Outcome
from gatemark.core.reason import ReasonKind
from gatemark.core.result import STORED_DOCUMENT, Result
from gatemark.core.stored import convert_stored
from gatemark.ledger.event import Event, EventDraft, EventRow, Head
from gatemark.ledger.event_kinds import CONTENT_ERASED, ContentErased, ErasableKind


class ResultLine(msgspec.Struct, frozen=True):
    """One sealed result as a row of a list."""

    seq: int
    id: str
    title: str
    verdict: Outcome
    finished_at: datetime


class ResultStore(Protocol):
    """Stores sealed results; append-only."""

    def append(self, result: Result) -> int:
        """Store a result, with a ``result_sealed`` event in the same transaction.

        A result that is already stored keeps its number; an event is added only if the occasion is
        new.
        """

    def get(self, reference: str) -> Result:
        """Return the result with that id, or with the only id that starts with it."""

    def lines(self, limit: int, before: int | None = None) -> Sequence[ResultLine]:
        """Return the newest results first; with ``before``, only those with a smaller number."""

    def documents(self) -> Iterator[tuple[str, bytes]]:
        """Yield id and stored bytes of every result in order, without parsing them."""


class EventStore(Protocol):
    """Stores the chain of events; append-only."""

    def head(self) -> Head:
        """Return the number and digest of the last event."""

    def append(
        self, drafts: Sequence[EventDraft], expected: Head | None = None
    ) -> tuple[Event, ...]:
        """Append events in one transaction.

        With ``expected``, raise ConflictError if the ledger no longer ends there. A clock that went
        back by more than a few seconds is refused.
        """

    def events(
        self, after: int = 0, kind: str | None = None, subject: str | None = None
    ) -> Iterator[tuple[Event, Mapping[str, object] | None]]:
        """Yield events in order with their payloads; an erased payload is None.

        Every event and payload is checked against its digest; a changed one raises IntegrityError.
        """

    def payload(self, digest: str) -> Mapping[str, object] | None:
        """Return the payload with that digest, None if erased; refuse an unknown digest."""


class LedgerStore(EventStore, Protocol):
    """What verification, proofs and erasure need beyond reading events."""

    def rows(self, after: int = 0) -> Iterator[EventRow]:
        """Yield every stored event after that number."""

    def rows_at(self, numbers: Sequence[int]) -> dict[int, EventRow]:
        """Return the stored events with these numbers."""

    def nodes(self) -> Iterator[tuple[int, bytes]]:
        """Yield every stored inner node of the tree with its number."""

    def nodes_at(self, numbers: Sequence[int]) -> dict[int, bytes]:
        """Return the stored inner nodes with these numbers."""

    def last_payload(self) -> int:
        """Return the highest number of an event with a stored payload; 0 if there is none."""

    def add_checkpoint(self, size: int, note: str) -> None:
        """Store a signed checkpoint; storing the same one again has no effect."""

    def checkpoints(self) -> Sequence[tuple[int, str]]:
        """Return size and text of all stored checkpoints, smallest first."""

    def missing_guards(self) -> Sequence[str]:
        """Return the names of protective database triggers that are missing."""

    def erase_payload(self, seq: int, tombstone: EventDraft) -> Event:
        """Add the tombstone and remove the payload in one act."""


class BlobStore(Protocol):
    """Bytes under their digest; adds, and removes only what has a tombstone."""

    def put(self, data: bytes) -> str:
        """Store bytes and return their digest; the same bytes are stored once."""

    def put_file(self, source: Path, expected: str) -> str:
        """Store a copy of a file; refuse it if it no longer has the digest it was judged by."""

    def get(self, name: str) -> bytes:
        """Return the bytes of a blob, checked against its digest."""

    def pieces(self, name: str) -> Iterator[bytes]:
        """Yield the bytes of a blob, not checked; refuse a missing blob."""

    def has(self, name: str) -> bool:
        """Whether the store has the blob."""

    def remove(self, name: str, tombstone: int) -> None:
        """Take a blob away; the event of that number says why."""


class Store(Protocol):
    """A place that holds a complete ledger."""

    @property
    def events(self) -> LedgerStore:
        """The chain of events."""

    @property
    def results(self) -> ResultStore:
        """The sealed results."""

    @property
    def blobs(self) -> BlobStore:
        """The files that results depend on."""

    def forget(self) -> None:
        """Let what was removed leave the files too, as far as the place can be made to."""

    def close(self) -> None:
        """Close files and connections."""


SHORTEST_PREFIX: Final = 8
_PREFIX: Final = re.compile(rf"[0-9a-f]{{{SHORTEST_PREFIX},64}}\Z")


def wanted_prefix(reference: str) -> str:
    """Return the prefix that the id must have; refuse text that cannot be an id."""
    wanted = reference.removeprefix(DIGEST_PREFIX)
    if not _PREFIX.match(wanted):
        raise UsageError(
            f"{reference!r} is not a result id "
            f"(expected sha256:… or {SHORTEST_PREFIX} or more hex digits)"
        )
    return DIGEST_PREFIX + wanted


def line_of(seq: int, result: Result) -> ResultLine:
    """Return a result as a row of a list."""
    return ResultLine(
        seq=seq,
        id=result.id,
        title=result.title,
        verdict=result.verdict,
        finished_at=result.finished_at,
    )


def event_moment(events: EventStore, now: datetime) -> datetime:
    """Return the current time, or that of the last event if the clock is behind it."""
    head = events.head()
    last = [event.at for event, _ in events.events(head.seq - 1)] if head.seq else []
    return max([now, *last])


class Erasure(NamedTuple):
    """The event that erased the texts of a document, and what it says."""

    event: Event
    said: ContentErased

    @property
    def words(self) -> str:
        """By whom, when and why, for people."""
        event, reason = self.event, self.said.reason
        return f"erased by {event.actor} on {event.at:%Y-%m-%d} (event {event.seq}): {reason}"

    def result(self) -> Result:
        """What is left of an erased result; its seal covered the texts too."""
        try:
            result = convert_stored(self.said.remains, Result)
        except (msgspec.ValidationError, InvalidValueError) as error:
            raise IntegrityError(
                f"event {self.event.seq}: what it says is left of result {self.said.name} cannot "
                f"be read: {error}"
            ) from error
        words = f"the texts of this result were {self.words}; its seal covered them"
        result = msgspec.structs.replace(result, caveats=(words,))
        result.__dict__[STORED_DOCUMENT] = canonical_bytes(self.said.remains)
        result.__dict__[_ERASURE] = self
        return result


_ERASURE: Final = "erasure"
GONE: Final = "(erased)"
"""Stands for a text that was erased."""
ERASED_REASON: Final = ReasonKind("erased", GONE)
ERASED: Final = ERASED_REASON()
"""Stands for a reason that was erased."""


def erasure_of(result: Result) -> Erasure | None:
    """The erasure that a result lost its texts to; None for a whole one."""
    found: Erasure | None = result.__dict__.get(_ERASURE)
    return found


def erasures(
    events: EventStore, what: ErasableKind, subject: str | None = None
) -> dict[tuple[str, int], Erasure]:
    """What was erased of one kind, by name and number; the first event counts."""
    found: dict[tuple[str, int], Erasure] = {}
    for event, payload in events.events(kind=CONTENT_ERASED, subject=subject):
        if payload is not None and payload.get("what") == what:
            erasure = read_erasure(event, payload)
            found.setdefault((erasure.said.name, erasure.said.number), erasure)
    return found


def read_erasure(event: Event, payload: Mapping[str, object]) -> Erasure:
    """The erasure in an event."""
    try:
        return Erasure(event, convert_stored(payload, ContentErased))
    except msgspec.ValidationError as error:
        raise IntegrityError(f"event {event.seq}: is not a {CONTENT_ERASED}: {error}") from error
