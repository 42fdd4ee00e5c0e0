"""Everyone with an account or a role: list, add, give roles, close."""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta

from gatemark.core.errors import NotAllowedError, RefusedError, UnknownNameError
from gatemark.release.lifecycle.act import CommandResult, act, preview
from gatemark.release.lifecycle.commands import GrantRoles, NoteField, Roles
from gatemark.release.lifecycle.events.fact import WORKSPACE_SUBJECT
from gatemark.release.lifecycle.model.nouns import Role
from gatemark.release.lifecycle.state_cache import asset_state_cache
from gatemark.server.accounts.account_events import record_access_given, record_account_event
from gatemark.server.accounts.events import ACCOUNT_ADDED, ACCOUNT_CLOSED
from gatemark.server.accounts.identity import ADMIN, Identity, require_admin
from gatemark.server.accounts.open_stores import identities_of, people_of
from gatemark.workspace import Workspace


class PersonLine(msgspec.Struct, frozen=True):
    """An account as the list of people shows it; a provided one is reached through a provider."""

    name: str
    roles: tuple[Role, ...]
    is_closed: bool
    has_password: bool
    is_provided: bool


PersonName = Annotated[str, Meta(min_length=1, max_length=64, description="Name of the person.")]


class AddPerson(msgspec.Struct, frozen=True, kw_only=True):
    """Add a person with roles."""

    name: PersonName
    roles: Roles
    note: NoteField = ""
    is_in_person: ClassVar[bool] = True


def list_people(workspace: Workspace, identity: Identity) -> tuple[PersonLine, ...]:
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


def add_person(workspace: Workspace, identity: Identity, new: AddPerson) -> str:
    """Add an account with roles; return the secret of the link to set its password."""
    require_admin(identity, "add people")
    command = GrantRoles(actor=identity.person, person=new.name, roles=new.roles, note=new.note)
    preview(workspace, command)
    people_of(workspace).add(new.name, workspace.clock())
    act(workspace, command)
    record_access_given(workspace, ACCOUNT_ADDED, identity.person, new.name)
    return people_of(workspace).new_link(new.name, workspace.clock())


def set_roles(workspace: Workspace, identity: Identity, command: GrantRoles) -> CommandResult:
    """Give a person exactly these roles."""
    preview(workspace, command)
    if command.person not in {line.name for line in list_people(workspace, identity)}:
        raise UnknownNameError(f"there is no person {command.person}")
    return act(workspace, command)


def close_person(workspace: Workspace, identity: Identity, name: str) -> None:
    """Close an account and take its roles away."""
    require_admin(identity, "close accounts")
    if name == identity.person:
        raise RefusedError("you cannot close your own account")
    if name not in {line.name for line in list_people(workspace, identity)}:
        raise UnknownNameError(f"there is no person {name}")
    act(workspace, GrantRoles(actor=identity.person, person=name, roles=()))
    if people_of(workspace).close(name):
        record_account_event(workspace, ACCOUNT_CLOSED, identity.person, person=name)
