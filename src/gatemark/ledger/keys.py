"""The journeys of keys: making one, following one by another, and signing checkpoints."""

from __future__ import annotations

import logging
import secrets
import stat
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import Final

import msgspec

from gatemark.core.atomic import write_secret, write_whole
from gatemark.core.errors import BadInputError, IntegrityError, RefusedError, UsageError
from gatemark.ledger.chain import checked
from gatemark.ledger.context import LedgerContext
from gatemark.ledger.event import EventDraft, Head
from gatemark.ledger.event_kinds import KEY_ADDED, KEY_REPLACED, KEY_ROTATED, LEDGER_OPENED
from gatemark.ledger.payloads import KeyAdded, KeyReplaced, KeyRotated, as_payload
from gatemark.ledger.port import LedgerStore
from gatemark.ledger.proof import root_from_events
from gatemark.ledger.signing.keyring import KEY_KINDS, Keyring, key_note, rotation_note
from gatemark.ledger.signing.note import (
    Checkpoint,
    SigningKey,
    VerifierKey,
    origin_of,
    read_checkpoint,
    read_signer,
    read_verifier,
)

logger = logging.getLogger(__name__)

PUBLIC_SUFFIX: Final = ".pub"
MAX_KEY_BYTES: Final = 4096


class KeyMade(msgspec.Struct, frozen=True):
    """A new key: its public half, where both halves lie, and the event that tells of it."""

    key: str
    private_file: str
    public_file: str
    seq: int


def make_key(context: LedgerContext, path: Path, name: str | None = None) -> KeyMade:
    """Make the first key of a ledger; the private half goes into a file of its own."""
    events = context.events
    origin = ledger_origin(events) or _open_ledger(context)
    head = events.head()
    if keyring_of(events).active is not None:
        raise RefusedError("the ledger has a key; 'gatemark ledger rotate' puts another in place")
    key = _write_new(path, name or origin)
    payload = as_payload(KeyAdded(str(key.verifier), key_note(origin, key)))
    return _told(context, key, path, EventDraft(KEY_ADDED, *_now(context), payload), head)


def rotate_key(
    context: LedgerContext, old_path: str, path: Path, name: str | None = None
) -> KeyMade:
    """Let a new key follow the old one, with the word of both."""
    head = context.existing_store().events.head()
    old = signing_key(context, old_path)
    origin = _origin(context.events)
    key = _write_new(path, name or old.verifier.name)
    note = rotation_note(origin, old, key)
    payload = as_payload(KeyRotated(str(old.verifier), str(key.verifier), note))
    return _told(context, key, path, EventDraft(KEY_ROTATED, *_now(context), payload), head)


def replace_lost_key(
    context: LedgerContext, path: Path, reason: str, name: str | None = None
) -> KeyMade:
    """Put a new key in place of one that cannot sign any more; shown by every check from now on."""
    if not reason.strip():
        raise UsageError("a key that is replaced without its word needs a reason")
    head = context.existing_store().events.head()
    origin = _origin(context.events)
    old = keyring_of(context.events).active
    if old is None:
        raise UsageError("the ledger has no key; 'gatemark ledger keygen' makes one")
    key = _write_new(path, name or old.name)
    payload = as_payload(KeyReplaced(str(old), str(key.verifier), key_note(origin, key), reason))
    return _told(context, key, path, EventDraft(KEY_REPLACED, *_now(context), payload), head)


def _now(context: LedgerContext) -> tuple[datetime, str, None]:
    return context.clock(), context.actor, None


def _told(
    context: LedgerContext, key: SigningKey, path: Path, draft: EventDraft, head: Head
) -> KeyMade:
    """Add the event of a key, if the ledger is still as it was looked at."""
    with ExitStack() as unless_told:
        # A key that no event tells of is worth nothing and would only confuse.
        for file in (path, _public(path)):
            unless_told.callback(file.unlink, missing_ok=True)
        (event,) = context.events.append((draft,), expected=head)
        unless_told.pop_all()
    return KeyMade(str(key.verifier), str(path), str(_public(path)), event.seq)


