"""``gatemark validate``: check evidence files."""

from __future__ import annotations

import click

from gatemark.cli.options import StrictCommand, json_option
from gatemark.cli.screen import byte_progress, say, show
from gatemark.core.errors import ExitCode
from gatemark.evidence.reading_choices import ReadingChoices
from gatemark.evidence.validate import FileCheck, validate_files


@click.command("validate", cls=StrictCommand)
@click.argument("files", nargs=-1, required=True)
@click.option(
    "--schema",
    metavar="NAME|PATH",
    help="Schema name, or a JSON Schema file (default: found from the records).",
)
@click.option(
    "--max-errors",
    type=click.IntRange(1),
    default=20,
    help="Maximum number of problems to list per file.",
)
@json_option
def validate_command(
    files: tuple[str, ...], schema: str | None, max_errors: int, json: bool
) -> int:
    """Check evidence files line by line.

    Reads JSON Lines, plain or compressed with gzip or zstd, and single JSON documents; '-' is
    standard input. If the records of a file depend on each other, as in traces and run logs, the
    rules across them are checked too.

    \b
    Examples:
      gatemark validate pairs.jsonl
      gatemark validate --schema gatemark.pair/1 scholar.jsonl.gz auditor.jsonl.zst
      gatemark validate runs/V0/*.jsonl.gz --schema schemas/exaid.run.schema.json
    """
    choices = ReadingChoices(max_errors=max_errors)
    checks = []
    with byte_progress("validating") as progress:
        for check in validate_files(files, schema, choices, progress):
            checks.append(check)
            for problem in check.problems[:max_errors]:
                say(f"gatemark: {problem}", err=True)
            for remark in check.remarks[:max_errors]:
                say(f"gatemark: {remark}", err=True)
            hidden = max(len(check.problems) + check.unlisted, check.rejected) - max_errors
            if hidden > 0:
                say(f"gatemark: {check.file}: and at least {hidden} more problems", err=True)
    clean = not any(check.problems for check in checks)
    show({"valid": clean, "files": checks}, lambda _: map(_format_line, checks), json=json)
    return ExitCode.PASS if clean else ExitCode.BAD_INPUT


def _format_line(check: FileCheck) -> str:
    word = "invalid" if check.problems else "valid"
    return (
        f"{check.file}: {word} {check.schema} ({check.form}): {check.received} received, "
        f"{check.accepted} accepted, {check.rejected} rejected"
    )
