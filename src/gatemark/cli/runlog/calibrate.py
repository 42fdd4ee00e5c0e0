"""``gatemark runlog calibrate``: choose settings from evidence."""

from __future__ import annotations

from collections.abc import Iterator

import click
import msgspec

from gatemark.cli.options import StrictCommand, json_option
from gatemark.cli.runlog.options import processes_option
from gatemark.cli.screen import count_progress, show
from gatemark.cli.struct_options import struct_group
from gatemark.core.errors import ExitCode, UsageError
from gatemark.exams.runlog.calibrate.calibrate import CalibrateRequest, calibrate
from gatemark.exams.runlog.calibrate.report import CalibrationReport
from gatemark.exams.runlog.make_traces import read_case_list
from gatemark.exams.runlog.replay.chunks import ChunkReport, write_chunk_report
from gatemark.workspace import Workspace

request_options = struct_group(
    CalibrateRequest,
    output=click.option("--output", required=True, metavar="DIR", help="Folder to write to."),
)


@click.command("calibrate", cls=StrictCommand)
@request_options
@click.option(
    "--v0-run-log",
    "v0_run_logs",
    multiple=True,
    metavar="PATH",
    help="Run logs of V0, to choose the chunk size of V3 from. Repeatable.",
)
@click.option(
    "--case-list", metavar="FILE", help="Ordered list of cases, for the chunk size of V3."
)
@click.option(
    "--subset-count",
    type=click.IntRange(1),
    default=40,
    show_default=True,
    help="Number of cases, from the first on, that decide the chunk size of V3.",
)
@processes_option
@json_option
def calibrate_command(
    request: CalibrateRequest,
    *,
    v0_run_logs: tuple[str, ...],
    case_list: str | None,
    subset_count: int,
    jobs: int | None,
    json: bool,
) -> int:
    """Choose the token gate's settings, or V3's chunk size, from evidence.

    With --traces, replays a grid of settings over every trace and chooses, among those that meet
    all constraints, the one nearest to the best in every metric. With --v0-run-log, sets V3's chunk
    size to the median of what V0's gate passed on. Exit 1 if nothing can be chosen.

    \b
    Examples:
      gatemark runlog calibrate --traces data/traces --output data/calibration
      gatemark runlog calibrate --v0-run-log data/runs/V0 --case-list c.jsonl --output data
    """
    if v0_run_logs and not request.traces:
        if not case_list:
            raise UsageError("--v0-run-log needs --case-list: the order of cases matters")
        target, report = write_chunk_report(
            read_case_list(case_list),
            v0_run_logs,
            request.output,
            subset_count=subset_count,
            code_commit=request.code_commit,
        )
        show(report, lambda report: _render_chunks(report, str(target)), json=json)
        return ExitCode.PASS
    if not request.traces or v0_run_logs:
        raise UsageError("give --traces, or --v0-run-log with --case-list")
    with count_progress("policies") as progress:
        place, found = calibrate(Workspace(jobs=jobs).engine, request, progress)
    choice = found.choice
    document = {
        "calibration_run_id": found.run_id,
        "output": str(place),
        "policies": len(found.policies),
        "survivors": len(found.survivors),
        "selection_method": None if choice is None else choice.method,
        "selected": None if choice is None else msgspec.to_builtins(choice.chosen),
    }
    show(document, lambda _: _sweep_lines(found, str(place)), json=json)
    return ExitCode.FAIL if choice is None else ExitCode.PASS


def _sweep_lines(found: CalibrationReport, place: str) -> Iterator[str]:
    yield (
        f"{found.run_id}: {len(found.policies)} policies over {found.case_count} cases, "
        f"{len(found.survivors)} hold every constraint"
    )
    if found.choice is None:
        yield "no policy was chosen"
    else:
        chosen = found.choice.chosen.policy
        settings = chosen.settings
        yield (
            f"chosen by {found.choice.method}: {chosen.policy_id} "
            f"(words {settings.min_words} to {settings.max_words}, "
            f"silence {settings.silence_ms} ms, wait {settings.max_wait_ms} ms)"
        )
    yield f"written to {place}"


def _render_chunks(report: ChunkReport, target: str) -> Iterator[str]:
    yield (
        f"chunk size {report.chunk_size_ctu} CTU (median {report.median_ctu:g} over "
        f"{report.subset_count} cases)"
    )
    yield f"written to {target}"
