"""``gatemark route``: what a serving system should use now."""

from __future__ import annotations

from collections.abc import Iterator

import click

from gatemark.cli.options import StrictCommand, json_option, store_option
from gatemark.cli.screen import say, show
from gatemark.core.errors import ExitCode
from gatemark.release.attribution.routing_notes import NotedRoute, noted_route
from gatemark.release.cli.options import environment_option
from gatemark.workspace import Workspace


@click.command("route", cls=StrictCommand)
@click.argument("asset")
@environment_option
@store_option
@json_option
def route_command(*, asset: str, environment: str, store: str, json: bool) -> int:
    """Show what to use now: primary, canary, shadow, fallback.

    A version whose results are missing, changed or not passed is left out. Accepted routing notes
    of attributions about a routed version are shown with the id of the attribution; they do not
    change the route. Exit 1 if nothing may serve, and 3 if the ledger has decisions about the asset
    by rules that this build does not have: what rests on them does not serve.

    \b
    Example:
      gatemark route triage --json
    """
    found = noted_route(Workspace(store=store), asset, environment)
    show(found, _format_lines, json=json)
    for warning in () if json else found.warnings:
        say(f"warning: {warning}", err=True)
    for note in () if json else found.undecided:
        say(f"could not be judged: {note}", err=True)
    if found.undecided:
        return ExitCode.INCONCLUSIVE
    return ExitCode.PASS if found.primary is not None else ExitCode.FAIL


def _format_lines(found: NotedRoute) -> Iterator[str]:
    primary = found.primary
    yield f"primary   {'none: ' + str(found.reason) if primary is None else primary.version}"
    if primary is not None:
        yield f"  digest  {primary.digest}"
        yield f"  pins    {primary.pins_digest}"
    if found.canary is not None:
        word = "watch" if found.canary.is_watch else "canary"
        baseline = found.canary.baseline.version if found.canary.baseline else "none"
        paused = ", paused" if found.canary.is_paused else ""
        share = f"{found.canary.share:.0%} against {baseline}"
        yield f"{word:<9} {found.canary.target.version} at {share}{paused}"
    for sampled in found.shadow:
        yield f"shadow    {sampled.target.version} at {sampled.sample_rate:.0%}"
    yield f"fallback  {found.fallback.version if found.fallback else 'none'}"
    for note in found.notes:
        avoid = ", ".join(f"{name} {version}" for name, version in note.avoid.items())
        yield f"note      avoid {avoid}: {note.summary}"
        yield f"  cites   {note.attribution}, accepted by {note.accepted_by}"
