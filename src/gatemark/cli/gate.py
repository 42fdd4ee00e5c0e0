"""``gatemark gate``: the same evidence before another judge."""

from __future__ import annotations

from typing import Any

import click

from gatemark.cli.options import json_option, output_option, read_waivers, store_option
from gatemark.cli.run import show_result
from gatemark.packs.run import rejudge
from gatemark.report.outputs import check_formats
from gatemark.workspace import Workspace


@click.command("gate")
@click.argument("reference", metavar="RESULT")
@click.option("--pack", required=True, help="The pack to judge by.")
@click.option("--waivers", metavar="FILE", help="YAML list of waivers.")
@store_option
@json_option
@output_option
def gate_command(**flags: Any) -> int:
    """Judge recorded evidence again by a pack; calls no target.

    The pack may differ from the one that made RESULT in rules, weights, floors and scorers, but
    not in its data: other data cannot be compared (exit 3).

    \b
    Example:
      gatemark gate 3f2a9c01 --pack packs/stricter.yaml
    """
    check_formats(flags["output"])
    result = rejudge(
        Workspace(store=flags["store"]),
        flags["reference"],
        flags["pack"],
        waivers=read_waivers(flags["waivers"]),
    )
    return show_result(result, flags)
