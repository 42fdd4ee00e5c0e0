"""``gatemark score agreement``: whether two independent validators say the same."""

from __future__ import annotations

from typing import Any, get_args

import click

from gatemark.cli.options import (
    FiniteRange,
    engine_option,
    jobs_option,
    json_option,
    output_option,
    reading_options,
    store_option,
)
from gatemark.cli.screen import byte_progress, print_json, wants_color
from gatemark.core.policy import EXIT_BY_OUTCOME
from gatemark.evidence.reading_options import OnUnpaired, reading_choices
from gatemark.exams.agreement.journey import AUDITOR, SCHOLAR, score_agreement
from gatemark.gate.waivers import read_waivers
from gatemark.report.outputs import check_formats, write_reports
from gatemark.report.terminal import verdict_table
from gatemark.workspace import Workspace

SHARE = FiniteRange(0, 1)


class NamedFile(click.ParamType[tuple[str, str]]):
    """A validator's name and file, as NAME=FILE."""

    name = "NAME=FILE"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        name, found, path = str(value).partition("=")
        if not (found and name and path):
            self.fail(f"expected NAME=FILE, got {value!r}", param, ctx)
        if name in {SCHOLAR, AUDITOR}:
            self.fail(f"{name} has an option of its own", param, ctx)
        return name, path


@click.command("agreement")
@click.option("--pairs", metavar="FILE", help="Merged pairs, one record per question.")
@click.option("--scholar", metavar="FILE", help="The scholar's judgements.")
@click.option("--auditor", metavar="FILE", help="The auditor's judgements.")
@click.option(
    "--validator",
    multiple=True,
    type=NamedFile(),
    help="A further validator's judgements, for Krippendorff's alpha. Repeatable.",
)
@click.option(
    "--pa-gate", type=SHARE, default=0.90, show_default=True, help="Least percent agreement."
)
@click.option(
    "--kappa-gate",
    type=FiniteRange(-1, 1),
    default=0.75,
    show_default=True,
    help="Least kappa; AC1 is held against it too where kappa says nothing.",
)
@click.option(
    "--abstain-gate",
    type=SHARE,
    default=0.02,
    show_default=True,
    help="Most rows, as a share, in which either validator abstains.",
)
@click.option(
    "--coverage-gate",
    type=SHARE,
    default=1.0,
    show_default=True,
    help="Least share of items that arrived whole.",
)
@click.option(
    "--nic-policy",
    type=click.Choice(["strict", "accept_agreed"]),
    default="strict",
    show_default=True,
    help="Whether two NOT_IN_CONTEXT labels reject or agree.",
)
@click.option("--expected-ids", metavar="FILE", help="Pinned ids, one per line.")
@click.option(
    "--on-unpaired",
    type=click.Choice(get_args(OnUnpaired)),
    default="error",
    show_default=True,
    help="What to do with an id that only one side has.",
)
@reading_options
@click.option("--waivers", metavar="FILE", help="YAML list of waivers.")
@click.option("--out", metavar="DIR", help="Folder for consistency_disagreements.tsv.")
@click.option("--seal", is_flag=True, help="Keep the result and its evidence in the store.")
@click.option("--title", help="What to call the result.")
@jobs_option
@engine_option
@store_option
@json_option
@output_option
def agreement_command(**flags: Any) -> int:
    """Measure agreement between two validators and judge it.

    Percent agreement, Cohen's kappa, Gwet's AC1 and Krippendorff's alpha with intervals; every
    row is arbitrated. Exit 0 pass, 1 fail, 2 bad input, 3 could not be judged.

    \b
    Examples:
      gatemark score agreement --pairs pairs.jsonl --out runs
      gatemark score agreement --scholar s.jsonl --auditor a.jsonl --json -o report.html
    """
    names = [name for name, _ in flags["validator"]]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise click.UsageError(f"two validators are called {twice[0]!r}")
    judgements = {
        name: path
        for name, path in (
            (SCHOLAR, flags["scholar"]),
            (AUDITOR, flags["auditor"]),
            *flags["validator"],
        )
        if path is not None
    }
    inputs = (flags["pairs"], *judgements.values(), flags["waivers"], flags["expected_ids"])
    check_formats(flags["output"], inputs=inputs, folder=flags["out"])
    choices = reading_choices(flags)
    workspace = Workspace(store=flags["store"], jobs=flags["jobs"], engine=flags["engine"])
    with byte_progress("scoring") as progress:
        scored = score_agreement(
            workspace,
            {
                name: flags[name]
                for name in ("pa_gate", "kappa_gate", "abstain_gate", "coverage_gate", "nic_policy")
            },
            choices,
            pairs=flags["pairs"],
            judgements=judgements,
            expected_ids=flags["expected_ids"],
            waivers=read_waivers(flags["waivers"]) if flags["waivers"] else (),
            seal=flags["seal"],
            title=flags["title"],
            on_progress=progress,
        )
    write_reports(
        scored.result,
        flags["output"],
        summary=scored.summary,
        folder=flags["out"],
        attachments=scored.attachments,
    )
    if flags["json"]:
        print_json(scored.summary)
    else:
        click.echo(verdict_table(scored.result, color=wants_color()))
    return EXIT_BY_OUTCOME[scored.result.verdict]
