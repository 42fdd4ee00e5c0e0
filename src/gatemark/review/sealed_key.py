"""The sealed key: who sees what in which position, fixed when the review is made.

The key is 32 random bytes. A commitment to it goes into the ledger before the first vote, and the
key itself when the review is closed: until then nobody can read the positions out of the ledger,
and afterwards nobody can have chosen another key. In the database the key of a review is encrypted
(AES-256-GCM) with a key in a file, so that whoever reads the table is as blind as a reviewer.

Which arm a pair shows first is a coin of its own for each reviewer and pair, drawn from the key:
what a reviewer learns of one pair tells nothing about the next. Reviews of earlier builds keep
their scheme, blocks of two with one each way, counted apart for gold pairs.
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
"""How positions are drawn: 1 in blocks of two, 2 by a coin of its own for each pair."""
BLOCKS_OF_TWO: Final[PositionScheme] = 1
OWN_COINS: Final[PositionScheme] = 2


class Sealed(msgspec.Struct, frozen=True):
    """What a commitment covers beside the key."""

    review: str
    plan_digest: str
    manifest_digest: str


def commitment(sealed: Sealed, key: bytes) -> str:
    """The digest that fixes a key, with the rules and pairs it was drawn for."""
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
    """Refuse a key, rules or pairs that are not those of the commitment."""
    if not same_digest(commitment(sealed, key), committed):
        raise IntegrityError(
            f"review {sealed.review} does not verify: its key, rules or pairs are not those "
            f"that were sealed as {committed}"
        )


def seal_key(outside: bytes, committed: str, key: bytes) -> bytes:
    """Encrypt the key of a review for its row; ``outside`` is a key outside of the database."""
    nonce = secrets.token_bytes(NONCE_BYTES)
    return SEALED_FORM + nonce + AESGCM(outside).encrypt(nonce, key, committed.encode())


def opened_key(stored: object, committed: str, key_file: Path) -> bytes:
    """Return the key in a row; earlier builds stored it in clear.

    Raise FileNotFoundError where the key that opens it is not, IntegrityError where it does not.
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
    """What a reviewer's pairs are sorted by."""
    return _draw(key, "order", reviewer, number)


def token(key: bytes, reviewer: str, number: int) -> str:
    """What a reviewer names a pair by; it tells nothing about the pair."""
    return _draw(key, "token", reviewer, number).hex()[:TOKEN_LENGTH]


def _draw(key: bytes, purpose: str, reviewer: str, number: int) -> bytes:
    message = msgspec.json.encode([purpose, reviewer, number])
    return hmac.new(key, message, hashlib.sha256).digest()


class SeenPair(Protocol):
    """A pair that a reviewer was shown, the ``ordinal``-th of theirs."""

    @property
    def reviewer(self) -> str: ...

    @property
    def ordinal(self) -> int: ...

    @property
    def number(self) -> int: ...


class PairPosition(NamedTuple):
    """What decides on the position of a pair.

    ``number`` is the pair's own; in blocks of two its place among the reviewer's gold pairs, or
    among their others, from 1.
    """

    reviewer: str
    number: int
    is_gold: bool
    scheme: PositionScheme


def places(
    seen: Iterable[SeenPair], gold: Collection[int], scheme: PositionScheme
) -> dict[tuple[str, int], PairPosition]:
    """The place of each pair by reviewer and ordinal; ``seen`` must begin with the first pairs."""
    counts: dict[tuple[str, bool], int] = {}
    found = {}
    for show in sorted(seen, key=lambda one: (one.reviewer, one.ordinal)):
        is_gold = show.number in gold
        place = counts[show.reviewer, is_gold] = counts.get((show.reviewer, is_gold), 0) + 1
        number = place if scheme == BLOCKS_OF_TWO else show.number
        found[show.reviewer, show.ordinal] = PairPosition(show.reviewer, number, is_gold, scheme)
    return found


def is_swapped(key: bytes, place: PairPosition) -> bool:
    """Whether a pair shows the second arm first."""
    if place.scheme == OWN_COINS:
        return bool(coin(key, "own position", place.reviewer, place.number))
    block, second = divmod(place.number - 1, 2)
    purpose = "gold position" if place.is_gold else "position"
    return bool(coin(key, purpose, place.reviewer, block) ^ second)
