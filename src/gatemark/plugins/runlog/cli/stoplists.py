"""``gatemark runlog stoplists``: concepts that nearly every case has."""

from __future__ import annotations

import click
import msgspec

from gatemark.cli.options import FiniteRange, StrictCommand, json_option
from gatemark.cli.screen import count_progress, show
from gatemark.cli.struct_options import struct_group
from gatemark.core.errors import ExitCode
from gatemark.plugins.runlog.cli.options import (
    ExtractorOptions,
    cases_option,
    extractor_options,
    read_source_date,
)
from gatemark.plugins.runlog.make_stoplists import StoplistRequest, make_stoplists
from gatemark.report.outputs import write_attachments
from gatemark.workspace import Workspace

request_options = struct_group(
    StoplistRequest,
    threshold=click.option(
        "--threshold",
        type=FiniteRange(0, 1, min_open=True),
        default=0.90,
        show_default=True,
        help="Minimum share of traces from which a concept is stopped.",
    ),
)


@click.command("stoplists", cls=StrictCommand)
@request_options
@extractor_options
@click.option(
    "--out",
    metavar="DIR",
    default="data/stoplists",
    show_default=True,
    help="Folder for the lists and the report.",
)
@cases_option
@json_option
def stoplists_command(
    extractor: ExtractorOptions,
    request: StoplistRequest,
    *,
    out: str,
    jobs: int | None,
    json: bool,
) -> int:
    """List the concepts that nearly every trace contains.

    Presence is counted per trace, with stoplists off. Writes stop_cuis.txt, stop_entities.txt, a
    report with every concept's share of traces, and metadata.

    \b
    Examples:
      gatemark runlog stoplists
      gatemark runlog stoplists --traces traces --out stoplists --extractor hpo --threshold 0.8
    """
    request = msgspec.structs.replace(
        request,
        extractor=extractor.spec(),
        generated_at=request.generated_at or read_source_date(),
    )
    with count_progress("reading traces") as progress:
        made = make_stoplists(Workspace(jobs=jobs), request, progress)
    written = write_attachments(out, made.files)
    found = made.found
    stopped = {"cuis": found.list_stopped("CUI"), "entities": found.list_stopped("SURFACE")}
    lines = [
        f"{len(stopped['cuis'])} ids and {len(stopped['entities'])} surfaces occur "
        f"in at least {found.cutoff} of {found.case_count} traces",
        *(f"  {path}" for path in written),
    ]
    document = {
        "case_count": found.case_count,
        "cutoff": found.cutoff,
        "threshold": found.threshold,
        "counted": len(found.rows),
        "stopped": stopped,
        "extractor": made.extractor,
        "files": [str(path) for path in written],
    }
    show(document, lambda _: lines, json=json)
    return ExitCode.PASS
