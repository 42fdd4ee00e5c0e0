"""Tokens of people: make, list, revoke."""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta

from gatemark.core.errors import NotAllowedError, UnknownNameError
from gatemark.server.accounts.account_events import record_account_event
from gatemark.server.accounts.events import TOKEN_MADE, TOKEN_REVOKED
from gatemark.server.accounts.identity import Identity
from gatemark.server.accounts.nouns import (
    Scope,
    Token,
)
from gatemark.server.accounts.open_stores import people_of
from gatemark.server.accounts.stores.people import MAX_TOKEN_DAYS
from gatemark.workspace import Workspace


class NewToken(msgspec.Struct, frozen=True):
    """A new token with its secret, which is shown only once."""

    token: Token
    secret: str | None


class MakeToken(msgspec.Struct, frozen=True, kw_only=True):
    """Make a token for programs that act in somebody's name."""

    label: Annotated[str, Meta(min_length=1, max_length=100, description="What it is for.")]
    scopes: Annotated[
        tuple[Scope, ...], Meta(min_length=1, max_length=3, description="What it may do.")
    ]
    days: Annotated[int, Meta(ge=1, le=MAX_TOKEN_DAYS, description="Days until it expires.")] = 30
    is_in_person: ClassVar[bool] = True


def make_token(workspace: Workspace, identity: Identity, request: MakeToken) -> NewToken:
    """Make a token for the signed-in person; a token cannot make another."""
    if identity.way != "session":
        raise NotAllowedError("a token cannot make tokens; sign in first")
    token, secret = people_of(workspace).new_token(
        identity.person, request.label, request.scopes, request.days, workspace.clock()
    )
    record_account_event(
        workspace,
        TOKEN_MADE,
        identity.person,
        id=token.id,
        scopes=list(token.scopes),
        expires_at=token.expires_at.isoformat(),
    )
    return NewToken(token, secret)


def list_own_tokens(workspace: Workspace, identity: Identity) -> tuple[Token, ...]:
    """Return the tokens of the signed-in person."""
    return people_of(workspace).tokens(identity.person)


def revoke_token(workspace: Workspace, identity: Identity, token: str) -> Token:
    """Revoke an own token, or, as an admin, anyone's."""
    owner = None if identity.is_admin else identity.person
    before = {one.id for one in people_of(workspace).tokens(owner) if one.revoked_at is None}
    found = people_of(workspace).revoke_token(token, owner, workspace.clock())
    if found is None:
        raise UnknownNameError(f"there is no token {token}")
    if token in before:
        record_account_event(
            workspace, TOKEN_REVOKED, identity.person, id=token, person=found.person
        )
    return found
