"""The journeys of ``gatemark ledger``: check, export, prove, erase, look."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from gatemark.core.canonical import is_digest
from gatemark.core.errors import BadInputError, IntegrityError, RefusedError, UsageError
from gatemark.core.event import Event, EventDraft, event_bytes
from gatemark.core.governance import (
    BLOB_ERASED,
    CLOCK_SET_BACK,
    NEVER_ERASED,
    PAYLOAD_ERASED,
    BlobErased,
    PayloadErased,
    as_payload,
)
from gatemark.core.verified import Verified
from gatemark.flow.house import House
from gatemark.flow.ledger_keys import (
    keyring_of,
    ledger_origin,
    read_public_key,
    sign_checkpoint,
    signing_key,
)
from gatemark.flow.rescore import rescore
from gatemark.ledger.checkpoint import read_checkpoint
from gatemark.ledger.export import Exported, write_export
from gatemark.ledger.export_reader import ExportStore
from gatemark.ledger.port import Store
from gatemark.ledger.proof import proof_text, prove_inclusion, read_proof
from gatemark.ledger.verify import Asked, LedgerCheck

MAX_FILE_BYTES: Final = 1024 * 1024


class VerifyRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What to check, and what to trust."""

    export: str | None = None
    keys: tuple[str, ...] = ()
    since: tuple[str, ...] = ()
    rescore: bool = False


def verify(
    house: House, request: VerifyRequest, on_progress: Callable[[int], None] | None = None
) -> Verified:
    """Check a store, or an export without any store."""
    store: Store
    store = house.existing_store() if request.export is None else ExportStore(Path(request.export))
    asked = Asked(
        trusted=tuple(read_public_key(key) for key in request.keys),
        since=tuple(_small_text(path) for path in request.since),
        has_tree=request.export is None,
    )
    check = LedgerCheck(store, asked)
    check.run(on_progress)
    if isinstance(store, ExportStore):
        for seq, message in store.statement_troubles(check.signing_keys):
            check.troubles.add(seq, "decision" if seq is not None else "result", message)
    if request.rescore:
        for result_id, outcome in rescore(store, check.is_erased):
            seq = check.seq_of_result(result_id)
            for message in outcome.differences:
                check.troubles.add(seq, "rescore", f"event {seq}: result {result_id}: {message}")
            check.unjudged.extend(f"result {result_id}: {why}" for why in outcome.unjudged)
    return check.report()


def export(house: House, folder: str, key_path: str | None) -> Exported:
    """Write the ledger into a folder that anyone can check; with a key, freshly signed."""
    store = house.existing_store()
    key = None
    if key_path is not None:
        key = signing_key(house, key_path)
        sign_checkpoint(house, key_path)
    erased = frozenset(
        str(payload["digest"])
        for _, payload in store.events.events(kind=BLOB_ERASED)
        if payload is not None
    )
    keys = tuple(str(tenure.key) for tenure in keyring_of(store.events).tenures)
    return write_export(store, Path(folder), key, keys=keys, erased_blobs=erased)


class Proof(msgspec.Struct, frozen=True):
    """An event with the proof that it is in the ledger that a checkpoint signs."""

    event: Event
    proof: str


def prove(house: House, seq: int, checkpoint_path: str | None) -> Proof:
    """Prove an event by a checkpoint: the given one, or the smallest kept one that covers it."""
    events = house.existing_store().events
    found = events.rows_at([seq])
    if seq not in found:
        raise UsageError(f"the ledger has no event {seq} (it ends at {events.head().seq})")
    if checkpoint_path is not None:
        note = _small_text(checkpoint_path)
    else:
        covering = [text for size, text in events.checkpoints() if size >= seq]
        if not covering:
            raise UsageError(f"no checkpoint covers event {seq}; 'gatemark ledger checkpoint'")
        note = covering[0]
    checkpoint, _ = read_checkpoint(note, checkpoint_path or "checkpoint")
    if checkpoint.origin != ledger_origin(events):
        raise IntegrityError(f"the checkpoint is of another ledger, {checkpoint.origin}")
    if not seq <= checkpoint.size <= events.head().seq:
        raise UsageError(f"the checkpoint covers {checkpoint.size} events, not event {seq}")
    event, _ = next(iter(events.events(after=seq - 1)))
    text = proof_text(seq - 1, prove_inclusion(events, seq, checkpoint.size), note)
    if not read_proof(text).holds_for(event_bytes(event)):
        raise IntegrityError(f"event {seq} is not in the tree that the checkpoint signs")
    return Proof(event, text)


