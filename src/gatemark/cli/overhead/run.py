"""``gatemark overhead run``: both arms of a target, one after the other, judged."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from typing import Any

import click

from gatemark.cli.options import json_option, output_option, store_option
from gatemark.cli.score.overhead import policy_options, policy_request, tell
from gatemark.cli.screen import count_progress
from gatemark.exams.overhead.run import run_overhead
from gatemark.report.outputs import check_extensions, check_formats
from gatemark.workspace import Workspace


@click.command("run")
@click.argument("config")
@click.option("--out", metavar="DIR", help="Folder for the arms, the costs and the report.")
@policy_options
@click.option("--compat", metavar="FILE", help="Also write the flat fields of older reports.")
@store_option
@json_option
@output_option
def run(**flags: Any) -> int:
    """Run a target bare, guarded, guarded, bare, and judge what the guards cost.

    CONFIG is YAML: the target (an example that ships, or a function of your own), its options,
    the seeds and the folder to write to. Before every pass the state is restored, its hash is
    compared and every seed is set again. Writes bare.jsonl, guarded.jsonl and noise.jsonl (the
    second bare pass), costs.json with time and memory, and report.json.

    Exit 0 pass, 1 fail, 2 bad input or a target that raises, 3 could not be judged.

    \b
    Examples:
      gatemark overhead run overhead.yaml
      gatemark overhead run overhead.yaml --out runs/7 --mode interval -o report.html
    """
    check_formats(flags["output"])
    if flags["compat"]:
        check_extensions([flags["compat"]], (".json",))
    # What a target prints must not mix with the one document on standard output.
    with count_progress("running") as progress, redirect_stdout(sys.stderr):
        ran = run_overhead(
            Workspace(store=flags["store"]),
            flags["config"],
            policy_request(flags),
            out=flags["out"],
            on_progress=progress,
        )
    for path in ran.files:
        click.echo(f"wrote {path}", err=True)
    return tell(ran.scored, flags)
