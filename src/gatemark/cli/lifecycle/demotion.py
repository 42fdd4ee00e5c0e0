"""``gatemark demote`` and ``gatemark rollback``: taking authority away, without asking around."""

from __future__ import annotations

from typing import Any

import click

from gatemark.cli.lifecycle.options import (
    acting_options,
    acting_workspace,
    environment_option,
    show_acted,
)
from gatemark.core.errors import UsageError
from gatemark.lifecycle.commands import Demote, RollBack
from gatemark.lifecycle.journey import act
from gatemark.lifecycle.model.nouns import parse_version_ref
from gatemark.lifecycle.routing import route
from gatemark.workspace import Workspace


def _asset_and_version(text: str) -> tuple[str, str | None]:
    if "@" not in text:
        return text, None
    ref = parse_version_ref(text)
    return ref.asset, ref.version


def _tell_live(workspace: Workspace, flags: dict[str, Any], asset: str) -> None:
    """Say what serves now; that nothing does must not go unseen."""
    now = route(workspace, asset, flags["environment"])
    if now.primary is None:
        click.echo(f"nothing is routed in {now.environment} now: {now.reason}", err=True)
    else:
        click.echo(f"live in {now.environment} now: {asset}@{now.primary.version}", err=True)


@click.command("demote")
@click.argument("asset", metavar="ASSET[@VERSION]")
@click.option("--reason", required=True, help="Why; kept in the ledger.")
@click.option(
    "--to",
    type=click.Choice(["shadow", "demoted"]),
    default="demoted",
    show_default=True,
    help="Shadow keeps it watched at the sample rate; demoted needs a fresh full-pack result.",
)
@environment_option
@acting_options
def demote_command(**flags: Any) -> None:
    """Take a version out of service, the enabled one when none is named.

    One person is enough, and no approval is waited for. An earlier version whose results still
    verify takes over. Doing it twice changes nothing.

    \b
    Example:
      gatemark demote triage --reason "wrong language since noon"
    """
    asset, version = _asset_and_version(flags["asset"])
    if flags["note"]:
        raise UsageError("say why with --reason")
    if not flags["reason"].strip():
        raise UsageError("--reason must say why")
    workspace = acting_workspace(flags)
    command = Demote(
        actor=workspace.actor,
        asset=asset,
        version=version,
        to=flags["to"],
        environment=flags["environment"],
        note=flags["reason"],
    )
    show_acted(flags, act(workspace, command), unchanged="it is out of service already")
    _tell_live(workspace, flags, asset)


@click.command("rollback")
@click.argument("asset", metavar="ASSET[@VERSION]")
@click.option("--to", metavar="VERSION", help="Which earlier version; the last one by default.")
@environment_option
@acting_options
def rollback_command(**flags: Any) -> None:
    """Go back at once: end the canary, or return to the version before.

    Restores the whole pin set of the earlier version, citing the results it was enabled by. No
    approval is waited for. Doing it twice changes nothing: to go back further, name the version
    to leave.

    \b
    Examples:
      gatemark rollback triage --note "complaints about refunds"
      gatemark rollback triage@2.1.0 --to 1.9.0
    """
    asset, version = _asset_and_version(flags["asset"])
    workspace = acting_workspace(flags)
    command = RollBack(
        actor=workspace.actor,
        asset=asset,
        version=version,
        to=flags["to"],
        environment=flags["environment"],
        note=flags["note"],
    )
    unchanged = "already rolled back, and nothing was promoted since; name ASSET@VERSION to go on"
    show_acted(flags, act(workspace, command), unchanged=unchanged)
    _tell_live(workspace, flags, asset)
