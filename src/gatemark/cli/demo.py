"""``gatemark demo``: see the gate work before feeding it anything."""

from __future__ import annotations

from pathlib import Path

import click

from gatemark.cli.screen import wants_color
from gatemark.core.exits import ExitCode
from gatemark.flow.demo import run_demo
from gatemark.report.terminal import verdict_table


@click.command("demo")
@click.argument("folder", required=False, default="gatemark-demo")
def demo_command(folder: str) -> int:
    """Walk through the gate on bundled synthetic data.

    Writes everything into FOLDER: the data, a store with sealed results, and reports to open in
    a browser. Two exams are sat, each by a baseline that passes and by a candidate that fails for
    a reason planted in it.

    \b
    Example:
      gatemark demo my-demo
    """
    astray = []
    for step in run_demo(Path(folder)):
        click.echo(verdict_table(step.result, color=wants_color()))
        click.echo(f"report: {step.report}\n")
        if step.result.verdict != step.planned:
            astray.append(step.name)
    if astray:
        click.echo(f"gatemark: the demo went astray at {', '.join(astray)}", err=True)
    return ExitCode.FAIL if astray else ExitCode.PASS
