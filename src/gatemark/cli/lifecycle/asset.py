"""``gatemark asset``: versions, what they are made of, and what became of them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, cast, get_args

import click
import msgspec

from gatemark.cli.lifecycle.options import (
    acting_options,
    acting_workspace,
    environment_option,
    show_acted,
)
from gatemark.cli.moments import MOMENT
from gatemark.cli.options import json_option, store_option
from gatemark.cli.screen import print_json
from gatemark.core.canonical import json_file
from gatemark.core.result import AssetKind
from gatemark.lifecycle.assets import NewVersion, add_version, asset_names, set_exam
from gatemark.lifecycle.commands import PauseVersion, ReportService, ResumeVersion, Waive
from gatemark.lifecycle.journey import act
from gatemark.lifecycle.model.nouns import PauseReason, Risk, parse_version_ref
from gatemark.lifecycle.views.history import asset_history
from gatemark.lifecycle.views.text import asset_text, history_text, list_text
from gatemark.lifecycle.views.views import asset_card, asset_rows
from gatemark.report.outputs import check_extensions, load_renderer, write_documents
from gatemark.workspace import Workspace

PAGE = "gatemark.lifecycle.views.page"
"""Renders HTML, and is loaded only when somebody asks for a page."""


@click.group("asset")
def asset_command() -> None:
    """Register versions and see what became of them."""


@asset_command.command("add")
@click.argument("version", metavar="ASSET@VERSION")
@click.option("--kind", type=click.Choice(get_args(AssetKind)), help="Needed for a new asset.")
@click.option("--risk", type=click.Choice(get_args(Risk)), help="High risk needs more approvals.")
@click.option("--digest", metavar="DIGEST", help="The digest of its content.")
@click.option("--from", "result", metavar="RESULT", help="The candidate of this sealed result.")
@click.option("--file", "files", multiple=True, help="Its content; kept in the store. Repeatable.")
@click.option("--parent", metavar="VERSION", help="What it was made from; the live one by default.")
@click.option(
    "--pin",
    "pins",
    multiple=True,
    metavar="NAME=VALUE",
    help="model, prompt, retrieval, ontology, policy, routing or tool.NAME. Repeatable.",
)
@click.option("--schema", metavar="FILE", help="Its JSON Schema; compared with its parent's.")
@click.option("--scope-change", is_flag=True, help="It may do more than before: security signs.")
@acting_options
def add(**flags: Any) -> None:
    """Draft a version; whoever adds it is its author.

    \b
    Examples:
      gatemark asset add triage@2.1.0 --kind prompt --file prompt.txt --pin model=m-7
      gatemark asset add triage@2.1.0 --from 3f2a9c01
    """
    workspace = acting_workspace(flags, must_exist=False)
    new = NewVersion(
        ref=parse_version_ref(flags["version"]),
        kind=flags["kind"],
        risk=flags["risk"],
        digest=flags["digest"],
        result=flags["result"],
        files=flags["files"],
        parent=flags["parent"],
        pins=flags["pins"],
        schema=flags["schema"],
        is_scope_change=flags["scope_change"],
        note=flags["note"],
    )
    acted = add_version(workspace, new, actor=workspace.actor)
    show_acted(flags, acted, unchanged=f"{flags['version']} is there already")


@asset_command.command("pack")
@click.argument("asset")
@click.argument("pack")
@acting_options
def pack(**flags: Any) -> None:
    """Make a pack the full pack of an asset: the one that a result must have sat.

    Whoever does this cannot approve by it. A result counts when pack name, version, rules and
    data are the same; data of replay suites may be newer.

    \b
    Example:
      gatemark asset pack triage packs/triage.yaml --actor pam
    """
    workspace = acting_workspace(flags)
    acted = set_exam(
        workspace, flags["asset"], flags["pack"], actor=workspace.actor, note=flags["note"]
    )
    show_acted(flags, acted, unchanged="this is the full pack already")


@asset_command.command("list")
@store_option
@json_option
def list_assets(store: str, json: bool) -> None:
    """List assets and what is live.

    \b
    Example:
      gatemark asset list
    """
    rows = asset_rows(Workspace(store=store), asset_names(Workspace(store=store)))
    if json:
        print_json([msgspec.to_builtins(row) for row in rows])
        return
    click.echo(list_text(rows), nl=False)
    if not rows:
        click.echo("no assets yet; 'gatemark asset add' makes one", err=True)


@asset_command.command("show")
@click.argument("asset")
@environment_option
@store_option
@json_option
def show(asset: str, environment: str, store: str, json: bool) -> None:
    """Show the versions of an asset and where they stand.

    The revision is what --expect of other commands takes.

    \b
    Example:
      gatemark asset show triage
    """
    card = asset_card(Workspace(store=store), asset, environment)
    if json:
        print_json(msgspec.to_builtins(card))
    else:
        click.echo(asset_text(card), nl=False)


@asset_command.command("history")
@click.argument("asset")
@click.option("--at", type=MOMENT, metavar="MOMENT", help="What was live then; now by default.")
@click.option(
    "--limit",
    type=click.IntRange(1, 100_000),
    default=50,
    show_default=True,
    help="How many events.",
)
@click.option(
    "-o",
    "--output",
    multiple=True,
    metavar="FILE",
    help="Also write it (.json, .html). Repeatable.",
)
@store_option
@json_option
def history(**flags: Any) -> None:
    """Tell what was live at any time, and why.

    \b
    Examples:
      gatemark asset history triage
      gatemark asset history triage --at 2027-03-01T12:00:00Z -o history.html
    """
    check_extensions(flags["output"], (".json", ".html"))
    found = asset_history(
        Workspace(store=flags["store"]), flags["asset"], at=flags["at"], limit=flags["limit"]
    )
    write_documents(
        flags["output"],
        {
            ".json": lambda: json_file(found),
            ".html": lambda: load_renderer(
                "gatemark.lifecycle.views.page", "render_history", ".html"
            )(found),
        },
    )
    if flags["json"]:
        print_json(msgspec.to_builtins(found))
    else:
        click.echo(history_text(found), nl=False)


@asset_command.command("pause")
@click.argument("version", metavar="ASSET@VERSION")
@click.option(
    "--reason",
    type=click.Choice(get_args(PauseReason)),
    default="operator",
    show_default=True,
    help="Why it stops.",
)
@environment_option
@acting_options
def pause(**flags: Any) -> None:
    """Stop a version where it is; it goes no further until it is resumed.

    \b
    Example:
      gatemark asset pause triage@2.1.0 --reason freeze --note "quarter end"
    """
    ref = parse_version_ref(flags["version"])
    workspace = acting_workspace(flags)
    command = PauseVersion(
        actor=workspace.actor,
        asset=ref.asset,
        version=ref.version,
        environment=flags["environment"],
        reason=cast("PauseReason", flags["reason"]),
        note=flags["note"],
    )
    show_acted(flags, act(workspace, command), unchanged=f"{ref} is paused already")


@asset_command.command("resume")
@click.argument("version", metavar="ASSET@VERSION")
@environment_option
@acting_options
def resume(**flags: Any) -> None:
    """Let a paused version go on; only a person can.

    \b
    Example:
      gatemark asset resume triage@2.1.0 --note "the warning was a load test"
    """
    ref = parse_version_ref(flags["version"])
    workspace = acting_workspace(flags)
    command = ResumeVersion(
        actor=workspace.actor,
        asset=ref.asset,
        version=ref.version,
        environment=flags["environment"],
        note=flags["note"],
    )
    show_acted(flags, act(workspace, command), unchanged=f"{ref} is not paused")


@asset_command.command("waive")
@click.argument("version", metavar="ASSET@VERSION")
@click.option("--gate", type=click.Choice(["replay"]), required=True, help="The gate.")
@click.option(
    "--hours",
    type=click.FloatRange(0, 24 * 366, min_open=True),
    default=72,
    show_default=True,
    help="For how long.",
)
@environment_option
@acting_options
def waive(**flags: Any) -> None:
    """Override a gate for one version, for a time, with a note.

    Only where the release policy allows it, and only by an operator who is not the author. It
    shows on every page for ever.

    \b
    Example:
      gatemark asset waive triage@2.1.0 --gate replay --note "traffic shifted on purpose"
    """
    ref = parse_version_ref(flags["version"])
    workspace = acting_workspace(flags)
    expires_at: datetime = workspace.clock() + timedelta(hours=flags["hours"])
    command = Waive(
        actor=workspace.actor,
        asset=ref.asset,
        version=ref.version,
        environment=flags["environment"],
        gate=flags["gate"],
        expires_at=expires_at,
        note=flags["note"],
    )
    show_acted(flags, act(workspace, command), unchanged="it is waived already")


@asset_command.command("service")
@click.argument("asset")
@click.option("--start", type=MOMENT, required=True, help="When the span began.")
@click.option("--end", type=MOMENT, required=True, help="When it ended.")
@click.option("--good", type=click.IntRange(0), required=True, help="Good events.")
@click.option("--total", type=click.IntRange(0), required=True, help="All events.")
@environment_option
@acting_options
def service(**flags: Any) -> None:
    """Report good and total events of a span, for the error budget gate.

    \b
    Example:
      gatemark asset service triage --good 996 --total 1000 \\
        --start 2027-03-01T08:00:00Z --end 2027-03-01T08:05:00Z
    """
    workspace = acting_workspace(flags)
    command = ReportService(
        actor=workspace.actor,
        asset=flags["asset"],
        environment=flags["environment"],
        start=flags["start"],
        end=flags["end"],
        good=flags["good"],
        total=flags["total"],
    )
    show_acted(flags, act(workspace, command), unchanged="this span was reported before")
