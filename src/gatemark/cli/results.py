"""``gatemark list``, ``show`` and ``report``: sealed results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click

from gatemark.cli.options import json_option, output_option, store_option
from gatemark.cli.screen import show, wants_color
from gatemark.core.errors import UsageError
from gatemark.ledger.port import ResultLine
from gatemark.report.outputs import check_formats, write_reports
from gatemark.report.terminal import verdict_table
from gatemark.workspace import Workspace


@click.command("list")
@click.option(
    "--limit",
    type=click.IntRange(1),
    default=50,
    show_default=True,
    help="Maximum number of results.",
)
@store_option
@json_option
def list_command(limit: int, store: str, json: bool) -> None:
    """List the sealed results of a store.

    \b
    Example:
      gatemark list --limit 10
    """
    lines = Workspace(store=store).existing_results().lines(limit)
    show(lines, _lines, json=json)
    if not lines and not json:
        click.echo("no sealed results yet; 'gatemark score agreement --seal' makes one", err=True)


def _lines(lines: Sequence[ResultLine]) -> Iterator[str]:
    for line in lines:
        moment = line.finished_at.strftime("%Y-%m-%d %H:%MZ")
        yield f"{line.seq:>5}  {moment}  {line.verdict:<12}  {line.id[7:19]}  {line.title}"


@click.command("show")
@click.argument("reference", metavar="RESULT")
@store_option
@json_option
def show_command(reference: str, store: str, json: bool) -> None:
    """Show one sealed result.

    RESULT is an id or the first eight or more digits of one. Its seal is checked first.

    \b
    Example:
      gatemark show 3f2a9c01
    """
    result = Workspace(store=store).existing_results().get(reference)
    show(result, lambda result: [verdict_table(result, color=wants_color())], json=json)


@click.command("report")
@click.argument("reference", metavar="RESULT")
@store_option
@output_option
def report_command(reference: str, store: str, output: tuple[str, ...]) -> None:
    """Write a sealed result as JSON, Markdown, HTML or JUnit.

    \b
    Example:
      gatemark report 3f2a9c01 -o report.html -o report.junit.xml
    """
    if not output:
        raise UsageError("name at least one file with -o")
    check_formats(output)
    write_reports(Workspace(store=store).existing_results().get(reference), output)
    for path in output:
        click.echo(path)
