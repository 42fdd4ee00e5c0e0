"""``gatemark score advisory``: what a dry run of advisory services says about promotion."""

from __future__ import annotations

from typing import Any

import click

from gatemark.cli.options import (
    jobs_option,
    json_option,
    output_option,
    reading_options,
    store_option,
)
from gatemark.cli.screen import byte_progress, print_json, wants_color
from gatemark.core.policy import EXIT_BY_OUTCOME
from gatemark.evidence.reading_options import reading_choices
from gatemark.exams.advisory.journey import AdvisoryRequest, score_advisory, write_summaries
from gatemark.gate.waivers import read_waivers
from gatemark.report.outputs import check_formats, write_reports
from gatemark.workspace import Workspace


@click.command("advisory")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--policy", metavar="FILE", help="Advisory policy (YAML or JSON); defaults without.")
@click.option(
    "--history", metavar="DIR", help="Folder of earlier summary.json files, for stability."
)
@click.option("--expected-ids", metavar="FILE", help="Pinned decision ids, one per line.")
@reading_options
@click.option("--waivers", metavar="FILE", help="YAML list of waivers.")
@click.option("--out", metavar="DIR", help="Folder for summary.json and summary.md.")
@click.option("--seal", is_flag=True, help="Keep the result and its evidence in the store.")
@click.option(
    "--cache/--no-cache",
    default=True,
    show_default=True,
    help="Keep the facts of large files in the store and score from them next time.",
)
@click.option("--title", help="What to call the result.")
@jobs_option
@store_option
@json_option
@output_option
def advisory_command(**flags: Any) -> int:
    """Score advisory decision records lane by lane and judge them.

    \b
    Examples:
      gatemark score advisory decisions.jsonl
      gatemark score advisory run3.jsonl --history runs/ --policy advisory.yaml --out runs/3
      gatemark score advisory decisions.jsonl --json -o report.html

    Exit codes: 0 every bound holds, 1 one is broken, 2 bad input, 3 could not be judged.
    A pass makes lanes candidates for discussion. It grants nothing.
    """
    check_formats(flags["output"])
    workspace = Workspace(store=flags["store"], jobs=flags["jobs"])
    request = AdvisoryRequest(
        paths=tuple(flags["files"]),
        policy=flags["policy"],
        history=flags["history"],
        expected_ids=flags["expected_ids"],
        waivers=read_waivers(flags["waivers"]) if flags["waivers"] else (),
        seal=flags["seal"],
        title=flags["title"],
        cache=flags["cache"],
    )
    with byte_progress("scoring") as progress:
        scored = score_advisory(workspace, request, reading_choices(flags), on_progress=progress)
    write_reports(scored.result, flags["output"], summary=scored.summary)
    if flags["out"]:
        write_summaries(flags["out"], scored.summary)
    if flags["json"]:
        print_json(scored.summary)
    else:
        from gatemark.report.terminal import verdict_table  # noqa: PLC0415 - scripts do without

        click.echo(verdict_table(scored.result, color=wants_color()))
    return EXIT_BY_OUTCOME[scored.result.verdict]
