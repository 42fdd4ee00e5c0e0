"""The sealed key of a review: it decides which arm each reviewer sees first.

The key is 32 random bytes. A commitment to it goes into the ledger before the first vote, and the
key itself when the review is closed: until then nobody can derive the positions from the ledger,
and afterwards nobody can replace the key. In the database the key is encrypted (AES-256-GCM) with a
key in a file, so that reading the table does not unblind anyone.

The arm that is shown first is drawn from the key for each reviewer and pair independently: a known
position says nothing about the next pair.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from pathlib import Path
from typing import Final

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


class Sealed(msgspec.Struct, frozen=True):
    """What a commitment covers besides the key."""

    review: str
    plan_digest: str
    manifest_digest: str


def commit_key(sealed: Sealed, key: bytes) -> str:
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
    if not same_digest(commit_key(sealed, key), committed):
        raise IntegrityError(
            f"review {sealed.review} does not verify: its key, rules or pairs are not those "
            f"that were sealed as {committed}"
        )


def seal_key(outside: bytes, committed: str, key: bytes) -> bytes:
    """Encrypt the key of a review for its row; ``outside`` is the key from the key file."""
    nonce = secrets.token_bytes(NONCE_BYTES)
    return SEALED_FORM + nonce + AESGCM(outside).encrypt(nonce, key, committed.encode())


def open_key(stored: object, committed: str, key_file: Path) -> bytes:
    """Decrypt the key in a row.

    Raise FileNotFoundError if the key file is missing, and IntegrityError if it does not fit.
    """
    sealed = stored if isinstance(stored, bytes) else b""
    if not sealed.startswith(SEALED_FORM):
        raise IntegrityError("the review does not verify: the key in its row is not encrypted")
    outside = read_outside_key(key_file)
    nonce, data = sealed[len(SEALED_FORM) :][:NONCE_BYTES], sealed[len(SEALED_FORM) + NONCE_BYTES :]
    try:
        return AESGCM(outside).decrypt(nonce, data, committed.encode())
    except (InvalidTag, ValueError) as error:
        raise IntegrityError(
            f"{key_file} does not open the key of the review: it is another file, or the row was "
            "edited"
        ) from error


def draw_coin(key: bytes, purpose: str, reviewer: str, number: int) -> int:
    """Return 0 or 1, unpredictable without the key."""
    return _draw(key, purpose, reviewer, number)[0] & 1


def draw_order(key: bytes, reviewer: str, number: int) -> bytes:
    """Return the random sort key of a pair for a reviewer."""
    return _draw(key, "order", reviewer, number)


def draw_token(key: bytes, reviewer: str, number: int) -> str:
    """Return the id of a pair for a reviewer; it reveals nothing about the pair."""
    return _draw(key, "token", reviewer, number).hex()[:TOKEN_LENGTH]


def _draw(key: bytes, purpose: str, reviewer: str, number: int) -> bytes:
    message = msgspec.json.encode([purpose, reviewer, number])
    return hmac.new(key, message, hashlib.sha256).digest()


def is_swapped(key: bytes, reviewer: str, number: int) -> bool:
    """Return whether a reviewer sees the second arm of a pair first."""
    return bool(draw_coin(key, "own position", reviewer, number))
