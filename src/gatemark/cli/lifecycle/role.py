"""``gatemark role``: who may do what."""

from __future__ import annotations

from typing import get_args

import click

from gatemark.cli.lifecycle.options import Acting, acting_options
from gatemark.cli.options import StrictGroup, json_option, store_option
from gatemark.cli.screen import say, show
from gatemark.lifecycle.act import act
from gatemark.lifecycle.commands import GrantRoles
from gatemark.lifecycle.model.nouns import Role
from gatemark.lifecycle.state_cache import read_state
from gatemark.workspace import Workspace

ROLES = [role for role in get_args(Role) if role != "system"]


@click.group("role", cls=StrictGroup)
def role_command() -> None:
    """Grant roles, and list who has which role."""


@role_command.command("grant")
@click.argument("person")
@click.argument("roles", nargs=-1, type=click.Choice(ROLES))
@acting_options
def grant(acting: Acting, *, person: str, roles: tuple[Role, ...]) -> None:
    """Give a person exactly these roles; without roles, remove all.

    The first person to take the admin role of a store gets it; from then on only admins grant. An
    admin cannot also be author, evaluator, operator or approver, unless the release policy has
    one_person: true. The ledger records who granted what, but without a server nothing proves that
    an actor is who the name says.

    \b
    Examples:
      gatemark role grant --actor ada ada admin
      gatemark role grant --actor ada bob approver operator
    """
    workspace = acting.workspace(must_exist=False)
    command = GrantRoles(actor=workspace.actor, person=person, roles=roles, note=acting.note)
    acting.show(act(workspace, command), unchanged=f"{person} already has these roles")


@role_command.command("list")
@store_option
@json_option
def list_roles(store: str, json: bool) -> None:
    """List who has which role.

    \b
    Example:
      gatemark role list
    """
    workspace = Workspace(store=store)
    workspace.existing_store()
    roles = read_state(workspace, "*").governance.roles
    show(
        dict(sorted(roles.items())),
        lambda roles: [f"{person}: {', '.join(held)}" for person, held in roles.items()],
        json=json,
    )
    if not roles and not json:
        say("nobody has a role yet; start with 'gatemark role grant'", err=True)
