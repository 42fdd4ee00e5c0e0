"""Files that events name directly: those of sealed attributions and accepted labels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeVar

import msgspec

from gatemark.core.canonical import is_digest, same_digest
from gatemark.core.errors import IntegrityError, InvalidValueError
from gatemark.core.stored import FORMAT, convert_stored
from gatemark.ledger.blobs import digest_of
from gatemark.ledger.event import Event
from gatemark.ledger.event_kinds import (
    ATTRIBUTION_SEALED,
    LABELS_ACCEPTED,
    check_payload_format,
)
from gatemark.ledger.port import Store

T = TypeVar("T")
MISSING: Final = "is missing from the store"


class _Sealed(msgspec.Struct):
    """The fields read from ``attribution_sealed``; events of the first build name no blobs."""

    blobs: dict[str, str] = {}


class _Accepted(msgspec.Struct):
    """The fields read from ``labels_accepted``."""

    labels: str
    dataset_digest: str


def told_blobs(store: Store) -> Iterator[tuple[int, str, str]]:
    """Yield the number of the event, what the file is, and its digest.

    Events in newer formats are skipped. Raises IntegrityError for an event that cannot be read.
    """
    for event, sealed in _read(store, ATTRIBUTION_SEALED, _Sealed):
        for what, digest in sealed.blobs.items():
            name = "document" if what == "attribution" else what
            yield event.seq, f"{name} of an attribution", digest
    for event, accepted in _read(store, LABELS_ACCEPTED, _Accepted):
        yield event.seq, f"accepted labels {accepted.labels}", accepted.dataset_digest


def _read(store: Store, kind: str, type_: type[T]) -> Iterator[tuple[Event, T]]:
    for event, payload in store.events.events(kind=kind):
        if payload is None:
            continue
        try:
            if check_payload_format(kind, payload.get(FORMAT)):
                yield event, convert_stored(payload, type_)
        except (InvalidValueError, msgspec.ValidationError) as error:
            raise IntegrityError(f"event {event.seq}: is not a {kind}: {error}") from error


def blob_trouble(store: Store, digest: str) -> str | None:
    """Return what is wrong with a stored file, or None."""
    if not is_digest(digest) or not store.blobs.has(digest):
        return MISSING
    is_sound = same_digest(digest_of(store.blobs.pieces(digest)), digest)
    return None if is_sound else "was changed"
