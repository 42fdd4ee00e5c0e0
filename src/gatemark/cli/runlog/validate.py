"""``gatemark runlog validate``: whether traces, manifests and run logs can be trusted together."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from gatemark.cli.options import document_option, json_option, max_errors_option
from gatemark.cli.screen import count_progress, print_json
from gatemark.core.errors import ExitCode, UsageError
from gatemark.exams.runlog.validate import RunlogReport, ValidateRequest, validate_runlogs
from gatemark.report.outputs import write_documents


@click.command("validate")
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@click.option(
    "--mode",
    type=click.Choice(["strict", "inspect"]),
    default="strict",
    show_default=True,
    help="Whether odd order, times and turns of a trace are errors or warnings.",
)
@click.option("--manifest", metavar="FILE", help="Hold traces and run logs against this manifest.")
@click.option("--traces", metavar="DIR", help="Hold run logs against the traces in this folder.")
@max_errors_option
@json_option
@document_option
def validate_command(**flags: Any) -> int:
    """Check traces, manifests and run logs, each alone and against each other.

    PATHs are files or folders; without any, the folder of --traces is checked. A manifest among
    them, or named, pins which traces there are and what they hold. With --traces, windows,
    timestamps and texts of run logs must come from them.

    \b
    Examples:
      gatemark runlog validate data/traces data/manifests
      gatemark runlog validate data/traces --mode inspect -o report.json
      gatemark runlog validate data/runs/V0 --traces data/traces --manifest d.manifest.jsonl
    """
    if not flags["paths"] and not flags["traces"]:
        raise UsageError("name files or folders to check, or --traces")
    request = ValidateRequest(
        paths=flags["paths"] or (flags["traces"],),
        mode=flags["mode"],
        manifest=flags["manifest"],
        traces=flags["traces"],
        max_errors=flags["max_errors"],
    )
    with count_progress("files") as progress:
        report = validate_runlogs(request, progress)
    write_documents(flags["output"], {".json": lambda: _document(report)})
    _tell_findings(report, flags["max_errors"])
    if flags["json"]:
        print_json(msgspec.to_builtins(report))
    else:
        _tell(report)
    return ExitCode.PASS if report.valid else ExitCode.BAD_INPUT


def _document(report: RunlogReport) -> bytes:
    return msgspec.json.format(msgspec.json.encode(report, order="sorted"), indent=2) + b"\n"


def _tell_findings(report: RunlogReport, limit: int) -> None:
    for file in report.files:
        for finding in (*file.problems[:limit], *file.warnings[:limit]):
            click.echo(f"gatemark: {finding}", err=True)
        hidden = len(file.problems) + file.unlisted - limit
        if hidden > 0:
            click.echo(f"gatemark: {file.file}: and at least {hidden} more problems", err=True)


def _tell(report: RunlogReport) -> None:
    broken = {rule: count for rule, count in report.rules.items() if count}
    for rule, count in broken.items():
        click.echo(f"{rule}: {count}")
    if report.stubs:
        click.echo(f"stub traces: {', '.join(report.stubs)}")
    word = "valid" if report.valid else "invalid"
    click.echo(f"{word}: {report.file_count} files, {report.invalid_count} of them with problems")
