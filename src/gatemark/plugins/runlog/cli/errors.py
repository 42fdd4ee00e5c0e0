"""``gatemark runlog errors``: excerpts of the cases that stand out."""

from __future__ import annotations

import click
import msgspec

from gatemark.cli.options import StrictCommand, json_option
from gatemark.cli.screen import show
from gatemark.cli.struct_options import struct_group
from gatemark.core.errors import ExitCode
from gatemark.plugins.runlog.cli.options import (
    ExtractorOptions,
    extractor_options,
    stoplists_option,
)
from gatemark.plugins.runlog.metrics.errors import ERRORS_FILE, ErrorsRequest, analyse_errors
from gatemark.report.outputs import write_attachments


@click.command("errors", cls=StrictCommand)
@struct_group(ErrorsRequest)
@click.option(
    "--out",
    metavar="DIR",
    default="data/metrics/error_analysis",
    show_default=True,
    help=f"Folder for {ERRORS_FILE}.",
)
@click.option(
    "--concepts",
    is_flag=True,
    help="Also name missed and unsupported concepts (needs the extractor).",
)
@extractor_options
@stoplists_option
@json_option
def errors_command(
    extractor: ExtractorOptions,
    request: ErrorsRequest,
    *,
    out: str,
    concepts: bool,
    stoplists: str | None,
    json: bool,
) -> int:
    """Show the cases that stand out.

    Writes, for each case that the metrics flag, excerpts of the trace by window, the decisions of
    gate and buffer agent, and the summaries.

    \b
    Examples:
      gatemark runlog errors
      gatemark runlog errors --concepts --extractor hpo --max-excerpt-chars 200
    """
    if concepts:
        request = msgspec.structs.replace(request, extractor=extractor.spec(stoplists))
    found = analyse_errors(request)
    (written,) = write_attachments(out, {ERRORS_FILE: found.lines()})
    flagged = [
        {key: analysis[key] for key in ("case_id", "variant_id", "outlier_flags")}
        for analysis in found.analyses
    ]
    lines = [f"{len(flagged)} of {found.case_count} rows stand out: {written}"]
    for entry in flagged:
        flags = entry["outlier_flags"]
        names = ", ".join(flags) if isinstance(flags, list) else ""
        lines.append(f"  {entry['case_id']} {entry['variant_id']}: {names}")
    show(
        {"case_count": found.case_count, "flagged": flagged, "files": [str(written)]},
        lambda _: lines,
        json=json,
    )
    return ExitCode.PASS
