"""``gatemark demo``: walk through the gate on bundled data."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import click

from gatemark.cli.options import StrictCommand
from gatemark.cli.screen import say, wants_color
from gatemark.core.errors import ExitCode
from gatemark.release.demo.drift import play_drift
from gatemark.release.demo.lifecycle import play_lifecycle
from gatemark.release.demo.store import make_store
from gatemark.release.demo.verdicts import play_verdicts
from gatemark.release.lifecycle.decisions.citation import short
from gatemark.report.terminal import verdict_table
from gatemark.workspace import Workspace

BEGIN: Final = timedelta(days=40)


@click.command("demo", cls=StrictCommand)
@click.argument("folder", required=False, default="gatemark-demo")
def demo_command(folder: str) -> int:
    """Walk through the gate on bundled synthetic data.

    Writes everything into FOLDER: the data, one store with sealed results, and reports to open in
    a browser. Runs two exams, each on a baseline that passes and on a candidate that fails for a
    planted reason. Two people take a change through shadow and canary, and see a refusal. An
    enabled asset drifts, is demoted automatically, and returns only on fresh evidence. The clock of
    the demo starts 40 days ago. A second run replaces the store of the first.

    \b
    Example:
      gatemark demo my-demo
    """
    place = Path(folder)
    store = make_store(place)
    start = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) - BEGIN
    astray = [
        *_show_exams(place, store, start),
        *_show_lifecycle(place, store, start + timedelta(days=1)),
        *_show_drift(place, store, start + timedelta(days=4)),
    ]
    if astray:
        say(f"gatemark: the demo did not go as planned at {', '.join(astray)}", err=True)
        return ExitCode.FAIL
    failed = next(one for one in Workspace(store=store).results.lines(50) if one.verdict == "fail")
    say()
    say(f"Everything is in one store, {store}. To look at it in a browser:")
    say(f"  gatemark view {short(failed.id)} --store {store}    (the failed pack; no account)")
    say(f"  gatemark serve --store {store}    (all of it; prints a link to sign in as ada)")
    return ExitCode.PASS


def _show_exams(folder: Path, store: str, start: datetime) -> Iterator[str]:
    for step in play_verdicts(folder, store, start):
        click.echo(verdict_table(step.result, color=wants_color()))
        say(f"report: {step.report}\n")
        if step.result.verdict != step.planned:
            yield step.name


def _show_lifecycle(folder: Path, store: str, start: datetime) -> Iterator[str]:
    say("Two people, shadow and canary\n")
    for act in play_lifecycle(folder, store, start):
        mark = "REFUSED  " if act.was_refused else ""
        say(f"{mark}{act.title}")
        for line in act.lines:
            say(f"    {line}")
        if not act.planned:
            yield act.title
    say()


def _show_drift(folder: Path, store: str, start: datetime) -> Iterator[str]:
    say("An enabled asset drifts\n")
    for step in play_drift(folder, store, start):
        say(f"{step.found:<10}  {step.line}")
        if step.is_astray:
            yield step.name
    say(f"page: {folder / 'drift.html'}")