def _write_new(path: Path, name: str) -> SigningKey:
    key = SigningKey(name, secrets.token_bytes(32))
    if _public(path).exists():
        raise BadInputError(f"{_public(path)}: is there already and is never overwritten")
    write_secret(path, key.private_text().encode() + b"\n")
    write_whole(_public(path), [f"{key.verifier}\n".encode()])
    return key


def _public(path: Path) -> Path:
    return path.with_name(path.name + PUBLIC_SUFFIX)


def _open_ledger(context: LedgerContext) -> str:
    """The first event of a ledger that has none; its digest names the ledger."""
    draft = EventDraft(LEDGER_OPENED, context.clock(), context.actor, None, {})
    (event,) = context.events.append((draft,))
    return origin_of(event)


def ledger_origin(events: LedgerStore) -> str | None:
    """The name of a ledger; None when it has no events."""
    first = events.rows_at([1]).get(1)
    return None if first is None else origin_of(checked(first)[0])


def _origin(events: LedgerStore) -> str:
    origin = ledger_origin(events)
    if origin is None:
        raise UsageError("the ledger has no events yet")
    return origin


def keyring_of(events: LedgerStore, trusted: tuple[VerifierKey, ...] = ()) -> Keyring:
    """The keys of a ledger, from its key events alone."""
    ring = Keyring(trusted)
    found = [one for kind in sorted(KEY_KINDS) for one in events.events(kind=kind)]
    origin = ledger_origin(events) or ""
    for event, payload in sorted(found, key=lambda one: one[0].seq):
        if payload is None:
            raise IntegrityError(f"event {event.seq}: its payload is missing")
        ring.learn(event, dict(payload), origin)
    return ring


def signing_key(context: LedgerContext, path: str) -> SigningKey:
    """The private key in a file, if it is the one that signs for the ledger now."""
    key = read_private_key(path)
    active = keyring_of(context.events).active
    if active is None:
        raise UsageError("the ledger has no key; 'gatemark ledger keygen' makes one")
    if key.verifier != active:
        raise RefusedError(
            f"{path}: {key.verifier.label} does not sign for this ledger, {active.label} does"
        )
    return key


def read_private_key(path: str) -> SigningKey:
    """A private key from its file, which nobody else may be able to read."""
    try:
        mode = Path(path).stat().st_mode
        if stat.S_IMODE(mode) & 0o077:
            raise BadInputError(f"{path}: others can read this private key; chmod 600 it")
        return read_signer(_text_of(path), path)
    except OSError as error:
        raise BadInputError(f"{path}: {error.strerror or error}") from error


def read_public_key(text_or_path: str) -> VerifierKey:
    """A public key, given itself or by the file it lies in."""
    if Path(text_or_path).is_file():
        return read_verifier(_text_of(text_or_path), text_or_path)
    if "+" not in text_or_path:
        raise BadInputError(f"{text_or_path}: is neither a file nor a key (name+id+base64)")
    return read_verifier(text_or_path)


def _text_of(path: str) -> str:
    with Path(path).open("rb") as stream:
        data = stream.read(MAX_KEY_BYTES + 1)
    if len(data) > MAX_KEY_BYTES:
        raise BadInputError(f"{path}: is too large for a key")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise BadInputError(f"{path}: is no key") from error


def sign_checkpoint(context: LedgerContext, key_path: str) -> str:
    """Sign how far the ledger goes, and keep the note; users keep a copy elsewhere.

    A ledger must never sign two histories: the last checkpoint must be a beginning of this one,
    and everything since is looked at before it is signed.
    """
    events = context.existing_store().events
    key = signing_key(context, key_path)
    earlier = None
    for covered, text in events.checkpoints()[-1:]:
        earlier, signed = read_checkpoint(text, f"checkpoint {covered}")
        if signed.signed_by(keyring_of(events).keys_for(earlier.size)) is None:
            raise IntegrityError(f"checkpoint {covered} is not signed by the ledger's key")
        if earlier.size > events.head().seq:
            raise IntegrityError(f"checkpoint {covered} covers more events than there are")
    size, root = root_from_events(events, earlier)
    note = Checkpoint(_origin(events), size, root).signed(key)
    events.add_checkpoint(size, note)
    logger.info("checkpoint signed", extra={"size": size, "origin": _origin(events)})
    return note
