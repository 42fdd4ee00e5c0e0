"""Files that the ledger tells of beside results: sealed attributions and accepted labels."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from gatemark.core.canonical import DIGEST_PREFIX, is_digest, same_digest
from gatemark.core.event_kinds import ATTRIBUTION_SEALED, LABELS_ACCEPTED
from gatemark.ledger.port import Store


def told_blobs(store: Store) -> Iterator[tuple[int, str, str]]:
    """The number of the event, what the file is, and its digest."""
    for event, payload in store.events.events(kind=ATTRIBUTION_SEALED):
        for what, digest in (payload or {}).get("blobs", {}).items():
            name = "document" if what == "attribution" else what
            yield event.seq, f"{name} of an attribution", digest
    for event, payload in store.events.events(kind=LABELS_ACCEPTED):
        if payload is not None:
            yield event.seq, f"accepted labels {payload['labels']}", payload["dataset_digest"]


def blob_trouble(store: Store, digest: str) -> str | None:
    """What is wrong with a kept file, None when nothing is."""
    if not is_digest(digest) or not store.blobs.has(digest):
        return "is missing from the store"
    seen = hashlib.sha256()
    for piece in store.blobs.pieces(digest):
        seen.update(piece)
    is_sound = same_digest(DIGEST_PREFIX + seen.hexdigest(), digest)
    return None if is_sound else "was changed"
