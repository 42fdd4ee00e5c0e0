"""``gatemark overhead``: run both arms of a guard-overhead measurement, verify reports."""

from __future__ import annotations

import click

from gatemark.cli.options import StrictGroup
from gatemark.cli.overhead.run import run
from gatemark.cli.overhead.verify import verify


@click.group("overhead", cls=StrictGroup)
def overhead_command() -> None:
    """Run bare and guarded arms, and verify reports about them.

    \b
    Examples:
      gatemark overhead run overhead.yaml
      gatemark overhead verify report.json --bare bare.jsonl --guarded guarded.jsonl
    """


overhead_command.add_command(run)
overhead_command.add_command(verify)
