"""Links to set a password: one for the first admin, and one for each person who needs it."""

from __future__ import annotations

from gatemark.core.errors import UnknownNameError
from gatemark.ledger.event_kinds import Channel
from gatemark.release.lifecycle.act import act, preview
from gatemark.release.lifecycle.commands import GrantRoles
from gatemark.release.lifecycle.events.fact import WORKSPACE_SUBJECT
from gatemark.release.lifecycle.state_cache import asset_state_cache
from gatemark.server.accounts.account_events import record_access_given, record_account_event
from gatemark.server.accounts.events import LINK_MADE, PASSWORD_SET
from gatemark.server.accounts.identity import ADMIN, Identity, read_roles, require_admin
from gatemark.server.accounts.open_stores import identities_of, people_of
from gatemark.server.accounts.people import list_people
from gatemark.server.accounts.sign_in import PASSWORD
from gatemark.workspace import Workspace


def make_first_link(workspace: Workspace) -> str | None:
    """Return the secret of a link for the first admin; None if someone can already sign in.

    If the ledger has an admin, the link is for that person only.
    """
    people = [person for person in people_of(workspace).all() if not person.is_closed]
    admins = _list_admins(workspace)
    provided = identities_of(workspace).people() & set(admins)
    if any(person.has_password or person.name in provided for person in people):
        return None
    return people_of(workspace).new_link(admins[0] if admins else None, workspace.clock())


def make_link(workspace: Workspace, person: str) -> str:
    """Return the secret of a link to set a password, for a person with an account or a role."""
    known = {one.name for one in people_of(workspace).all() if not one.is_closed}
    if person not in known and not read_roles(workspace, person):
        raise UnknownNameError(f"there is no person {person}")
    record_access_given(workspace, LINK_MADE, workspace.actor, person)
    return people_of(workspace).new_link(person, workspace.clock())


def make_link_as_admin(workspace: Workspace, identity: Identity, name: str) -> str:
    """Return the secret of a link to set a password, made by an admin for another person."""
    require_admin(identity, "make links")
    if name not in {line.name for line in list_people(workspace, identity) if not line.is_closed}:
        raise UnknownNameError(f"there is no person {name}")
    record_access_given(workspace, LINK_MADE, identity.person, name)
    return people_of(workspace).new_link(name, workspace.clock())


def find_link_holder(workspace: Workspace, secret: str) -> tuple[str | None] | None:
    """Return the person a link is for, in a tuple; None if the link is not valid."""
    return people_of(workspace).link(secret, workspace.clock())


def join(workspace: Workspace, secret: str, name: str, password: str) -> str:
    """Use a link: set a password and start a session. The first person becomes admin."""
    asset_state_cache(workspace).unpin()
    is_first = find_link_holder(workspace, secret) == (None,) and not _list_admins(workspace)
    if is_first:
        preview(workspace, GrantRoles(actor=name, person=name, roles=(ADMIN,)))
    people_of(workspace).use_link(secret, name, password, workspace.clock())
    if is_first:
        workspace.channel = Channel("session", "link")
        note = "the first admin, by the link that the server printed"
        act(workspace, GrantRoles(actor=name, person=name, roles=(ADMIN,), note=note))
    record_account_event(workspace, PASSWORD_SET, name)
    return people_of(workspace).new_session(name, PASSWORD, workspace.clock())


def _list_admins(workspace: Workspace) -> list[str]:
    roles = asset_state_cache(workspace).read(WORKSPACE_SUBJECT).governance.roles
    return sorted(name for name, held in roles.items() if ADMIN in held)
