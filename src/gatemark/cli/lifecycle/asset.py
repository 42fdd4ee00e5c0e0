"""``gatemark asset``: register versions, and show their content, stages and history."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Literal, get_args

import click

from gatemark.cli.lifecycle.options import Acting, acting_options, environment_option
from gatemark.cli.options import MOMENT, StrictGroup, json_option, store_option
from gatemark.cli.screen import Outputs, optional_import, output_options, say, show
from gatemark.core.canonical import json_file
from gatemark.core.errors import ExitCode
from gatemark.core.result import AssetKind
from gatemark.lifecycle.act import act
from gatemark.lifecycle.assets import NewVersion, add_version, asset_names, set_required_pack
from gatemark.lifecycle.commands import PauseVersion, ReportService, ResumeVersion, Waive
from gatemark.lifecycle.model.nouns import PauseReason, Risk, parse_version_ref
from gatemark.lifecycle.views.history import asset_history
from gatemark.lifecycle.views.text import asset_text, history_text, list_text
from gatemark.lifecycle.views.views import History, asset_card, asset_rows
from gatemark.workspace import Workspace


@click.group("asset", cls=StrictGroup)
def asset_command() -> None:
    """Register versions, and show their stages and history."""


@asset_command.command("add")
@click.argument("version", metavar="ASSET@VERSION")
@click.option(
    "--kind",
    type=click.Choice(get_args(AssetKind)),
    help="Kind of the asset; required for a new one.",
)
@click.option(
    "--risk", type=click.Choice(get_args(Risk)), help="Risk; high risk needs more approvals."
)
@click.option("--digest", metavar="DIGEST", help="Digest of its content.")
@click.option(
    "--from",
    "--from-result",
    "result",
    metavar="RESULT",
    help="Sealed result whose candidate it is.",
)
@click.option(
    "--file", "files", multiple=True, help="File of its content, stored with it. Repeatable."
)
@click.option(
    "--parent", metavar="VERSION", help="Version it was made from (default: the live one)."
)
@click.option(
    "--pin",
    "pins",
    multiple=True,
    metavar="NAME=VALUE",
    help="Pin: model, prompt, retrieval, ontology, policy, routing or tool.NAME. Repeatable.",
)
@click.option(
    "--schema", metavar="FILE", help="File of its JSON Schema, compared with that of its parent."
)
@click.option(
    "--scope-change", is_flag=True, help="Mark a wider scope, which security must approve."
)
@acting_options
def add(
    acting: Acting,
    *,
    version: str,
    kind: AssetKind | None,
    risk: Risk | None,
    digest: str | None,
    result: str | None,
    files: tuple[str, ...],
    parent: str | None,
    pins: tuple[str, ...],
    schema: str | None,
    scope_change: bool,
) -> None:
    """Draft a version; whoever adds it is its author.

    \b
    Examples:
      gatemark asset add triage@2.1.0 --kind prompt --file prompt.txt --pin model=m-7
      gatemark asset add triage@2.1.0 --from 3f2a9c01
    """
    workspace = acting.workspace(must_exist=False)
    new = NewVersion(
        ref=parse_version_ref(version),
        kind=kind,
        risk=risk,
        digest=digest,
        result=result,
        files=files,
        parent=parent,
        pins=pins,
        schema=schema,
        is_scope_change=scope_change,
        note=acting.note,
    )
    done = add_version(workspace, new, actor=workspace.actor)
    acting.show(done, unchanged=f"{version} already exists")


@asset_command.command("pack")
@click.argument("asset")
@click.argument("pack")
@acting_options
def pack(acting: Acting, *, asset: str, pack: str) -> None:
    """Set the required pack of an asset: the one that results must come from.

    Whoever last set it cannot approve versions of the asset. A result counts if the name, version,
    rules and data of its pack are the same; data of replay suites may be newer.

    \b
    Example:
      gatemark asset pack triage packs/triage.yaml --actor pam
    """
    workspace = acting.workspace()
    result = set_required_pack(
        workspace, asset, pack, actor=workspace.actor, note=acting.note, file=pack
    )
    acting.show(result, unchanged="this is already the required pack")


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
    if rows or json:
        show(rows, list_text, json=json)
    else:
        say("no assets yet; create one with 'gatemark asset add'", err=True)


@asset_command.command("show")
@click.argument("asset")
@environment_option
@store_option
@json_option
def show_asset(asset: str, environment: str, store: str, json: bool) -> int:
    """Show the versions of an asset and their stages.

    Other commands take the revision as --expect. Exit 3 if a decision about the asset was made by
    rules that this build does not have.

    \b
    Example:
      gatemark asset show triage
    """
    card = asset_card(Workspace(store=store), asset, environment)
    show(card, asset_text, json=json)
    return ExitCode.INCONCLUSIVE if card.undecided else ExitCode.PASS


@asset_command.command("history")
@click.argument("asset")
@click.option("--at", type=MOMENT, metavar="MOMENT", help="Time to show (default: now).")
@click.option(
    "--limit", type=click.IntRange(1, 100_000), default=50, help="Maximum number of events."
)
@store_option
@output_options(".json", ".html")
def history(outputs: Outputs, *, asset: str, at: datetime | None, limit: int, store: str) -> None:
    """Show what was live at any time, and why.

    \b
    Examples:
      gatemark asset history triage
      gatemark asset history triage --at 2027-03-01T12:00:00Z -o history.html
    """
    found = asset_history(Workspace(store=store), asset, at=at, limit=limit)
    outputs.write({".json": lambda: json_file(found), ".html": lambda: _render_history_page(found)})
    outputs.show(found, history_text)


def _render_history_page(found: History) -> bytes:
    with optional_import("report"):
        from gatemark.lifecycle.views.page import render_history  # noqa: PLC0415 - an extra
    return render_history(found)


@asset_command.command("pause")
@click.argument("version", metavar="ASSET@VERSION")
@click.option(
    "--reason",
    type=click.Choice(get_args(PauseReason)),
    default="operator",
    help="Reason for the pause.",
)
@environment_option
@acting_options
def pause(acting: Acting, *, version: str, reason: PauseReason, environment: str) -> None:
    """Pause a version in its stage until it is resumed.

    \b
    Example:
      gatemark asset pause triage@2.1.0 --reason freeze --note "quarter end"
    """
    ref = parse_version_ref(version)
    workspace = acting.workspace()
    about = acting.about(workspace, ref, environment)
    command = PauseVersion(reason=reason, **about)
    acting.show(act(workspace, command), unchanged=f"{ref} is already paused")


@asset_command.command("resume")
@click.argument("version", metavar="ASSET@VERSION")
@environment_option
@acting_options
def resume_command(acting: Acting, *, version: str, environment: str) -> None:
    """Resume a paused version. Only a person can do this.

    \b
    Example:
      gatemark asset resume triage@2.1.0 --note "the warning was a load test"
    """
    ref = parse_version_ref(version)
    workspace = acting.workspace()
    command = ResumeVersion(**acting.about(workspace, ref, environment))
    acting.show(act(workspace, command), unchanged=f"{ref} is not paused")


@asset_command.command("waive")
@click.argument("version", metavar="ASSET@VERSION")
@click.option("--gate", type=click.Choice(["replay"]), required=True, help="Gate to override.")
@click.option(
    "--hours",
    type=click.FloatRange(0, 24 * 366, min_open=True),
    default=72,
    help="Duration in hours.",
)
@environment_option
@acting_options
def waive(
    acting: Acting, *, version: str, gate: Literal["replay"], hours: float, environment: str
) -> None:
    """Override a gate for one version, for a time, with a note.

    The release policy must allow it, and the caller must be an operator who is not the author.
    Every page shows the waiver permanently.

    \b
    Example:
      gatemark asset waive triage@2.1.0 --gate replay --note "traffic shifted on purpose"
    """
    ref = parse_version_ref(version)
    workspace = acting.workspace()
    expires_at = workspace.clock() + timedelta(hours=hours)
    about = acting.about(workspace, ref, environment)
    command = Waive(gate=gate, expires_at=expires_at, **about)
    acting.show(act(workspace, command), unchanged="it is already waived")


@asset_command.command("service")
@click.argument("asset")
@click.option("--start", type=MOMENT, required=True, help="Start of the period.")
@click.option("--end", type=MOMENT, required=True, help="End of the period.")
@click.option("--good", type=click.IntRange(0), required=True, help="Number of good events.")
@click.option("--total", type=click.IntRange(0), required=True, help="Number of all events.")
@environment_option
@acting_options
def service(
    acting: Acting,
    *,
    asset: str,
    start: datetime,
    end: datetime,
    good: int,
    total: int,
    environment: str,
) -> None:
    """Report good and total events of a period, for the error budget gate.

    \b
    Example:
      gatemark asset service triage --good 996 --total 1000 \\
        --start 2027-03-01T08:00:00Z --end 2027-03-01T08:05:00Z
    """
    workspace = acting.workspace()
    command = ReportService(
        actor=workspace.actor,
        asset=asset,
        environment=environment,
        start=start,
        end=end,
        good=good,
        total=total,
    )
    acting.show(act(workspace, command), unchanged="this period was already reported")
