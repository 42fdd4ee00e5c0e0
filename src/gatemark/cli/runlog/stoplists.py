"""``gatemark runlog stoplists``: concepts that tell no case from another."""

from __future__ import annotations

from typing import Any

import click

from gatemark.cli.options import FiniteRange, json_option
from gatemark.cli.runlog.options import (
    cases_option,
    chosen_extractor,
    compat_option,
    extractor_options,
    source_date,
)
from gatemark.cli.screen import count_progress, print_json
from gatemark.exams.runlog.make_stoplists import StoplistRequest, make_stoplists
from gatemark.report.outputs import write_attachments
from gatemark.workspace import Workspace


@click.command("stoplists")
@click.option(
    "--traces", metavar="DIR", default="data/traces", show_default=True, help="Folder of traces."
)
@click.option(
    "--out",
    metavar="DIR",
    default="data/stoplists",
    show_default=True,
    help="Folder for the lists and the report.",
)
@click.option(
    "--threshold",
    type=FiniteRange(0, 1, min_open=True),
    default=0.90,
    show_default=True,
    help="Share of traces from which a concept is stopped.",
)
@extractor_options
@compat_option
@click.option("--allow-stub", is_flag=True, help="Also count stub traces.")
@click.option(
    "--generated-at",
    metavar="TIME",
    help="The time to write into the metadata; the end of the last trace when left out.",
)
@click.option("--commit", metavar="COMMIT", help="The commit to write into the metadata.")
@cases_option
@json_option
def stoplists_command(**flags: Any) -> int:
    """List the concepts that nearly every trace holds.

    Presence counts per trace, with stoplists off. Writes stop_cuis.txt, stop_entities.txt, a
    report with every concept's share of traces, and metadata.

    \b
    Examples:
      gatemark runlog stoplists
      gatemark runlog stoplists --traces traces --out stoplists --extractor hpo --threshold 0.8
    """
    request = StoplistRequest(
        traces=flags["traces"],
        threshold=flags["threshold"],
        extractor=chosen_extractor(flags),
        compat=flags["compat"],
        allow_stub=flags["allow_stub"],
        generated_at=flags["generated_at"] or source_date(),
        commit=flags["commit"],
    )
    with count_progress("reading traces") as progress:
        made = make_stoplists(Workspace(jobs=flags["jobs"]), request, progress)
    written = write_attachments(flags["out"], made.files)
    if flags["json"]:
        print_json(
            {
                "case_count": made.case_count,
                "cutoff": made.cutoff,
                "threshold": made.threshold,
                "counted": made.counted,
                "stopped": made.stopped,
                "extractor": made.extractor,
                "files": [str(path) for path in written],
            }
        )
    else:
        click.echo(
            f"{len(made.stopped['cuis'])} ids and {len(made.stopped['entities'])} surfaces occur "
            f"in at least {made.cutoff} of {made.case_count} traces"
        )
        for path in written:
            click.echo(f"  {path}")
    return 0
