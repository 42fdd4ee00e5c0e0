"""``gatemark overhead verify``: whether a report says what the windows say."""

from __future__ import annotations

from typing import Any

import click

from gatemark.cli.options import document_option, json_option, max_errors_option
from gatemark.cli.screen import print_json, wants_color
from gatemark.core.canonical import json_file
from gatemark.evidence.reading_options import ReadingChoices
from gatemark.exams.overhead.policy_file import PolicyRequest
from gatemark.exams.overhead.verify import Verified, VerifyReportRequest, verify_overhead
from gatemark.report.outputs import check_extensions, write_documents
from gatemark.report.words import VERDICT_WORDS, one_line
from gatemark.scorers.scorer import truncate
from gatemark.workspace import Workspace


@click.command("verify")
@click.argument("report")
@click.option("--bare", metavar="FILE", help="The arm without guards.")
@click.option("--guarded", metavar="FILE", help="The arm with guards.")
@click.option("--noise", metavar="FILE", help="The second bare run, if the report rests on one.")
@click.option("--costs", metavar="FILE", help="Recorded time and memory, if the report has them.")
@click.option("--policy", metavar="FILE", help="Judge by this policy, not by the report's own.")
@click.option(
    "--profile",
    type=click.Choice(["release", "ci", "dev"]),
    help="Judge by this profile, not by the report's own policy.",
)
@click.option(
    "--accept-overrides",
    is_flag=True,
    help="Let the report's own justified overrides stand.",
)
@max_errors_option
@document_option
@json_option
def verify(**flags: Any) -> int:
    """Recompute a report from the windows and list every disagreement.

    REPORT is the JSON that 'gatemark score overhead -o report.json' writes. Stored verdicts,
    ratios and flags are not believed. Overrides that loosen a profile are refused unless they are
    accepted or stand in your own --policy.

    Both arms are needed, unless the report says that one was missing. The second bare run and the
    costs are found beside the report when they keep their names.

    Exit 0 the report is true and passes, 1 true and fails, 3 true and inconclusive, 4 it
    disagrees, 2 bad input or a file that it rests on is not there.

    \b
    Examples:
      gatemark overhead verify report.json --bare bare.jsonl --guarded guarded.jsonl
      gatemark overhead verify report.json --bare b.jsonl --guarded g.jsonl --policy ours.yaml
    """
    check_extensions(flags["output"], (".json",))
    request = VerifyReportRequest(
        report=flags["report"],
        paths={role: flags[role] for role in ("bare", "guarded", "noise", "costs")},
        policy=PolicyRequest(profile=flags["profile"], file=flags["policy"]),
        accept_overrides=flags["accept_overrides"],
    )
    verified = verify_overhead(Workspace(), request, ReadingChoices(max_errors=flags["max_errors"]))
    write_documents(
        flags["output"],
        {".json": lambda: json_file(verified)},
    )
    if flags["json"]:
        print_json(verified)
    else:
        _tell(verified, flags["max_errors"])
    return verified.exit_code


def _tell(verified: Verified, limit: int) -> None:
    color = "green" if verified.agrees else "red"
    word = "AGREES" if verified.agrees else "DISAGREES"
    verdict = VERDICT_WORDS[verified.verdict] if verified.verdict else "not computed"
    head = click.style(word, fg=color, bold=True) if wants_color() else word
    click.echo(f"{head}  recomputed verdict {verdict}, policy from the {verified.policy_source}")
    for override in verified.overrides:
        click.echo(
            f"  override: {override['field']} = {override['value']} by "
            f"{one_line(override['owner']) or 'nobody'}: {one_line(override['reason']) or 'none'}"
        )
    for found in verified.disagreements[:limit]:
        told = (
            f"{one_line(found.path)}: stored {one_line(truncate(found.stored, 80))}, "
            f"recomputed {one_line(truncate(found.recomputed, 80))}"
        )
        if verified.verdict is None:
            told = f"not of the closed schema: {one_line(truncate(found.stored, 200))}"
        click.echo(f"  {found.check}: {told}")
    if len(verified.disagreements) > limit:
        click.echo(f"  and {len(verified.disagreements) - limit} more")
    skipped = [check for check, state in verified.checks.items() if state == "not checked"]
    if skipped:
        click.echo(f"  not checked: {', '.join(skipped)}")
