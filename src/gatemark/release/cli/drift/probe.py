"""``gatemark drift probe`` and ``status``: judge what is due, with or without acting."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import click

from gatemark.cli.options import OptionGroup, StrictCommand, json_option, now_option, store_option
from gatemark.cli.screen import say, show
from gatemark.core.errors import ExitCode
from gatemark.release.alerts.plan_file import read_alert_plan
from gatemark.release.drift.judging.policy import DriftPolicy
from gatemark.release.drift.policy_file import choose_drift_policy
from gatemark.release.drift.probe import ProbeReport
from gatemark.release.drift.probe import probe as run_probe
from gatemark.release.drift.signal import ALARMS, UNJUDGED
from gatemark.release.drift.views.text import action_lines, level_line, signal_table
from gatemark.workspace import Workspace

ROWS = 40


def _open_workspace(now: datetime | None, store: str) -> Workspace:
    moment = now or Workspace().clock()
    workspace = Workspace(store=store, clock=lambda: moment)
    workspace.existing_store()
    return workspace


workspace_options = OptionGroup(_open_workspace, now=now_option, store=store_option)
"""A workspace whose clock is fixed at ``--now``."""
policy_options = OptionGroup(
    choose_drift_policy,
    path=click.option(
        "--policy",
        metavar="FILE",
        help="Drift policy (default: the built-in table of watched metrics).",
    ),
    mode=click.option(
        "--mode",
        "--sigma-mode",
        type=click.Choice(["literal", "corrected"]),
        help="Sigma formula: plain, or corrected for small and moving baselines (default: from the "
        "policy).",
    ),
)


@click.command("probe", cls=StrictCommand)
@policy_options
@workspace_options
@click.option("--alerts", metavar="FILE", help="Alert sinks (YAML).")
@click.option("--dry-run", is_flag=True, help="Judge only; record nothing and act on nothing.")
@click.option(
    "--exit-code",
    is_flag=True,
    help="Exit with 1 if something drifts, and with 3 if something could not be judged.",
)
@json_option
def probe_command(
    workspace: Workspace,
    policy: DriftPolicy,
    *,
    alerts: str | None,
    dry_run: bool,
    exit_code: bool,
    json: bool,
) -> int:
    """Judge every window that is due, and act on what drifts.

    Each metric is compared with earlier windows of the same version. A warning moves an enabled
    version to shadow and a breach demotes it, if an earlier version can take over; a canary is
    paused or rolled back. Every action is a ledger event that cites the signal and the baseline. A
    second probe repeats nothing.

    \b
    Examples:
      gatemark drift probe
      gatemark drift probe --now 2026-03-01T00:00:00Z --mode literal --json
    """
    plan = read_alert_plan(alerts) if alerts else None
    found = run_probe(workspace, policy, now=workspace.clock(), dry_run=dry_run, plan=plan)
    show(found, _probe_lines, json=json)
    if not json:
        _print_notes(found)
    return _exit_code(found) if exit_code else ExitCode.PASS


@click.command("status", cls=StrictCommand)
@policy_options
@workspace_options
@click.option("--limit", type=click.IntRange(1), default=ROWS, help="Maximum number of rows.")
@json_option
def status_command(workspace: Workspace, policy: DriftPolicy, *, limit: int, json: bool) -> None:
    """Show the level of every watched metric; changes nothing.

    \b
    Examples:
      gatemark drift status
      gatemark drift status --json
    """
    found = run_probe(workspace, policy, now=workspace.clock(), dry_run=True)
    show(
        found,
        lambda found: [*signal_table(found.signals, limit=limit), *_format_summary(found)],
        json=json,
    )
    if not json:
        _print_notes(found)


def _probe_lines(found: ProbeReport) -> Iterator[str]:
    loud = [signal for signal in found.signals if signal.level not in ("OK", "INFO")]
    if loud:
        yield from signal_table(loud, limit=ROWS)
    yield from _format_summary(found)


def _format_summary(found: ProbeReport) -> Iterator[str]:
    yield f"{level_line(found.levels)} ({found.policy.mode}, {found.at:%Y-%m-%d %H:%MZ})"
    moved = [done for done in found.actions if done.act not in ("tell", "close")]
    yield from action_lines((d.asset, d.metric, d.level, d.outcome) for d in moved)
    for episode in found.closed:
        yield f"closed {episode.asset} {episode.metric}: {episode.closed_because}"
    for sent in found.alerts:
        outcome = "sent" if sent.error is None else f"not sent: {sent.error}"
        yield f"alert {sent.level} {sent.subject} to {sent.sink}: {outcome}"


def _print_notes(found: ProbeReport) -> None:
    for note in found.notes:
        say(f"gatemark: {note}", err=True)


def _exit_code(found: ProbeReport) -> ExitCode:
    levels = {signal.level for signal in found.signals}
    if levels & ALARMS:
        return ExitCode.FAIL
    return ExitCode.INCONCLUSIVE if not levels or levels & UNJUDGED else ExitCode.PASS
