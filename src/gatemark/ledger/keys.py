"""Make and rotate the signing key of a ledger, and sign checkpoints."""

from __future__ import annotations

import logging
import secrets
import stat
from datetime import datetime
from pathlib import Path
from typing import Final

import msgspec

from gatemark.core.atomic import write_secret, write_whole
from gatemark.core.errors import (
    BadInputError,
    GatemarkError,
    IntegrityError,
    RefusedError,
    UsageError,
)
from gatemark.ledger.context import LedgerContext
from gatemark.ledger.event import EventDraft, Head, checked
from gatemark.ledger.event_kinds import (
    KEY_ADDED,
    KEY_REPLACED,
    KEY_ROTATED,
    LEDGER_OPENED,
    KeyAdded,
    KeyReplaced,
    KeyRotated,
    as_payload,
)
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
    """A new key: its public key, the two files, and the number of the event that records it."""

    key: str
    private_file: str
    public_file: str
    seq: int


def make_key(context: LedgerContext, path: Path, name: str | None = None) -> KeyMade:
    """Make the first key of a ledger; the private key goes into a new file."""
    events = context.events
    origin = ledger_origin(events) or _open_ledger(context)
    head = events.head()
    if keyring_of(events).active is not None:
        raise RefusedError("the ledger already has a key; replace it with 'gatemark ledger rotate'")
    key = _write_new(path, name or origin)
    payload = as_payload(KeyAdded(str(key.verifier), key_note(origin, key)))
    return _told(context, key, path, EventDraft(KEY_ADDED, *_now(context), payload), head)


def rotate_key(
    context: LedgerContext, old_path: str, path: Path, name: str | None = None
) -> KeyMade:
    """Replace the key by a new one; both sign the change."""
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
    """Replace a lost key, which cannot sign the change; every later check reports it."""
    if not reason.strip():
        raise UsageError("replacing a lost key needs a reason")
    head = context.existing_store().events.head()
    origin = _origin(context.events)
    old = keyring_of(context.events).active
    if old is None:
        raise UsageError("the ledger has no key; make one with 'gatemark ledger keygen'")
    key = _write_new(path, name or old.name)
    payload = as_payload(KeyReplaced(str(old), str(key.verifier), key_note(origin, key), reason))
    return _told(context, key, path, EventDraft(KEY_REPLACED, *_now(context), payload), head)


def _now(context: LedgerContext) -> tuple[datetime, str, None]:
    return context.clock(), context.actor, None


def _told(
    context: LedgerContext, key: SigningKey, path: Path, draft: EventDraft, head: Head
) -> KeyMade:
    """Add the event of a key, unless the ledger changed since it was read."""
    try:
        (event,) = context.events.append((draft,), expected=head)
    except BaseException as error:
        # The event may be stored all the same: the connection can go right after the commit.
        _remove_unannounced(context, key, path, error)
        raise
    return KeyMade(str(key.verifier), str(path), str(_public(path)), event.seq)


def _remove_unannounced(
    context: LedgerContext, key: SigningKey, path: Path, error: BaseException
) -> None:
    """Remove the files of a key that no event announces; keep them if nobody can say."""
    try:
        announced = [tenure.key for tenure in keyring_of(context.events).tenures]
    except GatemarkError:
        raise BadInputError(
            f"{error}; the event of the new key may have been stored, so {path} was kept: "
            "remove it if 'gatemark ledger log' shows no event of it"
        ) from error
    if key.verifier not in announced:
        path.unlink(missing_ok=True)
        _public(path).unlink(missing_ok=True)


def _write_new(path: Path, name: str) -> SigningKey:
    key = SigningKey(name, secrets.token_bytes(32))
    if _public(path).exists():
        raise BadInputError(f"{_public(path)}: already exists and is never overwritten")
    write_secret(path, key.private_text().encode() + b"\n")
    write_whole(_public(path), [f"{key.verifier}\n".encode()])
    return key


def _public(path: Path) -> Path:
    return path.with_name(path.name + PUBLIC_SUFFIX)


def _open_ledger(context: LedgerContext) -> str:
    """Add the first event of an empty ledger and return the name that it gives the ledger."""
    draft = EventDraft(LEDGER_OPENED, context.clock(), context.actor, None, {})
    (event,) = context.events.append((draft,))
    return origin_of(event)


def ledger_origin(events: LedgerStore) -> str | None:
    """Return the name of a ledger; None for an empty one."""
    first = events.rows_at([1]).get(1)
    return None if first is None else origin_of(checked(first)[0])


def _origin(events: LedgerStore) -> str:
    origin = ledger_origin(events)
    if origin is None:
        raise UsageError("the ledger has no events yet")
    return origin


def keyring_of(events: LedgerStore, trusted: tuple[VerifierKey, ...] = ()) -> Keyring:
    """Return the keys of a ledger, from its key events."""
    ring = Keyring(trusted)
    found = [one for kind in sorted(KEY_KINDS) for one in events.events(kind=kind)]
    origin = ledger_origin(events) or ""
    for event, payload in sorted(found, key=lambda one: one[0].seq):
        if payload is None:
            raise IntegrityError(f"event {event.seq}: its payload is missing")
        ring.learn(event, dict(payload), origin)
    return ring


def signing_key(context: LedgerContext, path: str) -> SigningKey:
    """Return the private key in a file; refuse one that is not the current key of the ledger."""
    key = read_private_key(path)
    active = keyring_of(context.events).active
    if active is None:
        raise UsageError("the ledger has no key; make one with 'gatemark ledger keygen'")
    if key.verifier != active:
        raise RefusedError(
            f"{path}: {key.verifier.label} is not the key of this ledger, {active.label} is"
        )
    return key


def read_private_key(path: str) -> SigningKey:
    """Read a private key; refuse a file that other users can read."""
    try:
        mode = Path(path).stat().st_mode
        if stat.S_IMODE(mode) & 0o077:
            raise BadInputError(
                f"{path}: other users can read this private key; run chmod 600 on it"
            )
        return read_signer(_text_of(path), path)
    except OSError as error:
        raise BadInputError(f"{path}: {error.strerror or error}") from error


def read_public_key(text_or_path: str) -> VerifierKey:
    """Return a public key, given as text or as a file."""
    if Path(text_or_path).is_file():
        return read_verifier(_text_of(text_or_path), text_or_path)
    if "+" not in text_or_path:
        raise BadInputError(f"{text_or_path}: neither a file nor a key (expected name+id+base64)")
    return read_verifier(text_or_path)


def _text_of(path: str) -> str:
    with Path(path).open("rb") as stream:
        data = stream.read(MAX_KEY_BYTES + 1)
    if len(data) > MAX_KEY_BYTES:
        raise BadInputError(f"{path}: too large for a key file")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise BadInputError(f"{path}: not a key") from error


def sign_checkpoint(context: LedgerContext, key_path: str) -> str:
    """Sign a checkpoint of the ledger, store it and return it; users keep a copy elsewhere.

    A ledger must never sign two histories: it must still contain the last checkpoint, and every
    event since then is checked before it is signed.
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
