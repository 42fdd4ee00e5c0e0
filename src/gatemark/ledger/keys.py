"""Create and rotate the signing key of a ledger, and sign checkpoints."""

from __future__ import annotations

import getpass
import logging
import os
import secrets
import stat
import sys
from collections.abc import Callable
from datetime import timedelta
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
from gatemark.evidence.inputs import visible_form
from gatemark.ledger.context import LedgerContext
from gatemark.ledger.event import EventDraft, Head, check_row
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
from gatemark.ledger.signing.command_signer import CommandSigner
from gatemark.ledger.signing.keyring import KEY_KINDS, Keyring, key_note, rotation_note
from gatemark.ledger.signing.note import (
    Checkpoint,
    Signer,
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
PASSPHRASE_FILE: Final = "GATEMARK_KEY_PASSPHRASE_FILE"  # noqa: S105 - names a file
DAILY: Final = timedelta(days=1)


class KeyMade(msgspec.Struct, frozen=True):
    """A new key: its public key, its two files, and the number of the event that records it."""

    key: str
    private_file: str
    public_file: str
    seq: int


class NewKey(msgspec.Struct, frozen=True, kw_only=True):
    """How to create a key: in a file, encrypted or not, or held by a command.

    The private key is written to ``path``, the public key to ``path.pub``. With ``command``, the
    command holds the key, ``public`` is its public key, and no private key is written. With
    ``found``, the private key is in its file already.
    """

    path: Path
    passphrase: bytes | None = None
    command: str | None = None
    public: bytes = b""
    found: SigningKey | None = None

    @property
    def public_path(self) -> Path:
        """Path of the public key file."""
        return self.path.with_name(self.path.name + PUBLIC_SUFFIX)

    def write(self, name: str) -> Signer:
        """Create the key and its files."""
        if self.found is not None:
            if not self.public_path.exists():
                write_whole(self.public_path, [f"{self.found.verifier}\n".encode()])
            return self.found
        if self.public_path.exists():
            raise BadInputError(f"{self.public_path}: already exists and is never overwritten")
        key: Signer
        if self.command is not None:
            key = CommandSigner(VerifierKey(name, self.public), self.command)
        else:
            key = SigningKey(name, secrets.token_bytes(32))
            write_secret(self.path, key.private_text(self.passphrase).encode() + b"\n")
        write_whole(self.public_path, [f"{key.verifier}\n".encode()])
        return key

    def remove(self) -> None:
        """Remove the files of a key that was not recorded, if they were made for it."""
        if self.found is not None:
            return
        if self.command is None:
            self.path.unlink(missing_ok=True)
        self.public_path.unlink(missing_ok=True)


def make_key(
    context: LedgerContext, new: Path | NewKey, name: str | None = None, first: Path | None = None
) -> KeyMade:
    """Create the first key of a ledger; the private key is written to a new file.

    ``first`` is the path of the key that Gatemark created automatically; it is rotated to the new
    one.
    """
    events = context.events
    origin = ledger_origin(events) or _open_ledger(context)
    head = events.head()
    active = keyring_of(events).active
    if active is not None:
        if first is not None and first.exists() and read_private_key(str(first)).verifier == active:
            return rotate_key(context, str(first), new, name)
        raise RefusedError("the ledger already has a key; replace it with 'gatemark ledger rotate'")

    def payload_of(key: Signer) -> KeyAdded:
        return KeyAdded(str(key.verifier), key_note(origin, key))

    return _add_key(context, new, name or origin, KEY_ADDED, payload_of, head=head)


def rotate_key(
    context: LedgerContext, old_key: str | Signer, new: Path | NewKey, name: str | None = None
) -> KeyMade:
    """Replace the key with a new one; both sign the change."""
    head = context.existing_store().events.head()
    old = signing_key(context, old_key)
    origin = _require_origin(context.events)

    def payload_of(key: Signer) -> KeyRotated:
        return KeyRotated(str(old.verifier), str(key.verifier), rotation_note(origin, old, key))

    return _add_key(context, new, name or old.verifier.name, KEY_ROTATED, payload_of, head=head)


def replace_lost_key(
    context: LedgerContext, new: Path | NewKey, reason: str, name: str | None = None
) -> KeyMade:
    """Replace a lost key, which cannot sign the change; every later verification reports it."""
    if not visible_form(reason):
        raise UsageError("replacing a lost key needs a reason")
    head = context.existing_store().events.head()
    origin = _require_origin(context.events)
    old = keyring_of(context.events).active
    if old is None:
        raise UsageError("the ledger has no key; make one with 'gatemark ledger keygen'")

    def payload_of(key: Signer) -> KeyReplaced:
        return KeyReplaced(str(old), str(key.verifier), key_note(origin, key), reason)

    return _add_key(context, new, name or old.name, KEY_REPLACED, payload_of, head=head)


def _add_key(
    context: LedgerContext,
    new: Path | NewKey,
    name: str,
    kind: str,
    payload_of: Callable[[Signer], msgspec.Struct],
    *,
    head: Head,
) -> KeyMade:
    """Create a key and add its event; fail if the ledger changed since it was read."""
    files = NewKey(path=new) if isinstance(new, Path) else new
    key = files.write(name)
    try:
        draft = EventDraft(kind, context.clock(), context.actor, None, as_payload(payload_of(key)))
        (event,) = context.events.append((draft,), expected=head)
    except BaseException as error:
        # The event may be stored even so: the connection can fail right after the commit.
        _remove_unannounced(context, key, files, error)
        raise
    private = files.command if files.command is not None else str(files.path)
    return KeyMade(str(key.verifier), private, str(files.public_path), event.seq)


def _remove_unannounced(
    context: LedgerContext, key: Signer, files: NewKey, error: BaseException
) -> None:
    """Remove the files of a key that no event records; keep them if this cannot be determined."""
    try:
        announced = [tenure.key for tenure in keyring_of(context.events).tenures]
    except GatemarkError:
        raise BadInputError(
            f"{error}; the event of the new key may have been stored, so {files.path} was kept: "
            "remove it if 'gatemark ledger log' shows no event of it"
        ) from error
    if key.verifier not in announced:
        files.remove()


def _open_ledger(context: LedgerContext) -> str:
    """Add the first event to an empty ledger, and return the ledger's name."""
    draft = EventDraft(LEDGER_OPENED, context.clock(), context.actor, None, {})
    (event,) = context.events.append((draft,))
    return origin_of(event)


def ledger_origin(events: LedgerStore) -> str | None:
    """Return the name of a ledger, or None if it is empty."""
    first = events.rows_at([1]).get(1)
    return None if first is None else origin_of(check_row(first)[0])


def _require_origin(events: LedgerStore) -> str:
    origin = ledger_origin(events)
    if origin is None:
        raise UsageError("the ledger has no events yet")
    return origin


def keyring_of(events: LedgerStore) -> Keyring:
    """Return the keys of a ledger, read from its key events."""
    ring = Keyring()
    found = [one for kind in sorted(KEY_KINDS) for one in events.events(kind=kind)]
    origin = ledger_origin(events) or ""
    for event, payload in sorted(found, key=lambda one: one[0].seq):
        if payload is None:
            raise IntegrityError(f"event {event.seq}: its payload is missing")
        ring.learn(event, dict(payload), origin)
    return ring


def signing_key(context: LedgerContext, key: str | Signer) -> Signer:
    """Read a private key file; raise an error if it is not the ledger's current key."""
    active = keyring_of(context.events).active
    if active is None:
        raise UsageError("the ledger has no key; make one with 'gatemark ledger keygen'")
    found = read_private_key(key) if isinstance(key, str) else key
    if found.verifier != active:
        place = f"{key}: " if isinstance(key, str) else ""
        raise RefusedError(
            f"{place}{found.verifier.label} is not the key of this ledger, {active.label} is"
        )
    return found


def command_signer(context: LedgerContext, command: str) -> CommandSigner:
    """Return a signer that runs a command which holds the ledger's current key."""
    active = keyring_of(context.existing_store().events).active
    if active is None:
        raise UsageError(
            "the ledger has no key; announce that of the command with 'gatemark ledger keygen "
            "--signer-command'"
        )
    return CommandSigner(active, command)


def read_private_key(path: str) -> SigningKey:
    """Read a private key; refuse a file that other users can read."""
    try:
        mode = Path(path).stat().st_mode
        if not stat.S_ISREG(mode):
            raise BadInputError(f"{path}: not a regular file")
        if stat.S_IMODE(mode) & 0o077:
            raise BadInputError(
                f"{path}: other users can read this private key; run chmod 600 on it"
            )
        return read_signer(_read_text(path), path, read_passphrase)
    except OSError as error:
        raise BadInputError(f"{path}: {error.strerror or error}") from error


def read_passphrase(place: str, *, is_new: bool = False) -> bytes:
    """Return the passphrase of a key, from the file in an environment variable or the terminal."""
    named = os.environ.get(PASSPHRASE_FILE)
    if named:
        try:
            with Path(named).open("rb") as stream:
                found = stream.read(MAX_KEY_BYTES).rstrip(b"\r\n")
        except OSError as error:
            raise BadInputError(f"{PASSPHRASE_FILE}: {named}: {error.strerror}") from error
    elif sys.stdin is not None and sys.stdin.isatty():
        found = getpass.getpass(f"Passphrase of {place}: ").encode()
        if is_new and getpass.getpass("Repeat the passphrase: ").encode() != found:
            raise UsageError("the two passphrases differ")
    else:
        raise UsageError(
            f"{place}: needs its passphrase; name a file that has it with {PASSPHRASE_FILE}, or "
            "run this in a terminal"
        )
    if not found:
        raise UsageError("the passphrase is empty")
    return found


def read_public_key(text_or_path: str) -> VerifierKey:
    """Return a public key, given as text or as a path."""
    if Path(text_or_path).is_file():
        return read_verifier(_read_text(text_or_path), text_or_path)
    if "+" not in text_or_path:
        raise BadInputError(f"{text_or_path}: neither a file nor a key (expected name+id+base64)")
    return read_verifier(text_or_path)


def _read_text(path: str) -> str:
    with Path(path).open("rb") as stream:
        data = stream.read(MAX_KEY_BYTES + 1)
    if len(data) > MAX_KEY_BYTES:
        raise BadInputError(f"{path}: too large for a key file")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise BadInputError(f"{path}: not a key") from error


def sign_checkpoint(context: LedgerContext, with_key: str | Signer) -> str:
    """Sign, store and return a checkpoint of the ledger; users should keep a copy elsewhere.

    A ledger must never sign two different histories. So it must still contain the last checkpoint,
    and every event since then is verified before signing.
    """
    events = context.existing_store().events
    key = signing_key(context, with_key)
    earlier = None
    for covered, text in events.checkpoints()[-1:]:
        earlier, signed = read_checkpoint(text, f"checkpoint {covered}")
        if signed.signed_by(keyring_of(events).keys_for(earlier.size)) is None:
            raise IntegrityError(f"checkpoint {covered} is not signed by the ledger's key")
        if earlier.size > events.head().seq:
            raise IntegrityError(f"checkpoint {covered} covers more events than there are")
    size, root = root_from_events(events, earlier)
    note = Checkpoint(_require_origin(events), size, root).sign(key)
    events.add_checkpoint(size, note)
    logger.info("checkpoint signed", extra={"size": size, "origin": _require_origin(events)})
    return note


def keep_anchored(context: LedgerContext, path: Path, *, is_daily: bool = False) -> str | None:
    """Sign a checkpoint with the key at ``path``; create the key if the ledger has none.

    With ``is_daily``, sign only if an event is at least a day old and not yet covered. Return the
    error message if signing failed. A key that is missing here was moved away by its owner, who
    signs elsewhere; that is not an error.
    """
    try:
        events = context.existing_store().events
        active = keyring_of(events).active
        if active is None:
            # A process that was killed between the file and its event left the file.
            found = read_private_key(str(path)) if path.exists() else None
            make_key(context, NewKey(path=path, found=found))
            logger.info("signing key made", extra={"file": str(path)})
        elif not path.exists() or read_private_key(str(path)).verifier != active:
            return None
        if _has_waited(context, events, is_daily=is_daily):
            sign_checkpoint(context, str(path))
    except GatemarkError as error:
        logger.warning("no checkpoint was signed", extra={"reason": str(error)})
        return f"no checkpoint was signed: {error}"
    return None


def _has_waited(context: LedgerContext, events: LedgerStore, *, is_daily: bool) -> bool:
    """Whether some event is not covered by a checkpoint; with ``is_daily``, for at least a day."""
    covered = max((size for size, _ in events.checkpoints()), default=0)
    first = events.rows_at([covered + 1]).get(covered + 1)
    if first is None or not is_daily or covered == 0:
        return first is not None
    return context.clock() - check_row(first)[0].at >= DAILY
