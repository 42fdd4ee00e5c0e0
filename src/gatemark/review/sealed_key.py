"""The sealed key: who sees what in which position, fixed when the review is made.

The key is 32 random bytes. A commitment to it goes into the ledger before the first vote, and the
key itself when the review is closed: until then nobody can read the positions out of the ledger,
and afterwards nobody can have chosen another key.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Final

import msgspec

from gatemark.core.canonical import digest, same_digest
from gatemark.core.errors import IntegrityError, InvalidValueError

KEY_BYTES: Final = 32
TOKEN_LENGTH: Final = 32


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


def coin(key: bytes, purpose: str, reviewer: str, number: int) -> int:
    """0 or 1, which nobody can tell without the key."""
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
