"""``gatemark overhead``: run both arms of a guard-overhead measurement, verify reports."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from typing import Literal, TypeVar

import click

from gatemark.checks.score import exam_report
from gatemark.cli.options import (
    StrictGroup,
    json_option,
    max_errors_option,
    output_option,
    store_option,
)
from gatemark.cli.score import report_file_option, show_report
from gatemark.cli.screen import Outputs, count_progress, output_options, say, wants_color
from gatemark.cli.struct_options import struct_options
from gatemark.core.canonical import json_file
from gatemark.evidence.reading_choices import ReadingChoices
from gatemark.plugins.overhead.flat_report import COMPAT
from gatemark.plugins.overhead.parameters import OverheadParameters
from gatemark.plugins.overhead.run import run_overhead
from gatemark.plugins.overhead.settings import Mode, ProfileName
from gatemark.plugins.overhead.verify import (
    ReportVerification,
    VerifyReportRequest,
    verify_overhead,
)
from gatemark.report.outputs import check_extensions, check_formats, write_reports
from gatemark.report.words import VERDICT_WORDS, one_line
from gatemark.scorers.scorer import truncate
from gatemark.workspace import Workspace

F = TypeVar("F", bound=Callable[..., int])


def add_policy_options(function: F) -> F:
    """Add the options of a policy to a command."""
    for decorator in reversed([*struct_options(OverheadParameters)]):
        function = decorator(function)
    return function


@click.group("overhead", cls=StrictGroup)
def overhead_command() -> None:
    """Run bare and guarded arms, and verify reports about them.

    \b
    Examples:
      gatemark overhead run overhead.yaml
      gatemark overhead verify report.json --bare bare.jsonl --guarded guarded.jsonl
    """


@overhead_command.command("run")
@click.argument("config")
@click.option("--out", metavar="DIR", help="Folder for the arms, the costs and the report.")
@add_policy_options
@report_file_option(COMPAT)
@store_option
@json_option
@output_option
def run_command(
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

    CONFIG is YAML: the target (your own function), its options, the seeds
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


@overhead_command.command("verify")
@click.argument("report")
@click.option("--bare", metavar="FILE", help="Windows of the arm without guards.")
@click.option("--guarded", metavar="FILE", help="Windows of the arm with guards.")
@click.option(
    "--noise", metavar="FILE", help="Windows of the second bare run, if the report uses one."
)
@click.option(
    "--repeat", metavar="FILE", help="Windows of the second guarded run, if the report uses one."
)
@click.option("--costs", metavar="FILE", help="Recorded time and memory, if the report has any.")
@click.option("--policy", metavar="FILE", help="Policy to judge by (default: the report's).")
@click.option(
    "--profile",
    type=click.Choice(["release", "ci", "dev"]),
    help="Profile to judge by (default: the policy of the report).",
)
@click.option(
    "--accept-overrides", is_flag=True, help="Accept the justified overrides of the report."
)
@max_errors_option
@output_options(".json")
def verify_command(
    outputs: Outputs,
    *,
    report: str,
    bare: str | None,
    guarded: str | None,
    noise: str | None,
    repeat: str | None,
    costs: str | None,
    policy: str | None,
    profile: Literal["release", "ci", "dev"] | None,
    accept_overrides: bool,
    max_errors: int,
) -> int:
    """Recompute a report from the windows and list every disagreement.

    REPORT is the JSON that 'gatemark score overhead -o report.json' writes. Stored verdicts, ratios
    and flags are not trusted. Overrides that loosen a profile are refused unless you accept them or
    judge by your own --policy.

    Both arms are needed, unless the report says that one was missing. The second runs and the costs
    are found alongside the report if they keep their names.

    Exit 0 the report is true and passes, 1 true and fails, 3 true and inconclusive or decided by
    other rules, 4 it disagrees, 2 bad input or a missing file.

    \b
    Examples:
      gatemark overhead verify report.json --bare bare.jsonl --guarded guarded.jsonl
      gatemark overhead verify report.json --bare b.jsonl --guarded g.jsonl --policy ours.yaml
    """
    request = VerifyReportRequest(
        report=report,
        paths={
            "bare": bare,
            "guarded": guarded,
            "noise": noise,
            "repeat": repeat,
            "costs": costs,
        },
        policy=OverheadParameters(profile=profile, policy=policy),
        accept_overrides=accept_overrides,
    )
    verified = verify_overhead(Workspace(), request, ReadingChoices(max_errors=max_errors))
    outputs.write({".json": lambda: json_file(verified)})
    outputs.show(verified, lambda verified: _render_verification(verified, max_errors))
    return verified.exit_code


def _render_verification(verified: ReportVerification, limit: int) -> Iterator[str]:
    color = "green" if verified.agrees else "red"
    word = "AGREES" if verified.agrees else "DISAGREES"
    verdict = VERDICT_WORDS[verified.verdict] if verified.verdict else "not computed"
    head = click.style(word, fg=color, bold=True) if wants_color() else word
    yield f"{head}  recomputed verdict {verdict}, policy from the {verified.policy_source}"
    for override in verified.overrides:
        yield (
            f"  override: {override['field']} = {override['value']} by "
            f"{one_line(str(override['owner'])) or 'nobody'}: "
            f"{one_line(str(override['reason'])) or 'none'}"
        )
    for found in verified.disagreements[:limit]:
        text = (
            f"{one_line(found.path)}: stored {one_line(truncate(found.stored, 80))}, "
            f"recomputed {one_line(truncate(found.recomputed, 80))}"
        )
        if verified.verdict is None:
            text = f"does not match the schema: {one_line(truncate(found.stored, 200))}"
        yield f"  {found.check}: {text}"
    if len(verified.disagreements) > limit:
        yield f"  and {len(verified.disagreements) - limit} more"
    skipped = [check for check, state in verified.checks.items() if state == "not checked"]
    if skipped:
        yield f"  not checked: {', '.join(skipped)}"
