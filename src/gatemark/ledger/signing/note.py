"""Signed notes (C2SP signed-note) with Ed25519.

A key has a name, and a four-byte id that is a hash of name and public key. A public key is written
``name+id+base64``, a private key ``PRIVATE+KEY+name+id+base64``, as in other tools. With a
passphrase, the file is ``ENCRYPTED+PRIVATE+KEY+name+id`` and the key as encrypted PKCS #8 in PEM.

A checkpoint (C2SP tlog-checkpoint) is a note with the size of a ledger and the root of its tree.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, Protocol

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from gatemark.core.canonical import DIGEST_PREFIX
from gatemark.core.errors import BadInputError, IntegrityError
from gatemark.ledger.event import Event

_ED25519: Final = b"\x01"
_PRIVATE: Final = "PRIVATE+KEY+"
_ENCRYPTED: Final = "ENCRYPTED+PRIVATE+KEY+"
_NAME: Final = re.compile(r"[^\s+]{1,256}\Z")
_CONTROL: Final = re.compile(r"[\x00-\x09\x0b-\x1f]")
_SIGNATURE: Final = re.compile(r"— (?P<name>[^\s+]+) (?P<data>[A-Za-z0-9+/]+={0,2})\Z")
MAX_NOTE_CHARACTERS: Final = 64 * 1024
MAX_SIGNATURES: Final = 64


class VerifierKey(NamedTuple):
    """A public key."""

    name: str
    public: bytes

    @property
    def id(self) -> bytes:
        """Four bytes that distinguish keys with the same name."""
        named = self.name.encode() + b"\n" + _ED25519 + self.public
        return hashlib.sha256(named).digest()[:4]

    @property
    def label(self) -> str:
        """Name and id, for messages."""
        return f"{self.name}+{self.id.hex()}"

    def __str__(self) -> str:
        return f"{self.label}+{base64.b64encode(_ED25519 + self.public).decode()}"

    def accepts(self, data: bytes, signature: bytes) -> bool:
        """Whether a signature over these bytes is valid."""
        try:
            Ed25519PublicKey.from_public_bytes(self.public).verify(signature, data)
        except InvalidSignature:
            return False
        return True


class Signer(Protocol):
    """Signs for a public key: a private key or a command."""

    verifier: VerifierKey

    def sign(self, data: bytes) -> bytes:
        """Sign bytes."""


class SigningKey:
    """A private key. Its bytes never appear in a repr or a log."""

    def __init__(self, name: str, seed: bytes) -> None:
        if not _NAME.match(name):
            raise BadInputError(f"invalid key name {name!r}: spaces and plus signs are not allowed")
        self._seed = seed
        self._key = Ed25519PrivateKey.from_private_bytes(seed)
        public = self._key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        self.verifier = VerifierKey(name, public)

    def __repr__(self) -> str:
        return f"<signing key {self.verifier.label}>"

    def sign(self, data: bytes) -> bytes:
        return self._key.sign(data)

    def private_text(self, passphrase: bytes | None = None) -> str:
        """Return the content of the private key file, encrypted if there is a passphrase."""
        if passphrase is not None:
            pem = self._key.private_bytes(
                Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(passphrase)
            )
            return f"{_ENCRYPTED}{self.verifier.label}\n{pem.decode()}".rstrip("\n")
        data = base64.b64encode(_ED25519 + self._seed).decode()
        return f"{_PRIVATE}{self.verifier.label}+{data}"


def read_verifier(text: str, place: str = "key") -> VerifierKey:
    """Read a public key."""
    name, identity, data = _split_key(text.strip(), place)
    key = VerifierKey(name, data)
    if key.id.hex() != identity:
        raise BadInputError(f"{place}: not a public key: its id does not match")
    return key


def read_signer(
    text: str, place: str = "key", passphrase: Callable[[str], bytes] | None = None
) -> SigningKey:
    """Read a private key; error messages never contain the text.

    ``passphrase`` is called if the key is encrypted.
    """
    text = text.strip()
    if text.startswith(_ENCRYPTED) and passphrase is not None:
        return _decrypt(text, place, passphrase)
    if not text.startswith(_PRIVATE):
        raise BadInputError(f"{place}: not a private key")
    name, identity, data = _split_key(text.removeprefix(_PRIVATE), place)
    key = SigningKey(name, data)
    if key.verifier.id.hex() != identity:
        raise BadInputError(f"{place}: not a private key: its id does not match")
    return key


def _decrypt(text: str, place: str, passphrase: Callable[[str], bytes]) -> SigningKey:
    label, _, pem = text.removeprefix(_ENCRYPTED).partition("\n")
    try:
        key = load_pem_private_key(pem.encode(), passphrase(place))
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise BadInputError(f"{place}: wrong passphrase, or not an encrypted key") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise BadInputError(f"{place}: not an Ed25519 key")
    seed = key.private_bytes(Encoding.Raw, PrivateFormat.Raw, NoEncryption())
    found = SigningKey(label.partition("+")[0], seed)
    if found.verifier.label != label:
        raise BadInputError(f"{place}: not a private key: its id does not match")
    return found


def _split_key(text: str, place: str) -> tuple[str, str, bytes]:
    name, _, rest = text.partition("+")
    identity, _, encoded = rest.partition("+")
    try:
        data = base64.b64decode(encoded, validate=True)
    except ValueError as error:
        raise BadInputError(f"{place}: not a key (expected name+id+base64)") from error
    if not _NAME.match(name) or len(data) != 33 or data[:1] != _ED25519:
        raise BadInputError(f"{place}: not an Ed25519 key (expected name+id+base64)")
    return name, identity, data[1:]


class NoteSignature(NamedTuple):
    """A signature, and the key that it claims to be from."""

    name: str
    key_id: bytes
    signature: bytes


class Note(NamedTuple):
    """A text and its signatures, not verified yet."""

    text: str
    signatures: tuple[NoteSignature, ...]

    def signed_by(self, keys: Iterable[VerifierKey]) -> VerifierKey | None:
        """Return the first of these keys that signed the text.

        Signatures of other keys are ignored; an invalid signature of a known key is refused.
        """
        found = None
        data = self.text.encode()
        for key in keys:
            for name, key_id, signature in self.signatures:
                if (name, key_id) != (key.name, key.id):
                    continue
                if not key.accepts(data, signature):
                    raise IntegrityError(f"the signature of {key.label} is invalid")
                found = found or key
        return found


def sign_note(text: str, *keys: Signer) -> str:
    """Return a text as a note, signed by each key."""
    lines = []
    for key in keys:
        data = base64.b64encode(key.verifier.id + key.sign(text.encode())).decode()
        lines.append(f"— {key.verifier.name} {data}\n")
    return f"{text}\n{''.join(lines)}"


def read_note(note: str, place: str = "note") -> Note:
    """Read a note; its signatures are not checked."""
    if len(note) > MAX_NOTE_CHARACTERS:
        raise BadInputError(f"{place}: is longer than {MAX_NOTE_CHARACTERS} characters")
    head, gap, tail = note.rpartition("\n\n")
    if not gap or not head or not tail.endswith("\n") or _CONTROL.search(note):
        raise BadInputError(f"{place}: not a signed note")
    lines = tail.removesuffix("\n").split("\n")
    if len(lines) > MAX_SIGNATURES:
        raise BadInputError(f"{place}: has more than {MAX_SIGNATURES} signatures")
    signatures = []
    for line in lines:
        match = _SIGNATURE.match(line)
        try:
            data = base64.b64decode(match["data"], validate=True) if match else b""
        except ValueError:
            data = b""
        if match is None or len(data) < 5:
            raise BadInputError(f"{place}: has an invalid signature line")
        signatures.append(NoteSignature(match["name"], data[:4], data[4:]))
    return Note(head + "\n", tuple(signatures))


ORIGIN_PREFIX: Final = "gatemark/ledger/"
_SIZE: Final = re.compile(r"(?:0|[1-9][0-9]{0,15})\Z")


class Checkpoint(NamedTuple):
    """Name, size and root of a ledger."""

    origin: str
    size: int
    root: bytes

    @property
    def text(self) -> str:
        """The text that is signed."""
        return f"{self.origin}\n{self.size}\n{base64.b64encode(self.root).decode()}\n"

    def sign(self, key: Signer) -> str:
        """Return the checkpoint as a signed note."""
        return sign_note(self.text, key)


def origin_of(first: Event) -> str:
    """Return the name of a ledger; unique, since the payload of its first event is salted."""
    return ORIGIN_PREFIX + first.digest.removeprefix(DIGEST_PREFIX)[:32]


def read_checkpoint(text: str, place: str = "checkpoint") -> tuple[Checkpoint, Note]:
    """Read a checkpoint and its note; signatures are not checked."""
    note = read_note(text, place)
    lines = note.text.split("\n")
    if len(lines) < 4 or not lines[0] or "" in lines[:-1] or not _SIZE.match(lines[1]):
        raise BadInputError(f"{place}: not a checkpoint (expected origin, size and root)")
    try:
        root = base64.b64decode(lines[2], validate=True)
    except ValueError as error:
        raise BadInputError(f"{place}: not a checkpoint: its root is not base64") from error
    if len(root) != 32:
        raise BadInputError(f"{place}: not a checkpoint: its root has {len(root)} bytes")
    return Checkpoint(lines[0], int(lines[1]), root), note
