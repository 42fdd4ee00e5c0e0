"""``gatemark lint``: find problems in a pack before it runs."""

from __future__ import annotations

from collections.abc import Iterator

import click

from gatemark.cli.options import StrictCommand, json_option, store_option
from gatemark.cli.screen import say, show
from gatemark.core.errors import ExitCode
from gatemark.packs.lint.lint import lint_pack
from gatemark.packs.lint.report import LintReport
from gatemark.workspace import Workspace


@click.command("lint", cls=StrictCommand)
@click.argument("pack")
@click.option(
    "--discordance",
    type=click.FloatRange(0, 1, min_open=True),
    help="Share of items on which similar models differ, for the predictions "
    "(default: as the last result of this pack measured it, else 0.1, or less if a recorded "
    "baseline allows no more).",
)
@store_option
@json_option
def lint_command(pack: str, *, discordance: float | None, store: str, json: bool) -> int:
    """Check a pack before it runs.

    Errors would stop a run (exit 2). Warnings name what would make its verdict weak, such as a
    margin that is too small for the amount of data. Predictions say how often an equal and a worse
    candidate would pass, fail or stay inconclusive.

    \b
    Example:
      gatemark lint packs/support-triage.yaml
      gatemark lint packs/support-triage.yaml --discordance 0.04
    """
    report = lint_pack(pack, discordance=discordance, workspace=Workspace(store=store))
    for problem in report.errors:
        say(f"gatemark: {problem}", err=True)
    show(report, lambda report: _format_lines(pack, report), json=json)
    return ExitCode.BAD_INPUT if report.errors else ExitCode.PASS


def _format_lines(pack: str, report: LintReport) -> Iterator[str]:
    for warning in report.warnings:
        yield f"warning: {warning}"
    for prediction in report.predictions:
        yield f"prediction: {prediction}"
    if not report.errors:
        yield f"{pack}: no errors, {len(report.warnings)} warnings"
