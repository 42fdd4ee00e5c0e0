"""The commands of ``gatemark ledger prove``: proofs that can be checked without the ledger."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Annotated, Final

import msgspec

from gatemark.core.errors import BadInputError, IntegrityError, UsageError
from gatemark.ledger.blobs import read_start
from gatemark.ledger.context import LedgerContext
from gatemark.ledger.event import Event, check_row, encode_event
from gatemark.ledger.keys import ledger_origin, read_public_key
from gatemark.ledger.merkle import is_consistent
from gatemark.ledger.port import LedgerStore
from gatemark.ledger.proof import (
    MOST_HASHES,
    proof_text,
    prove_consistency,
    prove_inclusion,
    read_proof,
)
from gatemark.ledger.signing.note import Checkpoint, read_checkpoint

MAX_FILE_BYTES: Final = 1024 * 1024


class Proof(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An event, and the proof that it is in the ledger of a signed checkpoint."""

    event: Event
    proof: str


class GrowthProof(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Two checkpoints, and the proof that the later ledger starts with the earlier one."""

    earlier: str
    later: str
    hashes: Annotated[tuple[str, ...], msgspec.Meta(max_length=MOST_HASHES)]


def prove(context: LedgerContext, seq: int, checkpoint_path: str | None) -> Proof:
    """Prove an event by a checkpoint: the given one, or the smallest stored one that covers it."""
    events = context.existing_store().events
    event, _ = event_at(events, seq)
    note, checkpoint = _find_covering(events, seq, checkpoint_path)
    text = proof_text(seq - 1, prove_inclusion(events, seq, checkpoint.size), note)
    if not read_proof(text).holds_for(encode_event(event)):
        raise IntegrityError(f"event {seq} is not in the tree that the checkpoint signs")
    return Proof(event, text)


def prove_growth(
    context: LedgerContext, since_path: str, checkpoint_path: str | None
) -> GrowthProof:
    """Prove that a checkpoint (default: the newest stored one) continues an earlier one."""
    events = context.existing_store().events
    earlier_note = read_small_text(since_path)
    earlier = _read_own_checkpoint(events, earlier_note, since_path)
    if checkpoint_path is None:
        kept = [text for _, text in events.checkpoints()]
        if not kept:
            raise UsageError(
                "the ledger has no checkpoint; make one with 'gatemark ledger checkpoint'"
            )
        later_note = kept[-1]
    else:
        later_note = read_small_text(checkpoint_path)
    later = _read_own_checkpoint(events, later_note, checkpoint_path or "checkpoint")
    if not 0 < earlier.size <= later.size:
        raise UsageError(
            f"a checkpoint of {later.size} events cannot continue one of {earlier.size}"
        )
    path = prove_consistency(events, earlier.size, later.size)
    if not is_consistent((earlier.size, later.size), (earlier.root, later.root), path):
        raise IntegrityError(f"the ledger of {later.size} events does not continue {since_path}")
    hashes = tuple(base64.b64encode(one).decode() for one in path)
    return GrowthProof(earlier_note, later_note, hashes)


def check_proof(path: str, keys: Sequence[str]) -> str:
    """Verify a proof by trusted keys alone, and return a sentence on what it proves."""
    if not keys:
        raise UsageError("give the public key to check the proof with: --key")
    data = read_small_text(path).encode()
    try:
        if b'"event"' in data:
            return _check_inclusion(msgspec.json.decode(data, type=Proof), path, keys)
        return _check_growth(msgspec.json.decode(data, type=GrowthProof), path, keys)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadInputError(f"{path}: not a proof: {error}") from error


def _check_inclusion(proved: Proof, path: str, keys: Sequence[str]) -> str:
    proof = read_proof(proved.proof, path)
    if proof.note.signed_by([read_public_key(key) for key in keys]) is None:
        raise IntegrityError(f"{path}: the checkpoint is not signed by the given key")
    event = proved.event
    if proof.leaf != event.seq - 1 or not proof.holds_for(encode_event(event)):
        raise IntegrityError(f"{path}: event {event.seq} is not in the signed tree")
    return f"event {event.seq} ({event.kind}) is in the signed ledger"


def _check_growth(proved: GrowthProof, path: str, keys: Sequence[str]) -> str:
    trusted = [read_public_key(key) for key in keys]
    checkpoints = []
    for text in (proved.earlier, proved.later):
        checkpoint, note = read_checkpoint(text, path)
        if note.signed_by(trusted) is None:
            raise IntegrityError(f"{path}: a checkpoint is not signed by the given key")
        checkpoints.append(checkpoint)
    earlier, later = checkpoints
    try:
        hashes = [base64.b64decode(one, validate=True) for one in proved.hashes]
    except ValueError as error:
        raise BadInputError(f"{path}: has a hash that is not base64") from error
    sizes, roots = (earlier.size, later.size), (earlier.root, later.root)
    if earlier.origin != later.origin or not is_consistent(sizes, roots, hashes):
        raise IntegrityError(f"{path}: the later ledger does not continue the earlier one")
    return f"the ledger of {later.size} events began as the one of {earlier.size} events"


def event_at(events: LedgerStore, seq: int) -> tuple[Event, dict[str, object] | None]:
    """Return an event and its payload."""
    row = events.rows_at([seq]).get(seq)
    if row is None:
        raise UsageError(f"the ledger has no event {seq} (it ends at {events.head().seq})")
    return check_row(row)


def _find_covering(events: LedgerStore, seq: int, path: str | None) -> tuple[str, Checkpoint]:
    if path is not None:
        note = read_small_text(path)
    else:
        covering = [text for size, text in events.checkpoints() if size >= seq]
        if not covering:
            raise UsageError(
                f"no checkpoint covers event {seq}; make one with 'gatemark ledger checkpoint'"
            )
        note = covering[0]
    checkpoint = _read_own_checkpoint(events, note, path or "checkpoint")
    if seq > checkpoint.size:
        raise UsageError(f"the checkpoint covers {checkpoint.size} events, not event {seq}")
    return note, checkpoint


def _read_own_checkpoint(events: LedgerStore, note: str, place: str) -> Checkpoint:
    """Read a checkpoint; refuse one of another ledger, or of more events than there are."""
    checkpoint, _ = read_checkpoint(note, place)
    if checkpoint.origin != ledger_origin(events):
        raise IntegrityError(f"{place}: belongs to another ledger, {checkpoint.origin}")
    if checkpoint.size > events.head().seq:
        raise IntegrityError(f"{place}: covers {checkpoint.size} events, more than there are")
    return checkpoint


def read_small_text(path: str) -> str:
    """Return the text of a small file; refuse a large one."""
    data = read_start(path, MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        raise BadInputError(f"{path}: is larger than {MAX_FILE_BYTES} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise BadInputError(f"{path}: is not UTF-8") from error
