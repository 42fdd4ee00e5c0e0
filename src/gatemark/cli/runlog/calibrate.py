"""``gatemark runlog calibrate``: settings that evidence chose."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from gatemark.cli.options import json_option
from gatemark.cli.runlog.options import processes_option
from gatemark.cli.screen import count_progress, print_json
from gatemark.core.errors import ExitCode, UsageError
from gatemark.exams.runlog.calibrate.journey import CalibrateRequest, calibrate
from gatemark.exams.runlog.make_traces import read_case_list
from gatemark.exams.runlog.replay.chunks import write_chunk_report
from gatemark.workspace import Workspace


@click.command("calibrate")
@click.option("--traces", metavar="DIR", help="Traces to sweep the token gate over.")
@click.option("--manifest", metavar="FILE", help="Their manifest; found near them if unique.")
@click.option(
    "--config", metavar="FILE", help="Grid, constraints and weights; shipped if left out."
)
@click.option(
    "--compat",
    type=click.Choice(["gatemark", "source"]),
    help="Whose timers the gate has; the configuration's when left out.",
)
@click.option("--allow-stub", is_flag=True, help="Sweep over stub traces too.")
@click.option(
    "--v0-run-log",
    "v0_run_logs",
    multiple=True,
    metavar="PATH",
    help="V0's run logs, a file or a folder: choose V3's chunk size instead. Repeatable.",
)
@click.option("--case-list", metavar="FILE", help="The ordered cases, for V3's chunk size.")
@click.option(
    "--subset-count",
    type=click.IntRange(1),
    default=40,
    show_default=True,
    help="How many of the first cases decide V3's chunk size.",
)
@click.option("--code-commit", default="unknown", show_default=True, help="Commit under test.")
@click.option("--output", required=True, metavar="DIR", help="Where the files go.")
@processes_option
@json_option
def calibrate_command(**flags: Any) -> int:
    """Choose the token gate's settings, or V3's chunk size, from evidence.

    With --traces, a grid of settings is replayed over every trace; of those that hold all
    constraints, the one nearest to the best in everything is chosen. With --v0-run-log, V3's chunk
    size becomes the median of what V0's gate let through. Ends with 1 when nothing can be chosen.

    \b
    Examples:
      gatemark runlog calibrate --traces data/traces --output data/calibration
      gatemark runlog calibrate --v0-run-log data/runs/V0 --case-list c.jsonl --output data
    """
    if bool(flags["traces"]) == bool(flags["v0_run_logs"]):
        raise UsageError("give --traces, or --v0-run-log with --case-list")
    if flags["v0_run_logs"]:
        return _calibrate_chunks(flags)
    request = CalibrateRequest(
        traces=flags["traces"],
        output=flags["output"],
        manifest=flags["manifest"],
        config=flags["config"],
        compat=flags["compat"],
        allow_stub=flags["allow_stub"],
        code_commit=flags["code_commit"],
    )
    with count_progress("policies") as progress:
        place, found = calibrate(Workspace(jobs=flags["jobs"]).engine, request, progress)
    choice = found.choice
    if flags["json"]:
        print_json(
            {
                "calibration_run_id": found.run_id,
                "output": str(place),
                "policies": len(found.policies),
                "survivors": len(found.survivors),
                "selection_method": None if choice is None else choice.method,
                "selected": None if choice is None else msgspec.to_builtins(choice.chosen),
            }
        )
    else:
        click.echo(
            f"{found.run_id}: {len(found.policies)} policies over {found.case_count} cases, "
            f"{len(found.survivors)} hold every constraint"
        )
        if choice is None:
            click.echo("none was chosen")
        else:
            settings = choice.chosen.policy.settings
            click.echo(
                f"chosen by {choice.method}: {choice.chosen.policy.policy_id} "
                f"(words {settings.min_words} to {settings.max_words}, "
                f"silence {settings.silence_ms} ms, wait {settings.max_wait_ms} ms)"
            )
        click.echo(f"written to {place}")
    return ExitCode.FAIL if choice is None else ExitCode.PASS


def _calibrate_chunks(flags: dict[str, Any]) -> int:
    if not flags["case_list"]:
        raise UsageError("--v0-run-log needs --case-list, because the order of cases decides")
    target, report = write_chunk_report(
        read_case_list(flags["case_list"]),
        flags["v0_run_logs"],
        flags["output"],
        subset_count=flags["subset_count"],
        code_commit=flags["code_commit"],
    )
    if flags["json"]:
        print_json(msgspec.to_builtins(report))
    else:
        click.echo(
            f"chunk size {report.chunk_size_ctu} CTU (median {report.median_ctu:g} over "
            f"{report.subset_count} cases)"
        )
        click.echo(f"written to {target}")
    return ExitCode.PASS
