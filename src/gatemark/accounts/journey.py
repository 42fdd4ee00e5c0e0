"""Sign-in, people and tokens; every change is an event in the ledger."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, Literal

import msgspec

from gatemark.accounts.nouns import (
    SCOPES,
    Scope,
    Token,
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
    SYSTEM,
    TOKEN_MADE,
    TOKEN_REVOKED,
    Channel,
    as_payload,
)
from gatemark.lifecycle.commands import GrantRoles
from gatemark.lifecycle.events.fact import WORKSPACE_SUBJECT
from gatemark.lifecycle.events.governance import AccessGiven
from gatemark.lifecycle.journey import act, preview
from gatemark.lifecycle.model.nouns import Role
from gatemark.lifecycle.state_cache import asset_state_cache
from gatemark.workspace import Workspace

ADMIN: Final[Role] = "admin"
FAILURES_EVERY: Final = timedelta(hours=1)
MOST_NAMES: Final = 20
"""How many names and addresses an event of failed sign-ins lists, the most frequent first."""
PASSWORD: Final = "password"  # noqa: S105 - the name of a way to sign in


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


class NewToken(msgspec.Struct, frozen=True):
    """A new token with its secret, which is shown only once."""

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
    """Return the roles of a person, from the ledger."""
    return asset_state_cache(workspace).read(WORKSPACE_SUBJECT).governance.roles.get(person, ())


def is_one_person(workspace: Workspace) -> bool:
    """Whether the store is in one-person mode: one person may approve their own versions."""
    return asset_state_cache(workspace).read(WORKSPACE_SUBJECT).governance.policy.one_person


def _admins(workspace: Workspace) -> list[str]:
    roles = asset_state_cache(workspace).read(WORKSPACE_SUBJECT).governance.roles
    return sorted(name for name, held in roles.items() if ADMIN in held)


def tell(workspace: Workspace, kind: str, actor: str, **payload: object) -> None:
    """Record an account event in the ledger."""
    workspace.events.append([EventDraft(kind, workspace.clock(), actor, None, payload)])


def _tell_access(workspace: Workspace, kind: str, actor: str, person: str) -> None:
    """Record that somebody gave a person a way to sign in; votes are judged by it."""
    given, at = AccessGiven(person=person), workspace.clock()
    workspace.events.append(
        [
            EventDraft(kind, at, actor, None, {"person": person}),
            EventDraft(given.declared.name, at, actor, given.subject, as_payload(given)),
        ]
    )


def first_link(workspace: Workspace) -> str | None:
    """Return the secret of a link for the first admin; None if someone can already sign in.

    If the ledger has an admin, the link is for that person only.
    """
    people = [person for person in people_of(workspace).all() if not person.is_closed]
    admins = _admins(workspace)
    provided = identities_of(workspace).people() & set(admins)
    if any(person.has_password or person.name in provided for person in people):
        return None
    return people_of(workspace).new_link(admins[0] if admins else None, workspace.clock())


def link_for(workspace: Workspace, person: str) -> str:
    """Return the secret of a link to set a password, for a person with an account or a role."""
    known = {one.name for one in people_of(workspace).all() if not one.is_closed}
    if person not in known and not roles_of(workspace, person):
        raise UnknownNameError(f"there is no person {person}")
    _tell_access(workspace, LINK_MADE, workspace.actor, person)
    return people_of(workspace).new_link(person, workspace.clock())


def link_holder(workspace: Workspace, secret: str) -> tuple[str | None] | None:
    """Return the person a link is for, in a tuple; None if the link is not valid."""
    return people_of(workspace).link(secret, workspace.clock())


def join(workspace: Workspace, secret: str, name: str, password: str) -> str:
    """Use a link: set a password and start a session. The first person becomes admin."""
    asset_state_cache(workspace).unpin()
    is_first = link_holder(workspace, secret) == (None,) and not _admins(workspace)
    if is_first:
        preview(workspace, GrantRoles(actor=name, person=name, roles=(ADMIN,)))
    people_of(workspace).use_link(secret, name, password, workspace.clock())
    if is_first:
        workspace.channel = Channel("session", "link")
        note = "the first admin, by the link that the server printed"
        act(workspace, GrantRoles(actor=name, person=name, roles=(ADMIN,), note=note))
    tell(workspace, PASSWORD_SET, name)
    return people_of(workspace).new_session(name, PASSWORD, workspace.clock())


class FailedSignIns:
    """Failed sign-ins of one server, recorded as one event an hour and not as one each.

    The first failure is recorded at once. Those that follow are counted, and recorded together
    when the hour is over: at the next attempt, or when the server stops.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reported_at: datetime | None = None
        self._since: datetime | None = None
        self._names: Counter[str] = Counter()
        self._places: Counter[str] = Counter()
        self._last: dict[str, object] = {}

    def add(self, workspace: Workspace, *, where: str, **said: object) -> None:
        """Count a failure; ``said`` is what is known of it, such as the name."""
        now = workspace.clock()
        with self._lock:
            self._since = self._since or now
            self._names[str(said.get("name", "unknown"))] += 1
            self._places[where] += 1
            self._last = {"where": where, **said}
        self.settle(workspace)

    def settle(self, workspace: Workspace, *, at_once: bool = False) -> None:
        """Record what was counted, if the hour is over."""
        now = workspace.clock()
        with self._lock:
            count = self._names.total()
            is_due = self._reported_at is None or now - self._reported_at >= FAILURES_EVERY
            if not count or not (is_due or at_once):
                return
            payload = {**self._last, "count": count}
            if count > 1 and self._since is not None:
                payload["since"] = self._since.isoformat()
                payload["names"] = dict(self._names.most_common(MOST_NAMES))
                payload["places"] = dict(self._places.most_common(MOST_NAMES))
            self._reported_at, self._since = now, None
            self._names, self._places = Counter(), Counter()
        tell(workspace, SIGN_IN_FAILED, SYSTEM, **payload)


