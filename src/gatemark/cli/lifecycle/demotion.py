"""``gatemark demote`` and ``gatemark rollback``: take authority away without approvals."""

from __future__ import annotations

from typing import Literal

import click

from gatemark.cli.lifecycle.options import (
    Acting,
    acting_options,
    dry_run_option,
    environment_option,
)
from gatemark.cli.options import StrictCommand
from gatemark.cli.screen import say
from gatemark.core.errors import UsageError
from gatemark.lifecycle.commands import Demote, RollBack
from gatemark.lifecycle.model.nouns import parse_version_ref
from gatemark.lifecycle.routing import route
from gatemark.workspace import Workspace

stop_option = click.option(
    "--stop", is_flag=True, help="Demote even if no version serves afterwards."
)
STOPPED = "(--stop)"
"""Prefix of the note if the caller accepts that nothing serves afterwards."""


def _parse_asset_or_version(text: str) -> tuple[str, str | None]:
    if "@" not in text:
        return text, None
    ref = parse_version_ref(text)
    return ref.asset, ref.version


def _print_live(workspace: Workspace, asset: str, environment: str) -> None:
    """Print what serves now, so that nobody overlooks that nothing does."""
    now = route(workspace, asset, environment)
    if now.primary is None:
        say(f"no version may serve in {now.environment} now: {now.reason}", err=True)
    else:
        say(f"live in {now.environment} now: {asset}@{now.primary.version}", err=True)


@click.command("demote", cls=StrictCommand)
@click.argument("asset", metavar="ASSET[@VERSION]")
@click.option("--reason", required=True, help="Reason, recorded in the ledger.")
@click.option(
    "--to",
    type=click.Choice(["shadow", "demoted"]),
    default="demoted",
    help="Stage to go to. Shadow keeps it measured at the sample rate; demoted needs a fresh "
    "required-pack result to return.",
)
@stop_option
@environment_option
@dry_run_option
@acting_options
def demote_command(
    acting: Acting,
    *,
    asset: str,
    reason: str,
    to: Literal["shadow", "demoted"],
    stop: bool,
    environment: str,
    dry_run: bool,
) -> None:
    """Take a version out of service (default: the enabled one).

    One person is enough; no approval is needed. An earlier version whose results still verify takes
    over; if there is none, the last version stays live unless you pass --stop. A second demotion
    changes nothing.

    \b
    Example:
      gatemark demote triage --reason "wrong language since noon"
    """
    asset, version = _parse_asset_or_version(asset)
    if acting.note:
        raise UsageError("give a reason with --reason")
    if not reason.strip():
        raise UsageError("--reason must not be blank")
    workspace = acting.workspace()
    command = Demote(
        actor=workspace.actor,
        asset=asset,
        version=version,
        to=to,
        environment=environment,
        note=f"{STOPPED} {reason}" if stop else reason,
        needs_fallback=not stop,
    )
    unchanged = "it is already out of service"
    if acting.carry_out(workspace, command, unchanged=unchanged, dry_run=dry_run):
        _print_live(workspace, asset, environment)


@click.command("rollback", cls=StrictCommand)
@click.argument("asset", metavar="ASSET[@VERSION]")
@click.option(
    "--to",
    "--to-version",
    metavar="VERSION",
    help="Earlier version to return to (default: the last one).",
)
@stop_option
@environment_option
@dry_run_option
@acting_options
def rollback_command(
    acting: Acting, *, asset: str, to: str | None, stop: bool, environment: str, dry_run: bool
) -> None:
    """Roll back at once: end the canary, or return to the previous version.

    Restores the whole pin set of the earlier version and cites the results it was enabled by. No
    approval is needed. If no earlier version can take over, the last one stays live unless you
    pass --stop. A second rollback changes nothing: to go back further, name the version to leave.

    \b
    Examples:
      gatemark rollback triage --note "complaints about refunds"
      gatemark rollback triage@2.1.0 --to 1.9.0
    """
    asset, version = _parse_asset_or_version(asset)
    workspace = acting.workspace()
    command = RollBack(
        actor=workspace.actor,
        asset=asset,
        version=version,
        to=to,
        environment=environment,
        note=f"{STOPPED} {acting.note}".strip() if stop else acting.note,
        needs_fallback=not stop,
    )
    unchanged = "already rolled back, nothing promoted since; name ASSET@VERSION to go further back"
    if acting.carry_out(workspace, command, unchanged=unchanged, dry_run=dry_run):
        _print_live(workspace, asset, environment)
