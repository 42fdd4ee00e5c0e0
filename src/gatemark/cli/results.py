"""``gatemark list``, ``show`` and ``report``: sealed results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import click

from gatemark.cli.options import StrictCommand, json_option, output_option, store_option
from gatemark.cli.screen import say, show, wants_color
from gatemark.core.atomic import write_whole
from gatemark.core.errors import (
    BadInputError,
    ExitCode,
    IntegrityError,
    InvalidValueError,
    NewerFormatError,
    OtherRulesError,
    UsageError,
)
from gatemark.core.result import Result, result_from_json
from gatemark.ledger.port import ResultLine
from gatemark.report.outputs import check_formats, format_for, write_reports
from gatemark.report.terminal import verdict_table
from gatemark.workspace import Workspace

MAX_RESULT_BYTES: Final = 256 * 1024 * 1024
NOT_VERIFIED: Final = "NOT VERIFIED"
"""What is said of a result that nothing may rest on, before anything it says itself."""


@click.command("list", cls=StrictCommand)
@click.option("--limit", type=click.IntRange(1), default=50, help="Maximum number of results.")
@store_option
@json_option
def list_command(limit: int, store: str, json: bool) -> None:
    """List the sealed results of a store.

    \b
    Example:
      gatemark list --limit 10
    """
    workspace = Workspace(store=store)
    lines = workspace.existing_results().lines(limit)
    show(lines, lambda lines: _format_lines(workspace, lines), json=json)
    if not lines and not json:
        say("no sealed results yet; 'gatemark run PACK' creates one", err=True)


def _format_lines(workspace: Workspace, lines: Sequence[ResultLine]) -> Iterator[str]:
    for line in lines:
        moment = line.finished_at.strftime("%Y-%m-%d %H:%MZ")
        mark = "" if _is_citable(workspace, line.id) else f"  {NOT_VERIFIED}"
        yield f"{line.seq:>5}  {moment}  {line.verdict:<12}  {line.id[7:19]}  {line.title}{mark}"


def _is_citable(workspace: Workspace, result_id: str) -> bool:
    try:
        workspace.citable_result(result_id)
    except (IntegrityError, NewerFormatError, OtherRulesError):
        return False
    return True


@click.command("show", cls=StrictCommand)
@click.argument("reference", metavar="RESULT")
@store_option
@json_option
def show_command(reference: str, store: str, json: bool) -> int:
    """Show one sealed result.

    RESULT is an id or the first eight or more digits of one. Its seal is checked first. Exit 3 if
    it was recorded under rules that this build does not have, and 4 if no build made it so.

    \b
    Example:
      gatemark show 3f2a9c01
    """
    workspace = Workspace(store=store)
    result = workspace.existing_results().get(reference)
    doubt = workspace.find_doubt(result)
    if doubt is not None:
        say(f"{NOT_VERIFIED}: {doubt}", err=json)
    show(
        result,
        lambda result: [verdict_table(result, color=wants_color())],
        json=json,
        is_styled=True,
    )
    return ExitCode.PASS if doubt is None else doubt.exit_code


@click.command("report", cls=StrictCommand)
@click.argument("reference", metavar="RESULT")
@click.option(
    "--sarif",
    metavar="FILE",
    help="SARIF file to write, for code scanning: one entry per failed rule.",
)
@click.option(
    "--source",
    "--sarif-source",
    metavar="PATH",
    help="With --sarif: repository file that the entries point to, such as the pack.",
)
@store_option
@output_option
def report_command(
    reference: str, sarif: str | None, source: str | None, store: str, output: tuple[str, ...]
) -> None:
    """Write a sealed result as JSON, Markdown, HTML, JUnit or SARIF.

    Of a result that nothing may rest on, only the JSON is written: exit 3 if it was recorded under
    rules that this build does not have, and 4 if no build made it so.

    \b
    Examples:
      gatemark report 3f2a9c01 -o report.html -o report.junit.xml
      gatemark report 3f2a9c01 --sarif gate.sarif --source evals/pack.yaml
    """
    if not output and sarif is None:
        raise UsageError("name at least one file with -o or --sarif")
    if (sarif is None) != (source is None):
        raise UsageError("--sarif and --source go together")
    check_formats(output)
    workspace = Workspace(store=store)
    result = workspace.existing_results().get(reference)
    doubt = workspace.find_doubt(result)
    if doubt is not None:
        write_reports(result, [path for path in output if format_for(path) == ".json"])
        raise doubt
    write_reports(result, output)
    if sarif is not None and source is not None:
        from gatemark.report.sarif import render_sarif  # noqa: PLC0415 - few reports need it

        write_whole(Path(sarif), [render_sarif(result, source)])
    for path in (*output, *((sarif,) if sarif else ())):
        say(path)


def find_result(reference: str, store: str) -> Result:
    """Return the result in a JSON file of this name, or the result with this id in the store.

    What is shown to others is as good as cited, so the store must vouch for it.
    """
    path = Path(reference)
    if path.is_file():
        return result_in_file(path)
    return Workspace(store=store).citable_result(reference)


def result_in_file(path: Path) -> Result:
    """Return the result in a JSON file; its seal is checked."""
    try:
        if path.stat().st_size > MAX_RESULT_BYTES:
            raise BadInputError(f"{path}: a result must be at most {MAX_RESULT_BYTES:,} bytes")
        return result_from_json(path.read_bytes())
    except OSError as error:
        raise BadInputError(f"{path}: {error.strerror or error}") from error
    except InvalidValueError as error:
        raise BadInputError(
            f"{path}: {error}; 'gatemark run --json' and 'gatemark report -o result.json' write one"
        ) from error
