"""``gatemark baseline``: which results candidates are compared with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click

from gatemark.cli.options import StrictGroup, actor_option, json_option, store_option
from gatemark.cli.screen import say, show
from gatemark.core.errors import UsageError
from gatemark.packs.baselines import NamedBaseline, accept_baseline, list_baselines, set_baseline
from gatemark.workspace import Workspace


@click.group("baseline", cls=StrictGroup)
def baseline_command() -> None:
    """Name the sealed results that candidates are compared with."""


@baseline_command.command("set")
@click.argument("name")
@click.argument("reference", metavar="RESULT")
@click.option(
    "--note",
    default="",
    show_default=False,
    help="Reason; shown with every result that uses the baseline.",
)
@actor_option
@store_option
@json_option
def set_command(
    *, name: str, reference: str, note: str, actor: str | None, store: str, json: bool
) -> None:
    """Give a sealed result a name, for 'run --baseline NAME'.

    The result must have passed, or 'gatemark baseline accept' must have accepted it. A name belongs
    to a pack and an asset; setting it again moves it, and the ledger records who did.

    \b
    Example:
      gatemark baseline set release-7 3f2a9c01
    """
    workspace = Workspace(store=store, actor=actor)
    show(
        set_baseline(workspace, name, reference, note), lambda one: _format_lines([one]), json=json
    )


@baseline_command.command("show")
@click.argument("name")
@store_option
@json_option
def show_command(name: str, store: str, json: bool) -> None:
    """Show the result behind a name, and who set it.

    \b
    Example:
      gatemark baseline show release-7
    """
    found = [one for one in list_baselines(Workspace(store=store)) if one.name == name]
    if not found:
        raise UsageError(f"no baseline is called {name!r}; see: gatemark baseline list")
    show(found, _format_lines, json=json)


@baseline_command.command("list")
@store_option
@json_option
def list_command(store: str, json: bool) -> None:
    """List the baselines of a store.

    \b
    Example:
      gatemark baseline list
    """
    found = list_baselines(Workspace(store=store))
    show(found, _format_lines, json=json)
    if not found and not json:
        say("no baselines yet; create one: gatemark baseline set NAME RESULT", err=True)


def _format_lines(found: Sequence[NamedBaseline]) -> Iterator[str]:
    for one in found:
        note = f"  {one.note}" if one.note else ""
        yield (
            f"{one.name}  {one.result[7:19]}  pack {one.pack}, {one.asset}  "
            f"set by {one.actor} on {one.at:%Y-%m-%d}{note}"
        )


@baseline_command.command("accept")
@click.argument("reference", metavar="RESULT")
@click.option("--reason", required=True, metavar="TEXT", help="Reason; recorded in the ledger.")
@actor_option
@store_option
@json_option
def accept_command(
    *, reference: str, reason: str, actor: str | None, store: str, json: bool
) -> None:
    """Accept a sealed result as a baseline, with a reason.

    Its verdict does not change, and no promotion can cite it. Results that are compared with it
    name who accepted it and why.

    \b
    Example:
      gatemark baseline accept 3f2a9c01 --reason "known to fail on two outdated items"
    """
    workspace = Workspace(store=store, actor=actor)
    result, at = accept_baseline(workspace, reference, reason)
    said = {"result": result.id, "verdict": result.verdict, "actor": workspace.actor, "at": at}
    show(
        {**said, "reason": reason.strip()},
        lambda _: f"{result.id[7:19]} ({result.verdict}) accepted by {workspace.actor}: {reason}",
        json=json,
    )