def check_proof(path: str, keys: Sequence[str]) -> Event:
    """Check a proof without any ledger: by the keys that one trusts, and nothing else."""
    if not keys:
        raise UsageError("a proof is checked by a key: name it with --key")
    try:
        proved = msgspec.json.decode(_small_text(path).encode(), type=Proof)
    except msgspec.MsgspecError as error:
        raise BadInputError(f"{path}: is no proof of an event: {error}") from error
    proof = read_proof(proved.proof, path)
    if proof.note.signed_by([read_public_key(key) for key in keys]) is None:
        raise IntegrityError(f"{path}: the checkpoint is not signed by the given key")
    event = proved.event
    if proof.leaf != event.seq - 1 or not proof.holds_for(event_bytes(event)):
        raise IntegrityError(f"{path}: event {event.seq} is not in the signed tree")
    return event


def erase(house: House, what: str, reason: str) -> Event:
    """Take away a payload (by event number) or a blob (by digest); a tombstone stays for ever."""
    if not reason.strip():
        raise UsageError("an erasure needs a reason")
    store = house.existing_store()
    if is_digest(what):
        event = _erase_blob(house, store, what, reason)
    elif what.isdigit():
        event = _erase_payload(house, store, int(what), reason)
    else:
        raise UsageError(f"{what!r} is neither the number of an event nor the digest of a blob")
    store.forget()
    return event


def _erase_payload(house: House, store: Store, seq: int, reason: str) -> Event:
    if seq not in store.events.rows_at([seq]):
        raise UsageError(f"the ledger has no event {seq}")
    event, payload = next(iter(store.events.events(after=seq - 1)))
    if payload is None:
        return _tombstone(store, PAYLOAD_ERASED, "seq", seq)[0]
    if event.kind in NEVER_ERASED:
        raise RefusedError(f"event {seq} is a {event.kind}: decisions rest on it, it stays")
    said = PayloadErased(seq, event.payload_digest, reason)
    draft = EventDraft(PAYLOAD_ERASED, house.clock(), house.actor, event.subject, as_payload(said))
    return store.events.erase_payload(seq, draft)


def _erase_blob(house: House, store: Store, digest: str, reason: str) -> Event:
    told = _tombstone(store, BLOB_ERASED, "digest", digest)
    if not told:
        if not store.blobs.has(digest):
            raise UsageError(f"the store holds no blob {digest}")
        payload = as_payload(BlobErased(digest, reason))
        draft = EventDraft(BLOB_ERASED, house.clock(), house.actor, None, payload)
        told = list(store.events.append((draft,)))
    # Also after an erasure that was cut short between tombstone and removal.
    store.blobs.remove(digest, told[0].seq)
    return told[0]


def _tombstone(store: Store, kind: str, field: str, value: object) -> list[Event]:
    """The event that tells of an earlier erasure, if there is one."""
    return [
        event
        for event, payload in store.events.events(kind=kind)
        if payload is not None and payload[field] == value
    ]


def set_clock_back(house: House, reason: str) -> Event:
    """Let times start anew at the present, after a clock that was ahead; shown for ever."""
    if not reason.strip():
        raise UsageError("setting the clock back needs a reason")
    draft = EventDraft(CLOCK_SET_BACK, house.clock(), house.actor, None, {"reason": reason})
    (event,) = house.existing_store().events.append((draft,))
    return event


def log(
    house: House, *, after: int, kind: str | None, subject: str | None, limit: int
) -> Iterator[tuple[Event, Mapping[str, Any] | None]]:
    """Events in order, at most so many."""
    found = house.existing_store().events.events(after=after, kind=kind, subject=subject)
    for _, one in zip(range(limit), found, strict=False):
        yield one


def _small_text(path: str) -> str:
    try:
        with Path(path).open("rb") as stream:
            data = stream.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise BadInputError(f"{path}: {error.strerror or error}") from error
    if len(data) > MAX_FILE_BYTES:
        raise BadInputError(f"{path}: is larger than {MAX_FILE_BYTES} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise BadInputError(f"{path}: is not UTF-8") from error
