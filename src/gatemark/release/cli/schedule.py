"""``gatemark schedule``: list schedules, and run what is due once or in a loop."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Iterator
from datetime import datetime
from functools import partial

import click

from gatemark.cli.options import OptionGroup, StrictGroup, json_option, now_option, store_option
from gatemark.cli.screen import say, show
from gatemark.core.errors import ConflictError
from gatemark.release.alerts.alert import AlertPlan
from gatemark.release.alerts.plan_file import read_alert_plan
from gatemark.release.cli.options import anchor
from gatemark.release.schedule.cadence import Occasion, SchedulePlan, TriggerKind
from gatemark.release.schedule.list_schedules import ScheduleLine, list_recent_runs, list_schedules
from gatemark.release.schedule.plan_file import read_schedules
from gatemark.release.schedule.tick import (
    ScheduleTick,
    count_seconds_until_next,
    find_due,
    tick_schedules,
)
from gatemark.release.schedule.triggers import record_trigger
from gatemark.workspace import Workspace

plan_options = OptionGroup(
    read_schedules,
    path=click.option(
        "--schedules", metavar="FILE", help="Schedules (YAML) to add to the built-in ones."
    ),
)
alerts_option = click.option(
    "--alerts", metavar="FILE", help="Alert sinks (YAML), also used by scheduled drift probes."
)


@click.group("schedule", cls=StrictGroup)
def schedule_command() -> None:
    """Run evaluations when they are due, each by exactly one worker."""


@schedule_command.command("list")
@plan_options
@now_option
@click.option(
    "--runs",
    "--latest",
    type=click.IntRange(0),
    default=0,
    show_default=False,
    help="Number of latest runs to show.",
)
@store_option
@json_option
def list_(plan: SchedulePlan, *, now: datetime | None, runs: int, store: str, json: bool) -> None:
    """Show every schedule, when it fires next, and whether it is overdue.

    \b
    Examples:
      gatemark schedule list
      gatemark schedule list --schedules schedules.yaml --runs 10
    """
    workspace = Workspace(store=store)
    lines = list_schedules(workspace, plan, now or workspace.clock())
    latest = list_recent_runs(workspace, runs) if runs else []
    text = [_schedule_line(line) for line in lines]
    text += [f"{run.state:<16} {run.schedule} {run.occasion} {run.detail}" for run in latest]
    show({"schedules": lines, "runs": latest}, lambda _: text, json=json)


def _schedule_line(line: ScheduleLine) -> str:
    when = line.cron or "on " + ", ".join(line.triggers)
    next_at = f"{line.next_at:%Y-%m-%d %H:%MZ}" if line.next_at else "-"
    off = "no asset" if line.command else "no command"
    word = "OVERDUE" if line.is_overdue else "active" if line.is_active else off
    return f"{word:<11} {line.id:<30} {when:<12} {line.tz:<8} next {next_at}"


@schedule_command.command("tick")
@plan_options
@now_option
@alerts_option
@click.option("--dry-run", is_flag=True, help="Print what is due, and run nothing.")
@store_option
@json_option
def tick_schedule_command(
    plan: SchedulePlan,
    *,
    now: datetime | None,
    alerts: str | None,
    dry_run: bool,
    store: str,
    json: bool,
) -> None:
    """Run what is due now, once; meant to be called by cron.

    What is due depends only on the schedules, the recorded runs and the time. Concurrent ticks
    share the work: each occasion is claimed by one of them. Missed occasions become one run and are
    recorded.

    \b
    Examples:
      gatemark schedule tick
      gatemark schedule tick --now 2026-03-01T00:20:00Z --dry-run --json
    """
    workspace = Workspace(store=store)
    at = now or workspace.clock()
    if dry_run:
        due = find_due(workspace, plan, at)
        show({"at": at, "due": due}, lambda _: map(_format_due, due), json=json)
        return
    done = _prepare_tick(workspace, plan, alerts)(now=at)
    show(done, _tick_lines, json=json)
    if workspace.has_store and now is None:
        anchor(workspace, is_daily=True)


def _format_due(due: Occasion) -> str:
    return f"{due.state:<8} {due.schedule} {due.id}"


@schedule_command.command("run")
@plan_options
@alerts_option
@click.option(
    "--every",
    type=click.FloatRange(0.05, 3600),
    default=60,
    help="Maximum seconds between two ticks.",
)
@click.option("--ticks", type=click.IntRange(1), help="Number of ticks to stop after.")
@store_option
def run_schedule_command(
    plan: SchedulePlan, *, alerts: str | None, every: float, ticks: int | None, store: str
) -> None:
    """Tick until stopped by a signal.

    \b
    Example:
      gatemark schedule run --schedules schedules.yaml
    """
    workspace = Workspace(store=store)
    tick_once = _prepare_tick(workspace, plan, alerts)
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    count = 0
    while not stopping.is_set():
        try:
            show(tick_once(now=workspace.clock()), _tick_lines, json=False)
        except ConflictError as error:
            say(f"gatemark: {error}", err=True)
        count += 1
        if ticks is not None and count >= ticks:
            return
        stopping.wait(max(0.05, count_seconds_until_next(plan, workspace.clock(), every)))


@schedule_command.command("fire")
@click.argument("kind", type=click.Choice(["change", "threat"]))
@click.option(
    "--id",
    "--idempotency-key",
    "identity",
    required=True,
    help="Idempotency key; a repeated key changes nothing.",
)
@click.option("--asset", help="Asset that the trigger is about.")
@now_option
@store_option
def fire_(
    *, kind: TriggerKind, identity: str, asset: str | None, now: datetime | None, store: str
) -> None:
    """Record a change or a threat that schedules react to.

    \b
    Example:
      gatemark schedule fire threat --id feed-2026-03-01
    """
    workspace = Workspace(store=store)
    fresh = record_trigger(workspace, kind, identity, asset=asset, now=now or workspace.clock())
    say("recorded" if fresh else "already recorded")


def worker_name() -> str:
    """Return the name of this process in the record of runs."""
    return f"{socket.gethostname()}-{os.getpid()}"


def _prepare_tick(
    workspace: Workspace, plan: SchedulePlan, alerts_file: str | None
) -> partial[ScheduleTick]:
    return partial(
        tick_schedules,
        workspace,
        plan,
        worker=worker_name(),
        alert_plan=read_alert_plan(alerts_file) if alerts_file else AlertPlan(),
        alerts_file=alerts_file,
    )


def _tick_lines(done: ScheduleTick) -> Iterator[str]:
    for line in done.runs:
        yield f"{line.state:<16} {line.schedule} {line.occasion} {line.detail}".rstrip()
    for name in done.overdue:
        yield f"WARN schedule {name} is overdue"
    for sent in done.alerts:
        outcome = "sent" if sent.error is None else f"not sent: {sent.error}"
        yield f"alert {sent.level} {sent.subject} to {sent.sink}: {outcome}"
