"""Secrets: made at random, shown once, kept as hashes, compared in constant time."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from typing import Final

from gatemark.core.errors import InvalidValueError

MIN_PASSWORD: Final = 12
MAX_PASSWORD: Final = 256
TOKEN_PREFIX: Final = "gm_"  # noqa: S105 - a mark by which leaked tokens are found
_NOBODY: Final = (
    "$argon2id$v=19$m=65536,t=3,p=4$pcB8vxPdrf/7aZdf8"
    "+e1eg$S/usNFvikmymWM2WhtGP7Dt4d1GlOGf5gp8iu8zgS0E"
)
"""Checked for names that nobody has, so that they take as long as others."""


def new_secret() -> str:
    """A secret of 256 bits, fit for an address."""
    return secrets.token_urlsafe(32)


def new_id() -> str:
    """A name for something, which is no secret."""
    return secrets.token_hex(8)


def hash_secret(secret: str) -> str:
    """What is kept of a random secret. It needs no salt: nobody can guess 256 bits."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def same_hash(one: str, other: str) -> bool:
    """Whether two hashes are equal, in the same time whatever they are."""
    return hmac.compare_digest(one.encode(), other.encode())


def form_mark(session: str) -> str:
    """What the forms of a session carry; only who knows the session's secret can make it."""
    return hmac.new(session.encode(), b"gatemark form", hashlib.sha256).hexdigest()


def check_password(text: str) -> None:
    """Refuse a password that is too short to be one, or too long to be hashed."""
    if not MIN_PASSWORD <= len(text) <= MAX_PASSWORD:
        raise InvalidValueError(
            f"a password must have {MIN_PASSWORD} to {MAX_PASSWORD} characters, got {len(text)}"
        )


def hash_password(text: str) -> str:
    """What is kept of a password: Argon2id with its own salt and settings."""
    from argon2 import PasswordHasher  # noqa: PLC0415 - only signing in needs it

    check_password(text)
    return PasswordHasher().hash(text)


def is_password(kept: str | None, text: str) -> bool:
    """Whether a password is the kept one; takes its time also when none is kept."""
    from argon2 import PasswordHasher  # noqa: PLC0415
    from argon2.exceptions import InvalidHashError, VerificationError  # noqa: PLC0415

    if len(text) > MAX_PASSWORD:
        return False
    try:
        PasswordHasher().verify(kept or _NOBODY, text)
    except (VerificationError, InvalidHashError):
        return False
    return kept is not None
