"""``gatemark overhead verify``: check a report against its windows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import click

from gatemark.cli.options import StrictCommand, max_errors_option
from gatemark.cli.screen import Outputs, output_options, wants_color
from gatemark.core.canonical import json_file
from gatemark.evidence.source import ReadingChoices
from gatemark.exams.overhead.policy import OverheadParameters
from gatemark.exams.overhead.verify import Verified, VerifyReportRequest, verify_overhead
from gatemark.report.words import VERDICT_WORDS, one_line
from gatemark.scorers.scorer import truncate
from gatemark.workspace import Workspace


@click.command("verify", cls=StrictCommand)
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
    "--accept-overrides",
    is_flag=True,
    help="Accept the justified overrides of the report.",
)
@max_errors_option
@output_options(".json")
def verify(
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
    are found beside the report if they keep their names.

    Exit 0 the report is true and passes, 1 true and fails, 3 true and inconclusive, 4 it
    disagrees, 2 bad input or a missing file.

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
    outputs.show(verified, lambda verified: _lines(verified, max_errors))
    return verified.exit_code


def _lines(verified: Verified, limit: int) -> Iterator[str]:
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
