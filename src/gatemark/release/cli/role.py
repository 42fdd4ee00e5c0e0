"""``gatemark role``: who may do what."""

from __future__ import annotations

from typing import Final

import click

from gatemark.cli.options import StrictGroup, json_option, store_option
from gatemark.cli.screen import say, show
from gatemark.cli.struct_options import given_group, read_given
from gatemark.release.cli.options import Caller, caller_options, show_acted
from gatemark.release.lifecycle.act import act
from gatemark.release.lifecycle.commands import GrantRoles
from gatemark.release.lifecycle.state_cache import read_state
from gatemark.workspace import Workspace


@click.group("role", cls=StrictGroup)
def role_command() -> None:
    """Grant roles, and list who has which role."""


GRANTED: Final = ("person", "roles")
grant_options = given_group(GrantRoles, arguments=GRANTED)


@role_command.command("grant")
@grant_options
@caller_options
def grant(caller: Caller, given: dict[str, object]) -> None:
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
    workspace = caller.workspace(must_exist=False)
    command = read_given(GrantRoles, given, {"actor": workspace.actor}, arguments=GRANTED)
    unchanged = f"{command.person} already has these roles"
    show_acted(act(workspace, command), unchanged=unchanged, json=caller.json)


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
