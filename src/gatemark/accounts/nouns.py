"""Who somebody is to the page, and what they may do by the way they came in."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final, Literal, get_args

import msgspec

from gatemark.core.errors import InvalidValueError
from gatemark.ledger.payloads import SYSTEM

Scope = Literal["read", "run", "act"]
"""What a token may do: look, start packs, move versions. No token approves or administers."""
SCOPES: Final[tuple[Scope, ...]] = get_args(Scope)
RunState = Literal["queued", "running", "done", "failed", "interrupted"]
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._@-]{0,63}\Z")


class Person(msgspec.Struct, frozen=True):
    """Somebody who has an account."""

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
    """A pack that somebody started from the page or the interface."""

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
    """What was answered to a request that came with a key; no status while it is under way."""

    request: str
    status: int | None
    body: bytes


def check_name(name: str) -> None:
    """Refuse what cannot be the name of a person."""
    if not _NAME.match(name) or name == SYSTEM:
        raise InvalidValueError(
            "a name must be 1 to 64 of a-z 0-9 . _ @ - and start with a letter or digit"
        )


def seconds(moment: datetime) -> int:
    """A moment as it is kept."""
    return int(moment.timestamp())


def moment(value: int) -> datetime:
    """A kept moment."""
    return datetime.fromtimestamp(value, UTC)
