"""Signing in and out, people and tokens; every change is an event of the ledger."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from gatemark.accounts.nouns import (
    SCOPES,
    PageRun,
    Person,
    RunState,
    Scope,
    Token,
    form_mark,
    new_secret,
    same_hash,
)
from gatemark.accounts.open_stores import identities_of, people_of
from gatemark.core.errors import NotAllowedError, RefusedError, UnknownNameError
from gatemark.ledger.event import EventDraft
from gatemark.ledger.event_kinds import (
    ACCOUNT_ADDED,
    ACCOUNT_CLOSED,
    LINK_MADE,
    PASSWORD_SET,
    SIGN_IN_FAILED,
    SIGNED_IN,
    SIGNED_OUT,
    TOKEN_MADE,
    TOKEN_REVOKED,
)
from gatemark.ledger.payloads import SYSTEM
from gatemark.lifecycle.commands import GrantRoles
from gatemark.lifecycle.events.fact import WORKSPACE_SUBJECT
from gatemark.lifecycle.journey import act, preview
from gatemark.lifecycle.model.nouns import Role
from gatemark.lifecycle.state_cache import asset_state_cache
from gatemark.workspace import Workspace

__all__ = [
    "Identity",
    "PageRun",
    "Person",
    "RunState",
    "Scope",
    "Token",
    "form_mark",
    "new_secret",
    "same_hash",
]

ADMIN: Final[Role] = "admin"


class Identity(msgspec.Struct, frozen=True):
    """Somebody who proved who they are, and how: a session may do all, a token its scopes."""

    person: str
    roles: tuple[Role, ...]
    way: Literal["session", "token"]
    scopes: tuple[Scope, ...] = SCOPES

    @property
    def is_admin(self) -> bool:
        """Whether this is an admin who is here in person."""
        return ADMIN in self.roles and self.way == "session"


class NewToken(msgspec.Struct, frozen=True):
    """A token with its secret, for the only time it is shown."""

    token: Token
    secret: str | None


class PersonLine(msgspec.Struct, frozen=True):
    """An account as the list of people shows it; a provided one is reached through a provider."""

    name: str
    roles: tuple[Role, ...]
    is_closed: bool
    has_password: bool
    is_provided: bool


def roles_of(workspace: Workspace, person: str) -> tuple[Role, ...]:
    """What somebody may do, by the ledger."""
    return asset_state_cache(workspace).read(WORKSPACE_SUBJECT).governance.roles.get(person, ())


def _admins(workspace: Workspace) -> list[str]:
    roles = asset_state_cache(workspace).read(WORKSPACE_SUBJECT).governance.roles
    return sorted(name for name, held in roles.items() if ADMIN in held)


def tell(workspace: Workspace, kind: str, actor: str, **payload: object) -> None:
    """Put something that people did at the door on record."""
    workspace.events.append([EventDraft(kind, workspace.clock(), actor, None, payload)])


def first_link(workspace: Workspace) -> str | None:
    """The secret of a link for the first admin; None when somebody can sign in already.

    Where the ledger has an admin, the link is for that person and nobody else.
    """
    people = [person for person in people_of(workspace).all() if not person.is_closed]
    admins = _admins(workspace)
    provided = identities_of(workspace).people() & set(admins)
    if any(person.has_password or person.name in provided for person in people):
        return None
    return people_of(workspace).new_link(admins[0] if admins else None, workspace.clock())


def link_for(workspace: Workspace, person: str) -> str:
    """A link to a new password for somebody who has an account or a role."""
    known = {one.name for one in people_of(workspace).all() if not one.is_closed}
    if person not in known and not roles_of(workspace, person):
        raise UnknownNameError(f"nobody is called {person}")
    tell(workspace, LINK_MADE, SYSTEM, person=person)
    return people_of(workspace).new_link(person, workspace.clock())


def link_holder(workspace: Workspace, secret: str) -> tuple[str | None] | None:
    """For whom a link is, in a tuple; None when it does not work."""
    return people_of(workspace).link(secret, workspace.clock())


def join(workspace: Workspace, secret: str, name: str, password: str) -> str:
    """Use a link: set a password and start a session. The first of all becomes admin."""
    asset_state_cache(workspace).unpin()
    is_first = link_holder(workspace, secret) == (None,) and not _admins(workspace)
    if is_first:
        preview(workspace, GrantRoles(actor=name, person=name, roles=(ADMIN,)))
    people_of(workspace).use_link(secret, name, password, workspace.clock())
    if is_first:
        note = "the first admin, by the link that the server printed"
        act(workspace, GrantRoles(actor=name, person=name, roles=(ADMIN,), note=note))
    tell(workspace, PASSWORD_SET, name)
    return people_of(workspace).new_session(name, workspace.clock())


def sign_in(
    workspace: Workspace, name: str, password: str, *, where: str, before: str | None
) -> str:
    """Start a session, a new one whatever was there before. Failures are on record."""
    if not people_of(workspace).is_known(name, password):
        tell(workspace, SIGN_IN_FAILED, SYSTEM, name=name[:64], where=where)
        raise NotAllowedError("name and password do not belong together")
    if before is not None:
        people_of(workspace).end_session(before)
    tell(workspace, SIGNED_IN, name, where=where)
    return people_of(workspace).new_session(name, workspace.clock())


def sign_out(workspace: Workspace, secret: str) -> None:
    """End a session."""
    person = people_of(workspace).session_person(secret, workspace.clock())
    people_of(workspace).end_session(secret)
    if person is not None:
        tell(workspace, SIGNED_OUT, person)


def look_now(workspace: Workspace, *, once: bool) -> None:
    """Read the ledger once for what follows, or each time; the latter for whoever changes it."""
    if once:
        asset_state_cache(workspace).pin()
    else:
        asset_state_cache(workspace).unpin()


def books_mark(workspace: Workspace, asset: str) -> tuple[int, int]:
    """Names what is known of an asset, for whoever keeps what was made of it."""
    return asset_state_cache(workspace).mark(asset)


def by_session(workspace: Workspace, secret: str) -> Identity | None:
    """Who a session belongs to."""
    person = people_of(workspace).session_person(secret, workspace.clock())
    return None if person is None else Identity(person, roles_of(workspace, person), "session")


def by_token(workspace: Workspace, text: str) -> Identity | None:
    """Who a token belongs to, and what it may do."""
    token = people_of(workspace).token_holder(text, workspace.clock())
    if token is None:
        return None
    return Identity(token.person, roles_of(workspace, token.person), "token", token.scopes)


def _require_admin(identity: Identity, what: str) -> None:
    if not identity.is_admin:
        raise NotAllowedError(f"{identity.person} must be admin, in person, to {what}")


def people(workspace: Workspace, identity: Identity) -> tuple[PersonLine, ...]:
    """Everybody with an account or a role; for admins and auditors."""
    if not {ADMIN, "auditor"} & set(identity.roles):
        raise NotAllowedError(f"{identity.person} must be admin or auditor to see accounts")
    roles = asset_state_cache(workspace).read(WORKSPACE_SUBJECT).governance.roles
    accounts = {person.name: person for person in people_of(workspace).all()}
    provided = identities_of(workspace).people()
    return tuple(
        PersonLine(
            name=name,
            roles=tuple(roles.get(name, ())),
            is_closed=name in accounts and accounts[name].is_closed,
            has_password=name in accounts and accounts[name].has_password,
            is_provided=name in provided,
        )
        for name in sorted({*roles, *accounts})
    )


def add_person(workspace: Workspace, identity: Identity, name: str, roles: Sequence[Role]) -> str:
    """An account with roles; gives the secret of the link to its password."""
    _require_admin(identity, "add people")
    command = GrantRoles(actor=identity.person, person=name, roles=tuple(roles))
    preview(workspace, command)
    people_of(workspace).add(name, workspace.clock())
    tell(workspace, ACCOUNT_ADDED, identity.person, person=name)
    act(workspace, command)
    return people_of(workspace).new_link(name, workspace.clock())


def set_roles(workspace: Workspace, identity: Identity, name: str, roles: Sequence[Role]) -> None:
    """Give somebody exactly these roles."""
    _require_admin(identity, "grant roles")
    if name not in {line.name for line in people(workspace, identity)}:
        raise UnknownNameError(f"nobody is called {name}")
    act(workspace, GrantRoles(actor=identity.person, person=name, roles=tuple(roles)))


def new_link(workspace: Workspace, identity: Identity, name: str) -> str:
    """A link to a new password, made by an admin for somebody else."""
    _require_admin(identity, "make links")
    if name not in {line.name for line in people(workspace, identity) if not line.is_closed}:
        raise UnknownNameError(f"nobody is called {name}")
    tell(workspace, LINK_MADE, identity.person, person=name)
    return people_of(workspace).new_link(name, workspace.clock())


def close_person(workspace: Workspace, identity: Identity, name: str) -> None:
    """Close an account and take its roles away."""
    _require_admin(identity, "close accounts")
    if name == identity.person:
        raise RefusedError("nobody closes their own account")
    if name not in {line.name for line in people(workspace, identity)}:
        raise UnknownNameError(f"nobody is called {name}")
    act(workspace, GrantRoles(actor=identity.person, person=name, roles=()))
    if people_of(workspace).close(name):
        tell(workspace, ACCOUNT_CLOSED, identity.person, person=name)


def make_token(
    workspace: Workspace, identity: Identity, label: str, scopes: Sequence[Scope], days: int
) -> NewToken:
    """A token for oneself; made in person, so that no token makes another."""
    if identity.way != "session":
        raise NotAllowedError("tokens are made by people who are signed in, not by tokens")
    token, secret = people_of(workspace).new_token(
        identity.person, label, scopes, days, workspace.clock()
    )
    tell(
        workspace,
        TOKEN_MADE,
        identity.person,
        id=token.id,
        scopes=list(token.scopes),
        expires_at=token.expires_at.isoformat(),
    )
    return NewToken(token, secret)


def my_tokens(workspace: Workspace, identity: Identity) -> tuple[Token, ...]:
    """The tokens of oneself."""
    return people_of(workspace).tokens(identity.person)


def drop_token(workspace: Workspace, identity: Identity, token: str) -> Token:
    """End a token of oneself, or of anybody as an admin."""
    owner = None if identity.is_admin else identity.person
    before = {one.id for one in people_of(workspace).tokens(owner) if one.revoked_at is None}
    found = people_of(workspace).revoke_token(token, owner, workspace.clock())
    if found is None:
        raise UnknownNameError(f"there is no token {token}")
    if token in before:
        tell(workspace, TOKEN_REVOKED, identity.person, id=token, person=found.person)
    return found
