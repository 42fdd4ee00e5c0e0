"""``gatemark demote`` and ``gatemark rollback``: take authority away without approvals."""

from __future__ import annotations

import click

from gatemark.cli.options import StrictCommand
from gatemark.cli.screen import say
from gatemark.release.cli.options import ActOptions, act_options
from gatemark.release.lifecycle.commands import Demote, RollBack
from gatemark.release.lifecycle.routing import route
from gatemark.workspace import Workspace


def _print_live(workspace: Workspace, asset: str, environment: str) -> None:
    """Print what serves now, so that nobody overlooks that nothing does."""
    now = route(workspace, asset, environment)
    if now.primary is None:
        say(f"no version may serve in {now.environment} now: {now.reason}", err=True)
    else:
        say(f"live in {now.environment} now: {asset}@{now.primary.version}", err=True)


@click.command("demote", cls=StrictCommand)
@act_options(Demote)
def demote_command(asked: ActOptions[Demote]) -> None:
    """Take a version out of service (default: the enabled one).

    One person is enough; no approval is needed. An earlier version whose results still verify takes
    over; if there is none, the last version stays live unless you pass --stop. A second demotion
    changes nothing.

    \b
    Example:
      gatemark demote triage --reason "wrong language since noon"
    """
    workspace = asked.workspace()
    command = asked.command(workspace)
    if asked.carry_out(workspace, command, unchanged="it is already out of service"):
        _print_live(workspace, command.asset, command.environment)


@click.command("rollback", cls=StrictCommand)
@act_options(RollBack)
def rollback_command(asked: ActOptions[RollBack]) -> None:
    """Roll back at once: end the canary, or return to the previous version.

    Restores the whole pin set of the earlier version and cites the results it was enabled by. No
    approval is needed. If no earlier version can take over, the last one stays live unless you
    pass --stop. A second rollback changes nothing: to go back further, name the version to leave.

    \b
    Examples:
      gatemark rollback triage --note "complaints about refunds"
      gatemark rollback triage@2.1.0 --to 1.9.0
    """
    workspace = asked.workspace()
    command = asked.command(workspace)
    unchanged = "already rolled back, nothing promoted since; name ASSET@VERSION to go further back"
    if asked.carry_out(workspace, command, unchanged=unchanged):
        _print_live(workspace, command.asset, command.environment)
