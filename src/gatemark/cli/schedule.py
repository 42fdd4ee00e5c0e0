"""``gatemark schedule``: what runs when, ticks for cron, and a loop of its own."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

import click

from gatemark.cli.moments import now_option
from gatemark.cli.options import json_option, store_option
from gatemark.cli.screen import print_json
from gatemark.core.errors import ConflictError
from gatemark.drift.alerts import queue_overdue, read_alert_plan, send_pending
from gatemark.schedule.journey import (
    Alerting,
    ScheduleTick,
    due_now,
    fire,
    list_schedules,
    read_plan,
    recent_runs,
    seconds_until_next,
    tick_schedules,
)
from gatemark.workspace import Workspace

F = TypeVar("F", bound=Callable[..., Any])


def plan_option(function: F) -> F:
    """``--schedules``: which file."""
    return click.option(
        "--schedules",
        metavar="FILE",
        default=None,
        help="Schedules (YAML), added to the built-in ones; those alone when left out.",
    )(function)


def alerts_option(function: F) -> F:
    """``--alerts``: where overdue schedules, and what drift probes find, are told."""
    return click.option(
        "--alerts",
        metavar="FILE",
        default=None,
        help="Where to send alerts (YAML), also those of the drift probes that are run.",
    )(function)


@click.group("schedule")
def schedule_command() -> None:
    """Run evaluations when they are due, each by exactly one worker."""


@schedule_command.command("list")
@plan_option
@now_option
@click.option("--runs", type=click.IntRange(0), default=0, help="Also show so many latest runs.")
@store_option
@json_option
def list_(**flags: Any) -> None:
    """Show every schedule, when it fires next, and whether it is overdue.

    \b
    Examples:
      gatemark schedule list
      gatemark schedule list --schedules schedules.yaml --runs 10
    """
    workspace = Workspace(store=flags["store"])
    now: datetime = flags["now"] or workspace.clock()
    lines = list_schedules(workspace, read_plan(flags["schedules"]), now)
    runs = recent_runs(workspace, flags["runs"]) if flags["runs"] else []
    if flags["json"]:
        print_json({"schedules": lines, "runs": runs})
        return
    for line in lines:
        when = line.cron or "on " + ", ".join(line.triggers)
        next_at = f"{line.next_at:%Y-%m-%d %H:%MZ}" if line.next_at else "-"
        word = "OVERDUE" if line.is_overdue else "active" if line.is_active else "no command"
        click.echo(f"{word:<11} {line.id:<30} {when:<12} {line.tz:<8} next {next_at}")
    for run in runs:
        click.echo(f"{run.state:<16} {run.schedule} {run.occasion} {run.detail}")


@schedule_command.command("tick")
@plan_option
@now_option
@alerts_option
@click.option("--dry-run", is_flag=True, help="Only say what is due.")
@store_option
@json_option
def tick(**flags: Any) -> None:
    """Run what is due now, once; made to be called by cron.

    What is due depends on the schedules, the runs on record and the moment alone. Two ticks at
    once share the work: each occasion is claimed by one of them. Missed occasions become one run
    and are recorded.

    \b
    Examples:
      gatemark schedule tick
      gatemark schedule tick --now 2026-03-01T00:20:00Z --dry-run --json
    """
    workspace = Workspace(store=flags["store"])
    now: datetime = flags["now"] or workspace.clock()
    plan = read_plan(flags["schedules"])
    if flags["dry_run"]:
        due = due_now(workspace, plan, now)
        if flags["json"]:
            print_json({"at": now, "due": due})
        for occasion in () if flags["json"] else due:
            click.echo(f"{occasion.state:<8} {occasion.schedule} {occasion.id}")
        return
    alerting = _alerting(workspace, flags["alerts"])
    done = tick_schedules(
        workspace,
        plan,
        now=now,
        worker=worker_name(),
        alerting=alerting,
        alerts_file=flags["alerts"],
    )
    if flags["json"]:
        print_json(done)
    else:
        _tell(done)


@schedule_command.command("run")
@plan_option
@alerts_option
@click.option(
    "--every",
    type=click.FloatRange(0.05, 3600),
    default=60,
    show_default=True,
    help="Look at least this often, in seconds.",
)
@click.option("--ticks", type=click.IntRange(1), default=None, help="Stop after so many looks.")
@store_option
def run(**flags: Any) -> None:
    """Keep ticking until told to stop.

    \b
    Example:
      gatemark schedule run --schedules schedules.yaml
    """
    workspace = Workspace(store=flags["store"])
    plan = read_plan(flags["schedules"])
    alerting = _alerting(workspace, flags["alerts"])
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    count = 0
    while not stopping.is_set():
        now = workspace.clock()
        try:
            done = tick_schedules(
                workspace,
                plan,
                now=now,
                worker=worker_name(),
                alerting=alerting,
                alerts_file=flags["alerts"],
            )
            _tell(done)
        except ConflictError as error:
            click.echo(f"gatemark: {error}", err=True)
        count += 1
        if flags["ticks"] is not None and count >= flags["ticks"]:
            return
        stopping.wait(max(0.05, seconds_until_next(plan, workspace.clock(), flags["every"])))


@schedule_command.command("fire")
@click.argument("kind", type=click.Choice(["change", "threat"]))
@click.option("--id", "identity", required=True, help="Names what happened; known ones are known.")
@click.option("--asset", default=None, help="The asset it is about.")
@now_option
@store_option
def fire_(**flags: Any) -> None:
    """Tell the schedules that something changed or threatens.

    \b
    Example:
      gatemark schedule fire threat --id feed-2026-03-01
    """
    workspace = Workspace(store=flags["store"])
    now: datetime = flags["now"] or workspace.clock()
    fresh = fire(workspace, flags["kind"], flags["identity"], asset=flags["asset"], now=now)
    click.echo("noted" if fresh else "known already")


def worker_name() -> str:
    """What this process is called in the record of runs."""
    return f"{socket.gethostname()}-{os.getpid()}"


def _alerting(workspace: Workspace, file: str | None) -> Alerting | None:
    if not file:
        return None
    plan = read_alert_plan(file)
    return Alerting(partial(queue_overdue, workspace, plan), partial(send_pending, workspace, plan))


def _tell(done: ScheduleTick) -> None:
    for line in done.runs:
        click.echo(f"{line.state:<16} {line.schedule} {line.occasion} {line.detail}".rstrip())
    for name in done.overdue:
        click.echo(f"WARN schedule {name} is overdue")
    for sent in done.alerts:
        outcome = "sent" if sent.error is None else f"not sent: {sent.error}"
        click.echo(f"alert {sent.level} {sent.subject} to {sent.sink}: {outcome}")
