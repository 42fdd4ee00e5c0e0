"""``gatemark route``: what a serving system should use now."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from gatemark.cli.lifecycle.options import environment_option
from gatemark.cli.options import json_option, store_option
from gatemark.cli.screen import print_json
from gatemark.core.errors import ExitCode
from gatemark.lifecycle.routing import route
from gatemark.workspace import Workspace


@click.command("route")
@click.argument("asset")
@environment_option
@store_option
@json_option
def route_command(**flags: Any) -> int:
    """Tell what to use now: primary, canary, shadow, fallback.

    A version whose results are missing, changed or not passed is left out. Exit 1 when nothing
    may serve.

    \b
    Example:
      gatemark route triage --json
    """
    found = route(Workspace(store=flags["store"]), flags["asset"], flags["environment"])
    if flags["json"]:
        print_json(msgspec.to_builtins(found))
        return ExitCode.PASS if found.primary is not None else ExitCode.FAIL
    primary = found.primary
    click.echo(f"primary   {'none: ' + str(found.reason) if primary is None else primary.version}")
    if primary is not None:
        click.echo(f"  digest  {primary.digest}")
        click.echo(f"  pins    {primary.pins_digest}")
    if found.canary is not None:
        word = "watch" if found.canary.is_watch else "canary"
        baseline = found.canary.baseline.version if found.canary.baseline else "none"
        paused = ", paused" if found.canary.is_paused else ""
        share = f"{found.canary.share:.0%} against {baseline}"
        click.echo(f"{word:<9} {found.canary.target.version} at {share}{paused}")
    for sampled in found.shadow:
        click.echo(f"shadow    {sampled.target.version} at {sampled.sample_rate:.0%}")
    click.echo(f"fallback  {found.fallback.version if found.fallback else 'none'}")
    for warning in found.warnings:
        click.echo(f"warning: {warning}", err=True)
    return ExitCode.PASS if primary is not None else ExitCode.FAIL
