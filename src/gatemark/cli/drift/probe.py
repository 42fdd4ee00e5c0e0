"""``gatemark drift probe`` and ``status``: judge what is due, or only look."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeVar

import click

from gatemark.cli.moments import now_option
from gatemark.cli.options import json_option, store_option
from gatemark.cli.screen import print_json
from gatemark.core.errors import ExitCode
from gatemark.drift.alerts import read_alert_plan
from gatemark.drift.policy_file import drift_policy
from gatemark.drift.probe import ProbeReport
from gatemark.drift.probe import probe as run_probe
from gatemark.drift.signal import ALARMS, UNJUDGED
from gatemark.drift.views.text import action_lines, level_line, signal_table
from gatemark.workspace import Workspace

F = TypeVar("F", bound=Callable[..., Any])
ROWS = 40


def policy_options(function: F) -> F:
    """``--policy`` and ``--mode``."""
    function = click.option(
        "--mode",
        type=click.Choice(["literal", "corrected"]),
        default=None,
        help="Judge by the plain sigma formula, or corrected for small and moving baselines; as "
        "the policy says when left out.",
    )(function)
    return click.option(
        "--policy",
        metavar="FILE",
        default=None,
        help="Drift policy (YAML); the table of watched metrics when left out.",
    )(function)


def workspace_at(flags: dict[str, Any]) -> tuple[Workspace, datetime]:
    """The workspace with its clock at the moment a user asked for, and that moment."""
    now: datetime = flags["now"] or Workspace().clock()
    workspace = Workspace(store=flags["store"], clock=lambda: now)
    workspace.existing_store()
    return workspace, now


@click.command("probe")
@policy_options
@now_option
@click.option("--alerts", metavar="FILE", default=None, help="Where to send alerts (YAML).")
@click.option("--dry-run", is_flag=True, help="Judge only: record nothing, do nothing.")
@click.option(
    "--exit-code",
    is_flag=True,
    help="End with 1 when something drifts, and with 3 when something could not be judged.",
)
@store_option
@json_option
def probe_command(**flags: Any) -> int:
    """Judge every window that is due, and act on what drifts.

    Each metric of each asset is held against its baseline of earlier windows. A warning moves an
    enabled asset to shadow, a breach demotes it; a canary is paused or rolled back. Every step is
    a ledger event that cites the signal and the baseline. Probing twice does nothing twice.

    \b
    Examples:
      gatemark drift probe
      gatemark drift probe --now 2026-03-01T00:00:00Z --mode literal --json
    """
    workspace, now = workspace_at(flags)
    policy = drift_policy(flags["policy"], flags["mode"])
    plan = read_alert_plan(flags["alerts"]) if flags["alerts"] else None
    found = run_probe(workspace, policy, now=now, dry_run=flags["dry_run"], plan=plan)
    if flags["json"]:
        print_json(found)
    else:
        _tell(found)
    return _exit_code(found) if flags["exit_code"] else ExitCode.PASS


@click.command("status")
@policy_options
@now_option
@click.option(
    "--limit", type=click.IntRange(1), default=ROWS, show_default=True, help="How many rows."
)
@store_option
@json_option
def status_command(**flags: Any) -> None:
    """Show how every watched metric stands; changes nothing.

    \b
    Examples:
      gatemark drift status
      gatemark drift status --json
    """
    workspace, now = workspace_at(flags)
    policy = drift_policy(flags["policy"], flags["mode"])
    found = run_probe(workspace, policy, now=now, dry_run=True)
    if flags["json"]:
        print_json(found)
        return
    for line in signal_table(found.signals, limit=flags["limit"]):
        click.echo(line)
    _tell_rest(found)


def _tell(found: ProbeReport) -> None:
    loud = [signal for signal in found.signals if signal.level not in ("OK", "INFO")]
    if loud:
        for line in signal_table(loud, limit=ROWS):
            click.echo(line)
    _tell_rest(found)


def _tell_rest(found: ProbeReport) -> None:
    click.echo(f"{level_line(found.levels)} ({found.policy.mode}, {found.at:%Y-%m-%d %H:%MZ})")
    moved = [done for done in found.actions if done.act not in ("tell", "close")]
    for line in action_lines((d.asset, d.metric, d.level, d.outcome) for d in moved):
        click.echo(line)
    for episode in found.closed:
        click.echo(f"closed {episode.asset} {episode.metric}: {episode.closed_because}")
    for sent in found.alerts:
        outcome = "sent" if sent.error is None else f"not sent: {sent.error}"
        click.echo(f"alert {sent.level} {sent.subject} to {sent.sink}: {outcome}")
    for note in found.notes:
        click.echo(f"gatemark: {note}", err=True)


def _exit_code(found: ProbeReport) -> ExitCode:
    levels = {signal.level for signal in found.signals}
    if levels & ALARMS:
        return ExitCode.FAIL
    return ExitCode.INCONCLUSIVE if not levels or levels & UNJUDGED else ExitCode.PASS
