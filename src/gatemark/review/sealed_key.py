"""The sealed key of a review: it decides which arm each reviewer sees first.

The key is 32 random bytes. A commitment to it goes into the ledger before the first vote, and the
key itself when the review is closed: until then nobody can derive the positions from the ledger,
and afterwards nobody can replace the key. In the database the key is encrypted (AES-256-GCM) with a
key in a file, so that reading the table does not unblind anyone.

The arm that is shown first is drawn from the key for each reviewer and pair independently: a known
position says nothing about the next pair. Reviews of earlier builds keep their scheme: blocks of
two pairs with one each way, separately for gold pairs.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Final, Literal, NamedTuple, Protocol

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from gatemark.core.canonical import digest, same_digest
from gatemark.core.errors import IntegrityError, InvalidValueError
from gatemark.ledger.signing.outside_key import read_outside_key

KEY_BYTES: Final = 32
NONCE_BYTES: Final = 12
SEALED_FORM: Final = b"sealed1:"
TOKEN_LENGTH: Final = 32
PositionScheme = Literal[1, 2]
"""How positions are drawn: 1 in blocks of two, 2 independently for each pair."""
BLOCKS_OF_TWO: Final[PositionScheme] = 1
OWN_COINS: Final[PositionScheme] = 2


class Sealed(msgspec.Struct, frozen=True):
    """What a commitment covers besides the key."""

    review: str
    plan_digest: str
    manifest_digest: str


def commitment(sealed: Sealed, key: bytes) -> str:
    """Return the digest that commits to a key, its plan and its pairs."""
    if len(key) != KEY_BYTES:
        raise InvalidValueError(f"a review key must have {KEY_BYTES} bytes, got {len(key)}")
    return digest(
        {
            "schema": "gatemark.review-key/1",
            "review": sealed.review,
            "plan": sealed.plan_digest,
            "manifest": sealed.manifest_digest,
            "key": key.hex(),
        }
    )


def check_key(sealed: Sealed, key: bytes, committed: str) -> None:
    """Raise IntegrityError if key, plan or pairs do not match the commitment."""
    if not same_digest(commitment(sealed, key), committed):
        raise IntegrityError(
            f"review {sealed.review} does not verify: its key, rules or pairs are not those "
            f"that were sealed as {committed}"
        )


def seal_key(outside: bytes, committed: str, key: bytes) -> bytes:
    """Encrypt the key of a review for its row; ``outside`` is the key from the key file."""
    nonce = secrets.token_bytes(NONCE_BYTES)
    return SEALED_FORM + nonce + AESGCM(outside).encrypt(nonce, key, committed.encode())


def opened_key(stored: object, committed: str, key_file: Path) -> bytes:
    """Return the key from a row; earlier builds stored it unencrypted.

    Raise FileNotFoundError if the key file is missing, and IntegrityError if it does not fit.
    """
    sealed = stored if isinstance(stored, bytes) else b""
    if not sealed.startswith(SEALED_FORM) or len(sealed) == KEY_BYTES:
        return sealed
    outside = read_outside_key(key_file)
    nonce, data = sealed[len(SEALED_FORM) :][:NONCE_BYTES], sealed[len(SEALED_FORM) + NONCE_BYTES :]
    try:
        return AESGCM(outside).decrypt(nonce, data, committed.encode())
    except (InvalidTag, ValueError) as error:
        raise IntegrityError(
            f"{key_file} does not open the key of the review: it is another file, or the row was "
            "edited"
        ) from error


def coin(key: bytes, purpose: str, reviewer: str, number: int) -> int:
    """Return 0 or 1, unpredictable without the key."""
    return _draw(key, purpose, reviewer, number)[0] & 1


def luck(key: bytes, reviewer: str, number: int) -> bytes:
    """Return the random sort key of a pair for a reviewer."""
    return _draw(key, "order", reviewer, number)


def token(key: bytes, reviewer: str, number: int) -> str:
    """Return the id of a pair for a reviewer; it reveals nothing about the pair."""
    return _draw(key, "token", reviewer, number).hex()[:TOKEN_LENGTH]


def _draw(key: bytes, purpose: str, reviewer: str, number: int) -> bytes:
    message = msgspec.json.encode([purpose, reviewer, number])
    return hmac.new(key, message, hashlib.sha256).digest()


class SeenPair(Protocol):
    """A pair that a reviewer was shown as their ``ordinal``-th."""

    @property
    def reviewer(self) -> str: ...

    @property
    def ordinal(self) -> int: ...

    @property
    def number(self) -> int: ...


class PairPosition(NamedTuple):
    """The inputs that decide the position of a pair.

    ``number`` is the pair's own; in blocks of two, its place among the reviewer's gold pairs or
    among the others, from 1.
    """

    reviewer: str
    number: int
    is_gold: bool
    scheme: PositionScheme


def places(
    seen: Iterable[SeenPair], gold: Collection[int], scheme: PositionScheme
) -> dict[tuple[str, int], PairPosition]:
    """Return the position inputs by reviewer and ordinal; ``seen`` must start at ordinal 1."""
    counts: dict[tuple[str, bool], int] = {}
    found = {}
    for show in sorted(seen, key=lambda one: (one.reviewer, one.ordinal)):
        is_gold = show.number in gold
        place = counts[show.reviewer, is_gold] = counts.get((show.reviewer, is_gold), 0) + 1
        number = place if scheme == BLOCKS_OF_TWO else show.number
        found[show.reviewer, show.ordinal] = PairPosition(show.reviewer, number, is_gold, scheme)
    return found


def is_swapped(key: bytes, place: PairPosition) -> bool:
    """Return whether the second arm is shown first."""
    if place.scheme == OWN_COINS:
        return bool(coin(key, "own position", place.reviewer, place.number))
    block, second = divmod(place.number - 1, 2)
    purpose = "gold position" if place.is_gold else "position"
    return bool(coin(key, purpose, place.reviewer, block) ^ second)
