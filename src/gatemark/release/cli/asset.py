"""``gatemark asset``: register versions, and show their content, stages and history."""

from __future__ import annotations

from datetime import datetime
from typing import Final

import click

from gatemark.cli.options import MOMENT, StrictGroup, json_option, store_option
from gatemark.cli.screen import Outputs, optional_import, output_options, say, show
from gatemark.cli.struct_options import given_group, read_given
from gatemark.core.canonical import json_file
from gatemark.core.errors import ExitCode
from gatemark.release.cli.options import (
    ActOptions,
    Caller,
    RequestOptions,
    act_options,
    caller_options,
    environment_option,
    request_group,
    show_acted,
)
from gatemark.release.lifecycle.assets import (
    NewVersion,
    RequirePack,
    add_version,
    asset_names,
    require_pack,
)
from gatemark.release.lifecycle.commands import PauseVersion, ReportService, ResumeVersion, Waive
from gatemark.release.lifecycle.views.history import asset_history
from gatemark.release.lifecycle.views.text import asset_text, history_text, list_text
from gatemark.release.lifecycle.views.views import History, asset_card, asset_rows
from gatemark.workspace import Workspace


@click.group("asset", cls=StrictGroup)
def asset_command() -> None:
    """Register versions, and show their stages and history."""


@asset_command.command("add")
@request_group(NewVersion)
def add(asked: RequestOptions[NewVersion]) -> None:
    """Draft a version; whoever adds it is its author.

    \b
    Examples:
      gatemark asset add triage@2.1.0 --kind prompt --file prompt.txt --pin model=m-7
      gatemark asset add triage@2.1.0 --from 3f2a9c01
    """
    workspace = asked.workspace(must_exist=False)
    done = add_version(workspace, asked.request(), actor=workspace.actor)
    show_acted(done, unchanged=f"{asked.subject} already exists", json=asked.json)


REQUIRED: Final = ("asset", "pack")
pack_options = given_group(RequirePack, arguments=REQUIRED)


@asset_command.command("pack")
@pack_options
@caller_options
def pack(caller: Caller, given: dict[str, object]) -> None:
    """Set the required pack of an asset: the one that results must come from.

    Whoever last set it cannot approve versions of the asset. A result counts if the name, version,
    rules and data of its pack are the same; data of replay suites may be newer.

    \b
    Example:
      gatemark asset pack triage packs/triage.yaml --actor pam
    """
    workspace = caller.workspace()
    request = read_given(RequirePack, given, arguments=REQUIRED)
    done = require_pack(workspace, request, actor=workspace.actor)
    show_acted(done, unchanged="this is already the required pack", json=caller.json)


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
        from gatemark.release.lifecycle.views.page import render_history_page  # noqa: PLC0415 - an extra
    return render_history_page(found)


@asset_command.command("pause")
@act_options(PauseVersion)
def pause(asked: ActOptions[PauseVersion]) -> None:
    """Pause a version in its stage until it is resumed.

    \b
    Example:
      gatemark asset pause triage@2.1.0 --reason freeze --note "quarter end"
    """
    workspace = asked.workspace()
    unchanged = f"{asked.subject} is already paused"
    asked.carry_out(workspace, asked.command(workspace), unchanged=unchanged)


@asset_command.command("resume")
@act_options(ResumeVersion)
def resume_command(asked: ActOptions[ResumeVersion]) -> None:
    """Resume a paused version. Only a person can do this.

    \b
    Example:
      gatemark asset resume triage@2.1.0 --note "the warning was a load test"
    """
    workspace = asked.workspace()
    unchanged = f"{asked.subject} is not paused"
    asked.carry_out(workspace, asked.command(workspace), unchanged=unchanged)


@asset_command.command("waive")
@act_options(Waive)
def waive(asked: ActOptions[Waive]) -> None:
    """Override a gate for one version, for a time, with a note.

    The release policy must allow it, and the caller must be an operator who is not the author.
    Every page shows the waiver permanently.

    \b
    Example:
      gatemark asset waive triage@2.1.0 --gate replay --note "traffic shifted on purpose"
    """
    workspace = asked.workspace()
    asked.carry_out(workspace, asked.command(workspace), unchanged="it is already waived")


@asset_command.command("service")
@act_options(ReportService)
def service(asked: ActOptions[ReportService]) -> None:
    """Report good and total events of a period, for the error budget gate.

    \b
    Example:
      gatemark asset service triage --good 996 --total 1000 \\
        --start 2027-03-01T08:00:00Z --end 2027-03-01T08:05:00Z
    """
    workspace = asked.workspace()
    command = asked.command(workspace)
    asked.carry_out(workspace, command, unchanged="this period was already reported")
