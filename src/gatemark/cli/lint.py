"""``gatemark lint``: find out now what would go wrong later."""

from __future__ import annotations

import click
import msgspec

from gatemark.cli.options import json_option
from gatemark.cli.screen import print_json
from gatemark.core.errors import ExitCode
from gatemark.packs.lint import lint_pack


@click.command("lint")
@click.argument("pack")
@json_option
def lint_command(pack: str, json: bool) -> int:
    """Look a pack over before it runs.

    Errors would stop a run (exit 2). Warnings name what would make its verdict worth little, such
    as a margin that the data is too small to judge.

    \b
    Example:
      gatemark lint packs/support-triage.yaml
    """
    report = lint_pack(pack)
    for problem in report.errors:
        click.echo(f"gatemark: {problem}", err=True)
    if json:
        print_json(msgspec.to_builtins(report))
    else:
        for warning in report.warnings:
            click.echo(f"warning: {warning}")
        if not report.errors:
            click.echo(f"{pack}: no errors, {len(report.warnings)} warnings")
    return ExitCode.BAD_INPUT if report.errors else ExitCode.PASS
