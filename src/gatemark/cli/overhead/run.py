"""``gatemark overhead run``: run both arms of a target and judge them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from typing import TypeVar

import click

from gatemark.cli.options import StrictCommand, json_option, output_option, store_option
from gatemark.cli.score import report_file_option, show_report, struct_options
from gatemark.cli.screen import count_progress, say
from gatemark.exams.overhead.journey import COMPAT
from gatemark.exams.overhead.policy import Mode, OverheadParameters, ProfileName
from gatemark.exams.overhead.run import run_overhead
from gatemark.exams.score import exam_report
from gatemark.report.outputs import check_extensions, check_formats, write_reports
from gatemark.workspace import Workspace

F = TypeVar("F", bound=Callable[..., int])


def policy_options(function: F) -> F:
    """Add the options of a policy to a command."""
    for decorator in reversed([*struct_options(OverheadParameters)]):
        function = decorator(function)
    return function


@click.command("run", cls=StrictCommand)
@click.argument("config")
@click.option("--out", metavar="DIR", help="Folder for the arms, the costs and the report.")
@policy_options
@report_file_option(COMPAT)
@store_option
@json_option
@output_option
def run(
    *,
    config: str,
    out: str | None,
    compat: str | None,
    store: str,
    json: bool,
    output: tuple[str, ...],
    budget: float | None,
    mode: Mode | None,
    profile: ProfileName | None,
    policy: str | None,
    reason: str,
    owner: str,
    evidence: str,
) -> int:
    """Run a target bare, guarded, guarded, bare, and judge the cost of the guards.

    CONFIG is YAML: the target (a built-in example, or your own function), its options, the seeds
    and the output folder. Before every pass, the state is restored (with 'reload: true', the target
    is built again), its hash is compared and every seed is set again. The first bare pass runs
    before any guard is switched on. Then both arms are timed side by side. Writes bare.jsonl,
    guarded.jsonl, noise.jsonl and repeat.jsonl (the second bare and guarded pass), costs.json with
    time and memory, and report.json.

    Exit 0 pass, 1 fail, 2 bad input or a target that raises, 3 inconclusive.

    \b
    Examples:
      gatemark overhead run overhead.yaml
      gatemark overhead run overhead.yaml --out runs/7 --mode interval -o report.html
    """
    check_formats(output)
    check_extensions([compat] if compat else [], (".json",))
    # Output of the target must not mix with the JSON document on standard output.
    with count_progress("running") as progress, redirect_stdout(sys.stderr):
        ran = run_overhead(
            Workspace(store=store),
            config,
            OverheadParameters(budget, mode, profile, policy, reason, owner, evidence),
            out=out,
            on_progress=progress,
        )
    for path in ran.files:
        say(f"wrote {path}", err=True)
    report = exam_report(ran.scored)
    write_reports(ran.scored.result, output, summary=report.document)
    return show_report(report, {COMPAT: compat} if compat else {}, as_json=json)
