"""The keys that may sign for the ledger at each size, according to its events."""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from gatemark.core.errors import BadInputError, IntegrityError
from gatemark.core.stored import convert_stored
from gatemark.ledger.event import Event
from gatemark.ledger.event_kinds import (
    KEY_ADDED,
    KEY_REPLACED,
    KEY_ROTATED,
    KeyAdded,
    KeyReplaced,
    KeyRotated,
)
from gatemark.ledger.signing.note import Signer, VerifierKey, read_note, read_verifier, sign_note

KEY_KINDS: Final = frozenset({KEY_ADDED, KEY_ROTATED, KEY_REPLACED})
_ADDED: Final = "gatemark.key/1"
_ROTATED: Final = "gatemark.key-rotation/1"


class Tenure(NamedTuple):
    """A key and the ledger sizes it may sign: from ``first`` up to, but not including, ``end``."""

    key: VerifierKey
    first: int
    end: int | None
    is_vouched: bool

    def covers(self, size: int) -> bool:
        """Whether the key may sign a checkpoint of this size."""
        return self.first <= size and (self.end is None or size < self.end)


def key_note(origin: str, key: Signer) -> str:
    """Return a note, signed by a key, that it belongs to a ledger."""
    return sign_note(f"{_ADDED}\n{origin}\n{key.verifier}\n", key)


def rotation_note(origin: str, old: Signer, new: Signer) -> str:
    """Return a note, signed by both keys, that the new one replaces the old one."""
    return sign_note(f"{_ROTATED}\n{origin}\n{old.verifier}\n{new.verifier}\n", old, new)


class Keyring:
    """The keys of a ledger, read from its events in order.

    With ``trusted`` keys, only those and the keys they rotated to are valid. Otherwise the first
    key of the ledger is trusted.
    """

    def __init__(self, trusted: tuple[VerifierKey, ...] = ()) -> None:
        self._trusted = trusted
        self.tenures: list[Tenure] = []
        self.replaced: list[tuple[int, str]] = []

    @property
    def active(self) -> VerifierKey | None:
        """The current key."""
        return self.tenures[-1].key if self.tenures else None

    def keys_for(self, size: int) -> list[VerifierKey]:
        """Return the keys that may sign a checkpoint of this size."""
        learned = [t.key for t in self.tenures if t.is_vouched and t.covers(size)]
        ended = {tenure.key for tenure in self.tenures if not tenure.covers(size)}
        return [*learned, *(key for key in self._trusted if key not in ended)]

    def learn(self, event: Event, payload: dict[str, object], origin: str) -> None:
        """Read a key event; raise IntegrityError if it is not valid."""
        try:
            match event.kind:
                case "key_added":
                    self._add(event.seq, convert_stored(payload, KeyAdded), origin)
                case "key_rotated":
                    self._rotate(event.seq, convert_stored(payload, KeyRotated), origin)
                case _:
                    self._replace(event.seq, convert_stored(payload, KeyReplaced), origin)
        except (msgspec.ValidationError, BadInputError) as error:
            raise IntegrityError(f"the key event cannot be read: {error}") from error

    def _add(self, seq: int, said: KeyAdded, origin: str) -> None:
        if self.tenures:
            raise IntegrityError("a first key is added, but the ledger already has one")
        key = read_verifier(said.key)
        _check_note(said.note, f"{_ADDED}\n{origin}\n{key}\n", key)
        self._follow(key, seq, vouched=not self._trusted or key in self._trusted)

    def _rotate(self, seq: int, said: KeyRotated, origin: str) -> None:
        old, new = read_verifier(said.old), read_verifier(said.new)
        if old != self.active:
            raise IntegrityError(f"the key {old.label} is rotated, but is not the current key")
        _check_note(said.note, f"{_ROTATED}\n{origin}\n{old}\n{new}\n", old, new)
        vouched = self.tenures[-1].is_vouched or new in self._trusted
        self._follow(new, seq, vouched=vouched)

    def _replace(self, seq: int, said: KeyReplaced, origin: str) -> None:
        old, new = read_verifier(said.old), read_verifier(said.new)
        if old != self.active:
            raise IntegrityError(f"the key {old.label} is replaced, but is not the current key")
        _check_note(said.note, f"{_ADDED}\n{origin}\n{new}\n", new)
        self._follow(new, seq, vouched=not self._trusted or new in self._trusted)
        self.replaced.append((seq, said.reason))

    def _follow(self, key: VerifierKey, seq: int, *, vouched: bool) -> None:
        if self.tenures:
            self.tenures[-1] = self.tenures[-1]._replace(end=seq)
        self.tenures.append(Tenure(key, seq, None, vouched))


def _check_note(note: str, text: str, *signers: VerifierKey) -> None:
    opened = read_note(note)
    if opened.text != text:
        raise IntegrityError("the key's note names another ledger or key")
    for key in signers:
        if opened.signed_by([key]) is None:
            raise IntegrityError(f"the key's note is not signed by {key.label}")
