"""``gatemark runlog validate``: check traces, manifests and run logs against each other."""

from __future__ import annotations

from collections.abc import Iterator

import click
import msgspec

from gatemark.cli.options import StrictCommand
from gatemark.cli.screen import Outputs, count_progress, output_options, say
from gatemark.cli.struct_options import struct_group
from gatemark.core.errors import ExitCode, UsageError
from gatemark.plugins.runlog.traces.files import render_plain_json
from gatemark.plugins.runlog.validate import RunlogReport, ValidateRequest, validate_runlogs


@click.command("validate", cls=StrictCommand)
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@struct_group(ValidateRequest)
@output_options(".json")
def validate_command(outputs: Outputs, request: ValidateRequest, *, paths: tuple[str, ...]) -> int:
    """Check traces, manifests and run logs, each alone and against each other.

    PATHs are files or folders; without any, the folder of --traces is checked. A manifest, among
    them or named, pins the traces and their content. With --traces, windows, timestamps and texts
    of run logs must come from them. Files are recognised by their records, not their names, and a
    file that cannot be read does not stop the others.

    \b
    Examples:
      gatemark runlog validate data/traces data/manifests
      gatemark runlog validate data/traces --mode inspect -o report.json
      gatemark runlog validate data/runs/V0 --traces data/traces --manifest d.manifest.jsonl
      gatemark runlog validate published/runs --compat source
    """
    checked = paths or ((request.traces,) if request.traces else ())
    if not checked:
        raise UsageError("name files or folders to check, or --traces")
    request = msgspec.structs.replace(request, paths=checked)
    with count_progress("files") as progress:
        report = validate_runlogs(request, progress)
    outputs.write({".json": lambda: render_plain_json(report)})
    _print_findings(report, request.max_errors)
    outputs.show(report, _render_validation)
    return ExitCode.PASS if report.valid else ExitCode.BAD_INPUT


def _print_findings(report: RunlogReport, limit: int) -> None:
    for file in report.files:
        for finding in (*file.problems[:limit], *file.warnings[:limit]):
            say(f"gatemark: {finding}", err=True)
        hidden = len(file.problems) + file.unlisted - limit
        if hidden > 0:
            say(f"gatemark: {file.file}: and at least {hidden} more problems", err=True)


def _render_validation(report: RunlogReport) -> Iterator[str]:
    broken = {rule: count for rule, count in report.rules.items() if count}
    for rule, count in broken.items():
        yield f"{rule}: {count}"
    if report.stubs:
        yield f"stub traces: {', '.join(report.stubs)}"
    word = "valid" if report.valid else "invalid"
    yield f"{word}: {report.file_count} files, {report.invalid_count} of them with problems"