def sign_in(
    workspace: Workspace,
    name: str,
    password: str,
    *,
    where: str,
    before: str | None,
    failures: FailedSignIns,
) -> str:
    """Start a new session. Failures are counted and recorded."""
    if not people_of(workspace).is_known(name, password):
        failures.add(workspace, where=where, name=name[:64])
        raise NotAllowedError("wrong name or password")
    failures.settle(workspace)
    if before is not None:
        people_of(workspace).end_session(before)
    tell(workspace, SIGNED_IN, name, where=where)
    return people_of(workspace).new_session(name, PASSWORD, workspace.clock())


def sign_out(workspace: Workspace, secret: str) -> None:
    """End a session."""
    session = people_of(workspace).session(secret, workspace.clock())
    people_of(workspace).end_session(secret)
    if session is not None and session.person is not None:
        tell(workspace, SIGNED_OUT, session.person)


def look_now(workspace: Workspace, *, once: bool) -> None:
    """Read the ledger once for a request, or, if it changes something, each time."""
    if once:
        asset_state_cache(workspace).pin()
    else:
        asset_state_cache(workspace).unpin()


def state_mark(workspace: Workspace, asset: str) -> tuple[int, int]:
    """Return a mark of the known state of an asset, as a cache key."""
    return asset_state_cache(workspace).mark(asset)


def by_session(workspace: Workspace, secret: str) -> Identity | None:
    """Return the identity of a session."""
    session = people_of(workspace).session(secret, workspace.clock())
    if session is None or session.person is None:
        return None
    roles = roles_of(workspace, session.person)
    return Identity(session.person, roles, "session", session.authentication)


def by_token(workspace: Workspace, text: str) -> Identity | None:
    """Return the identity of a token, with its scopes."""
    token = people_of(workspace).token_holder(text, workspace.clock())
    if token is None:
        return None
    roles = roles_of(workspace, token.person)
    return Identity(token.person, roles, "token", f"token {token.id}", token.scopes)


def _require_admin(identity: Identity, what: str) -> None:
    if not identity.is_admin:
        raise NotAllowedError(f"{identity.person} must be admin, in person, to {what}")


def people(workspace: Workspace, identity: Identity) -> tuple[PersonLine, ...]:
    """Return everyone with an account or a role; for admins and auditors."""
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
    """Add an account with roles; return the secret of the link to set its password."""
    _require_admin(identity, "add people")
    command = GrantRoles(actor=identity.person, person=name, roles=tuple(roles))
    preview(workspace, command)
    people_of(workspace).add(name, workspace.clock())
    act(workspace, command)
    _tell_access(workspace, ACCOUNT_ADDED, identity.person, name)
    return people_of(workspace).new_link(name, workspace.clock())


def set_roles(workspace: Workspace, identity: Identity, name: str, roles: Sequence[Role]) -> None:
    """Give a person exactly these roles."""
    _require_admin(identity, "grant roles")
    if name not in {line.name for line in people(workspace, identity)}:
        raise UnknownNameError(f"there is no person {name}")
    act(workspace, GrantRoles(actor=identity.person, person=name, roles=tuple(roles)))


def new_link(workspace: Workspace, identity: Identity, name: str) -> str:
    """Return the secret of a link to set a password, made by an admin for another person."""
    _require_admin(identity, "make links")
    if name not in {line.name for line in people(workspace, identity) if not line.is_closed}:
        raise UnknownNameError(f"there is no person {name}")
    _tell_access(workspace, LINK_MADE, identity.person, name)
    return people_of(workspace).new_link(name, workspace.clock())


def close_person(workspace: Workspace, identity: Identity, name: str) -> None:
    """Close an account and take its roles away."""
    _require_admin(identity, "close accounts")
    if name == identity.person:
        raise RefusedError("you cannot close your own account")
    if name not in {line.name for line in people(workspace, identity)}:
        raise UnknownNameError(f"there is no person {name}")
    act(workspace, GrantRoles(actor=identity.person, person=name, roles=()))
    if people_of(workspace).close(name):
        tell(workspace, ACCOUNT_CLOSED, identity.person, person=name)


def make_token(
    workspace: Workspace, identity: Identity, label: str, scopes: Sequence[Scope], days: int
) -> NewToken:
    """Make a token for the signed-in person; a token cannot make another."""
    if identity.way != "session":
        raise NotAllowedError("a token cannot make tokens; sign in first")
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
    """Return the tokens of the signed-in person."""
    return people_of(workspace).tokens(identity.person)


def drop_token(workspace: Workspace, identity: Identity, token: str) -> Token:
    """Revoke an own token, or, as an admin, anyone's."""
    owner = None if identity.is_admin else identity.person
    before = {one.id for one in people_of(workspace).tokens(owner) if one.revoked_at is None}
    found = people_of(workspace).revoke_token(token, owner, workspace.clock())
    if found is None:
        raise UnknownNameError(f"there is no token {token}")
    if token in before:
        tell(workspace, TOKEN_REVOKED, identity.person, id=token, person=found.person)
    return found
