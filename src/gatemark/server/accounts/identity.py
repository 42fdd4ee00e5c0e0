"""Who makes a request: the person behind a session or a token, with their roles."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from gatemark.core.errors import NotAllowedError
from gatemark.ledger.event_kinds import (
    Channel,
)
from gatemark.release.lifecycle.events.fact import WORKSPACE_SUBJECT
from gatemark.release.lifecycle.model.nouns import Role
from gatemark.release.lifecycle.state_cache import asset_state_cache
from gatemark.server.accounts.nouns import (
    SCOPES,
    Scope,
)
from gatemark.server.accounts.open_stores import people_of
from gatemark.workspace import Workspace

ADMIN: Final[Role] = "admin"


class Identity(msgspec.Struct, frozen=True):
    """An authenticated person; a session may do everything, a token only its scopes."""

    person: str
    roles: tuple[Role, ...]
    way: Literal["session", "token"]
    authentication: str
    scopes: tuple[Scope, ...] = SCOPES

    @property
    def channel(self) -> Channel:
        """How this person reached the server, as decisions record it."""
        return Channel(self.way, self.authentication)

    @property
    def is_admin(self) -> bool:
        """Whether this is an admin who signed in (not a token)."""
        return ADMIN in self.roles and self.way == "session"


def read_roles(workspace: Workspace, person: str) -> tuple[Role, ...]:
    """Return the roles of a person, from the ledger."""
    return asset_state_cache(workspace).read(WORKSPACE_SUBJECT).governance.roles.get(person, ())


def is_one_person(workspace: Workspace) -> bool:
    """Whether the store is in one-person mode: one person may approve their own versions."""
    return asset_state_cache(workspace).read(WORKSPACE_SUBJECT).governance.policy.one_person


def identify_session(workspace: Workspace, secret: str) -> Identity | None:
    """Return the identity of a session."""
    session = people_of(workspace).session(secret, workspace.clock())
    if session is None or session.person is None:
        return None
    roles = read_roles(workspace, session.person)
    return Identity(session.person, roles, "session", session.authentication)


def identify_token(workspace: Workspace, text: str) -> Identity | None:
    """Return the identity of a token, with its scopes."""
    token = people_of(workspace).token_holder(text, workspace.clock())
    if token is None:
        return None
    roles = read_roles(workspace, token.person)
    return Identity(token.person, roles, "token", f"token {token.id}", token.scopes)


def require_admin(identity: Identity, what: str) -> None:
    """Refuse anyone but an admin who signed in in person."""
    if not identity.is_admin:
        raise NotAllowedError(f"{identity.person} must be admin, in person, to {what}")
