"""``gatemark drift push``: keep points of watched metrics."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import click

from gatemark.cli.moments import now_option
from gatemark.cli.options import json_option, max_errors_option, store_option
from gatemark.cli.screen import byte_progress, print_json
from gatemark.drift.push import push_points
from gatemark.evidence.reading_options import ReadingChoices
from gatemark.workspace import Workspace


@click.command("push")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option(
    "--duplicate-key-check/--no-duplicate-key-check",
    default=True,
    show_default=True,
    help="Refuse JSON objects that repeat a key.",
)
@now_option
@max_errors_option
@store_option
@json_option
def push_command(**flags: Any) -> None:
    """Keep points of watched metrics, one per window.

    FILE holds gatemark.point/1: lines of asset, metric, start, end and a value with n, or counts
    that add up (sum and sum_squares, k, histogram, calibration, categories); plain, gzip or zstd,
    '-' is standard input. A window that is already there is kept once; another content for it is
    a correction, and what it replaces stays on record. Everything is kept or, when one line is
    wrong, nothing.

    \b
    Examples:
      gatemark drift push points.jsonl
      gatemark drift push - < points.jsonl
    """
    now: datetime = flags["now"] or Workspace().clock()
    workspace = Workspace(store=flags["store"], clock=lambda: now)
    choices = ReadingChoices(
        check_duplicate_keys=flags["duplicate_key_check"], max_errors=flags["max_errors"]
    )
    with byte_progress("pushing") as progress:
        pushed = push_points(workspace, flags["files"], choices, now=now, on_progress=progress)
    if flags["json"]:
        print_json(pushed)
        return
    click.echo(
        f"{pushed.received} points: {pushed.added} new, {pushed.repeated} known, "
        f"{pushed.corrected} corrections"
    )
