"""``gatemark demo``: the gate on bundled data."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import click

from gatemark.cli.screen import say, wants_color
from gatemark.core.errors import ExitCode
from gatemark.demo.drift import demo_drift
from gatemark.demo.journey import run_demo
from gatemark.demo.lifecycle import demo_lifecycle
from gatemark.report.terminal import verdict_table


@click.command("demo")
@click.argument("folder", required=False, default="gatemark-demo")
def demo_command(folder: str) -> int:
    """Walk through the gate on bundled synthetic data.

    Writes everything into FOLDER: the data, stores with sealed results, and reports to open in a
    browser. Runs two exams, each on a baseline that passes and on a candidate that fails for a
    planted reason. Two people take a change through shadow and canary, one of them is
    refused. An enabled asset drifts, is demoted by itself, and returns on fresh evidence only.

    \b
    Example:
      gatemark demo my-demo
    """
    place = Path(folder)
    astray = [*_exams(place), *_lifecycle(place), *_drift(place)]
    if astray:
        say(f"gatemark: the demo went astray at {', '.join(astray)}", err=True)
    return ExitCode.FAIL if astray else ExitCode.PASS


def _exams(folder: Path) -> Iterator[str]:
    for step in run_demo(folder):
        click.echo(verdict_table(step.result, color=wants_color()))
        say(f"report: {step.report}\n")
        if step.result.verdict != step.planned:
            yield step.name


def _lifecycle(folder: Path) -> Iterator[str]:
    say("Two people, shadow and canary\n")
    for act in demo_lifecycle(folder, datetime.now(UTC)):
        mark = "REFUSED  " if act.was_refused else ""
        say(f"{mark}{act.title}")
        for line in act.lines:
            say(f"    {line}")
        if not act.planned:
            yield act.title
    say()


def _drift(folder: Path) -> Iterator[str]:
    say("An enabled asset drifts\n")
    for step in demo_drift(folder):
        say(f"{step.found:<10}  {step.line}")
        if step.is_astray:
            yield step.name
    say(f"page: {folder / 'drift.html'}")
