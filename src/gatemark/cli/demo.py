"""``gatemark demo``: see the gate work before feeding it anything."""

from __future__ import annotations

from pathlib import Path

import click

from gatemark.cli.screen import wants_color
from gatemark.core.exits import ExitCode
from gatemark.flow.demo import EXPECTED, run_demo
from gatemark.report.terminal import verdict_table


@click.command("demo")
@click.argument("folder", required=False, default="gatemark-demo")
def demo_command(folder: str) -> int:
    """Walk through the gate on bundled synthetic data.

    Writes everything into FOLDER: the data, a store with sealed results, and reports to open in
    a browser. A baseline passes; a candidate fails for a reason that was planted in it.

    \b
    Example:
      gatemark demo my-demo
    """
    steps = run_demo(Path(folder))
    for step in steps:
        click.echo(verdict_table(step.result, color=wants_color()))
        click.echo(f"report: {step.report}\n")
    as_planned = {step.arm: step.result.verdict for step in steps} == EXPECTED
    if not as_planned:
        click.echo("gatemark: the demo did not go as planned", err=True)
    return ExitCode.PASS if as_planned else ExitCode.FAIL
