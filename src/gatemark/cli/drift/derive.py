"""``gatemark drift derive``: points from what is recorded anyway."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import click

from gatemark.cli.moments import now_option
from gatemark.cli.options import json_option, max_errors_option, store_option
from gatemark.cli.screen import print_json
from gatemark.drift.derive import DEFAULT_WINDOW, default_request, derive_points
from gatemark.evidence.reading_options import ReadingChoices
from gatemark.workspace import Workspace


@click.command("derive")
@click.option("--results", is_flag=True, help="From the sealed results of the store.")
@click.option("--run-log", "run_logs", multiple=True, metavar="FILE", help="A run log. Repeatable.")
@click.option(
    "--decisions",
    multiple=True,
    metavar="FILE",
    help="A file of advisory decisions. Repeatable.",
)
@click.option("--asset", default=None, help="The asset that the records are about.")
@click.option(
    "--window", default=DEFAULT_WINDOW, show_default=True, help="Length of the windows (1h, 1d)."
)
@now_option
@max_errors_option
@store_option
@json_option
def derive_command(**flags: Any) -> None:
    """Push points counted from results, run logs and advisory decisions.

    Results give golden_accuracy and calibration_ece of their candidate, one point for each time
    they were reached; of a registered asset, only those about the version that served then. Run
    logs give verifier_block_ratio (buffer decisions that hold back) and rejection_ratio
    (summaries that fail their schema), of the asset named or of the variant. Decisions give
    confidence_kl, calibration_ece and tool_error_classes, of the asset named or of the service.
    Windows that are not over wait. Without any of these, results are read.

    \b
    Examples:
      gatemark drift derive
      gatemark drift derive --run-log runs/V0.jsonl.gz --asset summariser
      gatemark drift derive --decisions decisions.jsonl
    """
    workspace = Workspace(store=flags["store"])
    now: datetime = flags["now"] or workspace.clock()
    request = default_request(
        flags["run_logs"],
        flags["decisions"],
        results=flags["results"],
        asset=flags["asset"],
        window=flags["window"],
    )
    choices = ReadingChoices(max_errors=flags["max_errors"])
    derived = derive_points(workspace, request, choices, now=now)
    if flags["json"]:
        print_json(derived)
        return
    pushed = derived.pushed
    click.echo(
        f"{pushed.received} points: {pushed.added} new, {pushed.repeated} known, "
        f"{pushed.corrected} corrections; {derived.open_windows} windows are not over"
    )
    if derived.not_served:
        click.echo(f"left out: {derived.not_served} results about versions that did not serve then")
