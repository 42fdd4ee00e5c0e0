"""Canonical bytes (RFC 8785) and the digests that name things by them."""

from __future__ import annotations

import hashlib
import hmac
import re
from typing import Any, Final

import msgspec
import rfc8785

from gatemark.core.errors import InvalidValueError

DIGEST_PREFIX: Final = "sha256:"
_DIGEST_PATTERN: Final = re.compile(r"sha256:[0-9a-f]{64}\Z")


def canonical_bytes(value: Any) -> bytes:
    """The one byte string that stands for a JSON-like value.

    Structs become objects; NaN, infinity and integers beyond 2**53 have no canonical form and
    are refused rather than rounded.
    """
    try:
        return rfc8785.dumps(msgspec.to_builtins(value))
    except (rfc8785.CanonicalizationError, TypeError, RecursionError, UnicodeError) as error:
        raise InvalidValueError(f"no canonical form: {error}") from error


def digest_bytes(data: bytes) -> str:
    """The digest of raw bytes, as ``sha256:<hex>``."""
    return DIGEST_PREFIX + hashlib.sha256(data).hexdigest()


def digest(value: Any) -> str:
    """The digest of a value's canonical bytes."""
    return digest_bytes(canonical_bytes(value))


def is_digest(text: str) -> bool:
    """Whether a text has the form of a digest; says nothing about what it names."""
    return _DIGEST_PATTERN.match(text) is not None


def same_digest(left: str, right: str) -> bool:
    """Compare two digests in constant time."""
    return hmac.compare_digest(left.encode(), right.encode())
