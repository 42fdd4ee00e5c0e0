"""People, tokens and secrets.

Secrets are random, shown once, stored as hashes and compared in constant time.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
from datetime import UTC, datetime
from typing import Final, Literal, get_args

import msgspec

from gatemark.core.errors import InvalidValueError
from gatemark.ledger.event_kinds import SYSTEM

Scope = Literal["read", "run", "act"]
"""What a token may do: look, start packs, move versions. No token approves or administers."""
SCOPES: Final[tuple[Scope, ...]] = get_args(Scope)
RunState = Literal["queued", "running", "done", "failed", "interrupted"]
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._@-]{0,63}\Z")


class Person(msgspec.Struct, frozen=True):
    """A person with an account."""

    name: str
    is_closed: bool
    has_password: bool
    added_at: datetime


class Token(msgspec.Struct, frozen=True):
    """A token as its owner sees it; the secret is shown once and never again."""

    id: str
    person: str
    label: str
    scopes: tuple[Scope, ...]
    made_at: datetime
    expires_at: datetime
    revoked_at: datetime | None


class PageRun(msgspec.Struct, frozen=True):
    """A run that was started from the page or the HTTP API."""

    id: str
    pack: str
    person: str
    state: RunState
    limit: int | None
    result_id: str | None
    detail: str
    started_at: datetime
    alive_at: datetime
    finished_at: datetime | None


class KeptAnswer(msgspec.Struct, frozen=True):
    """The answer to a request with an idempotency key; no status while it is running.

    A request that is ``lost`` wrote these events, and its server never answered.
    """

    request: str
    status: int | None
    body: bytes
    lost: tuple[int, ...] = ()


def check_name(name: str) -> None:
    """Refuse what cannot be the name of a person."""
    if not _NAME.match(name) or name == SYSTEM:
        raise InvalidValueError(
            "a name must be 1 to 64 of a-z 0-9 . _ @ - and start with a letter or digit"
        )


def to_seconds(moment: datetime) -> int:
    """Return a time as stored."""
    return int(moment.timestamp())


def from_seconds(value: int) -> datetime:
    """Return a stored time."""
    return datetime.fromtimestamp(value, UTC)


MIN_PASSWORD: Final = 12
MAX_PASSWORD: Final = 256
ALIVE_S: Final = 60
"""A request whose server has been silent for this long is taken over by its repetition."""
BOUND: Final = "v1:"
"""How a stored password begins that is bound to its account."""
TOKEN_PREFIX: Final = "gm_"  # noqa: S105 - a mark by which leaked tokens are found
_NOBODY: Final = (
    "$argon2id$v=19$m=65536,t=3,p=4$pcB8vxPdrf/7aZdf8"
    "+e1eg$S/usNFvikmymWM2WhtGP7Dt4d1GlOGf5gp8iu8zgS0E"
)
"""Checked for names that nobody has, so that they take as long as others."""


def make_secret() -> str:
    """Return a random secret of 256 bits that is safe in URLs."""
    return secrets.token_urlsafe(32)


def make_id() -> str:
    """Return a random id; it is not a secret."""
    return secrets.token_hex(8)


def hash_secret(secret: str) -> str:
    """Return the hash of a random secret; it needs no salt, since 256 bits cannot be guessed."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def is_same_hash(one: str, other: str) -> bool:
    """Compare two hashes in constant time."""
    return hmac.compare_digest(one.encode(), other.encode())


class SessionClaims(msgspec.Struct, frozen=True):
    """What a session's cookie or a link says, signed with the key of the server."""

    kind: Literal["session", "link"]
    person: str | None
    authentication: str
    expires_s: int
    nonce: str


class SecretKey:
    """The key that binds sessions, links, passwords and tokens to a server.

    It is kept outside of the database, so that a row that somebody writes there lets nobody in.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key

    def mac(self, *parts: str) -> str:
        """Return the tag of some texts; where one ends and the next begins is part of it."""
        data = msgspec.json.encode(parts)
        return hmac.new(self._key, data, hashlib.sha256).hexdigest()

    def seal(self, claims: SessionClaims) -> str:
        """Return claims as a signed text that is safe in URLs and cookies."""
        body = base64.urlsafe_b64encode(msgspec.json.encode(claims)).decode().rstrip("=")
        return f"{body}.{self.mac(claims.kind, body)}"

    def open(self, text: str, kind: Literal["session", "link"]) -> SessionClaims | None:
        """Return the claims of a signed text; None if it is not signed with this key."""
        body, _, tag = text.partition(".")
        if not body.isascii() or not is_same_hash(self.mac(kind, body), tag):
            return None
        data = base64.urlsafe_b64decode(body + "=" * (-len(body) % 4))
        claims = msgspec.json.decode(data, type=SessionClaims)
        return claims if claims.kind == kind else None

    def bind_password(self, name: str, hashed: str) -> str:
        """Return the hash of a password as stored: it belongs to one account."""
        return f"{BOUND}{self.mac('password', name, hashed)}:{hashed}"

    def password_of(self, name: str, stored: str | None) -> str | None:
        """Return the hash in a stored password; None if it was not bound to this account."""
        if stored is None or not stored.startswith(BOUND):
            return None
        tag, _, hashed = stored.removeprefix(BOUND).partition(":")
        return hashed if is_same_hash(self.mac("password", name, hashed), tag) else None

    def bind_token(
        self, identity: str, person: str, scopes: str, expires_s: int, hashed: str
    ) -> str:
        """Return the hash of a token as stored: it covers its person, scopes and expiry."""
        return self.mac("token", identity, person, scopes, str(expires_s), hashed)


def derive_form_token(session: str) -> str:
    """Return the CSRF token of a session; it follows from the session's secret."""
    return hmac.new(session.encode(), b"gatemark form", hashlib.sha256).hexdigest()


def check_password(text: str) -> None:
    """Refuse a password that is too short or too long."""
    if not MIN_PASSWORD <= len(text) <= MAX_PASSWORD:
        raise InvalidValueError(
            f"a password must have {MIN_PASSWORD} to {MAX_PASSWORD} characters, got {len(text)}"
        )


def hash_password(text: str) -> str:
    """Return the Argon2id hash of a password, with its salt and parameters."""
    from argon2 import PasswordHasher  # noqa: PLC0415 - only signing in needs it

    check_password(text)
    return PasswordHasher().hash(text)


def is_password(kept: str | None, text: str) -> bool:
    """Whether a password matches a hash; takes the same time if there is none."""
    from argon2 import PasswordHasher  # noqa: PLC0415
    from argon2.exceptions import InvalidHashError, VerificationError  # noqa: PLC0415

    if len(text) > MAX_PASSWORD:
        return False
    try:
        PasswordHasher().verify(kept or _NOBODY, text)
    except (VerificationError, InvalidHashError):
        return False
    return kept is not None
