"""``gatemark runlog metrics``: M1 to M10 of run logs, with intervals and gates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

import click

from gatemark.cli.options import (
    FiniteRange,
    json_option,
    max_errors_option,
    output_option,
    store_option,
)
from gatemark.cli.runlog.options import (
    cases_option,
    chosen_extractor,
    compat_option,
    extractor_options,
    source_date,
    stoplists_option,
)
from gatemark.cli.screen import count_progress, print_json, wants_color
from gatemark.core.errors import UsageError
from gatemark.core.policy import EXIT_BY_OUTCOME
from gatemark.exams.runlog.metrics.journey import MetricsRequest, OnBadCase, score_runlog
from gatemark.packs.judge_exam import keep
from gatemark.report.outputs import check_formats, write_attachments, write_reports
from gatemark.report.terminal import first_table, verdict_table
from gatemark.workspace import Workspace


class Gate(click.ParamType[tuple[str, float]]):
    """A metric and its bound, as METRIC=BOUND."""

    name = "METRIC=BOUND"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, float]:
        metric, found, bound = str(value).partition("=")
        if not (found and metric and bound):
            self.fail(f"expected METRIC=BOUND, got {value!r}", param, ctx)
        return metric, FiniteRange().convert(bound, param, ctx)


def _gates(given: Sequence[tuple[str, float]]) -> dict[str, float]:
    """The bounds by metric; two of one metric would leave it open which of them counts."""
    gates = dict(given)
    if len(gates) < len(given):
        names = [metric for metric, _ in given]
        twice = next(name for name in names if names.count(name) > 1)
        raise UsageError(f"--gate names {twice} more than once")
    return gates


@click.command("metrics")
@click.option(
    "--runs",
    metavar="DIR",
    default="data/runs",
    show_default=True,
    help="Folder of run logs, one folder per variant: V0/case-….jsonl.gz.",
)
@click.option(
    "--traces", metavar="DIR", default="data/traces", show_default=True, help="Folder of traces."
)
@click.option(
    "--manifest",
    metavar="FILE",
    help="The manifest of the traces; the only one beside them when left out.",
)
@click.option(
    "--configs",
    metavar="DIR",
    help="Folder of variant configurations; the built-in variants when left out.",
)
@click.option("--variant", multiple=True, metavar="V", help="Measure only this. Repeatable.")
@click.option(
    "--out",
    metavar="DIR",
    default="data/metrics",
    show_default=True,
    help="Folder for per-case, aggregate, paired and provenance files.",
)
@extractor_options
@stoplists_option
@compat_option
@click.option(
    "--judged", metavar="V", help="The variant that gates and score are about; else the first."
)
@click.option(
    "--gate",
    multiple=True,
    type=Gate(),
    help="Bound of a metric of the judged variant: a floor where higher is better, else a "
    "ceiling. Repeatable.",
)
@click.option(
    "--score",
    metavar="METRIC",
    default="m6b_mean",
    show_default=True,
    help="The metric that becomes the score.",
)
@click.option(
    "--coverage-gate",
    type=FiniteRange(0, 1),
    default=1.0,
    show_default=True,
    help="Least share of cases that have a usable log.",
)
@click.option(
    "--on-bad-case",
    type=click.Choice(get_args(OnBadCase)),
    default="error",
    show_default=True,
    help="Refuse the input, or count and show the logs that were left out.",
)
@click.option(
    "--bootstrap-samples",
    type=click.IntRange(1, 1_000_000),
    default=10_000,
    show_default=True,
    help="Resamples per interval.",
)
@click.option(
    "--seed",
    type=click.IntRange(0, 2**32 - 1),
    default=42,
    show_default=True,
    help="Seed of the intervals.",
)
@click.option("--timeline", metavar="CASE", help="The case to draw; else one that stands out.")
@click.option(
    "--computed-at",
    metavar="TIME",
    help="The time to write into the files; the end of the last trace when left out.",
)
@max_errors_option
@click.option("--seal", is_flag=True, help="Keep the result and its evidence in the store.")
@cases_option
@store_option
@json_option
@output_option
def metrics_command(**flags: Any) -> int:
    """Measure run logs against their traces, variant by variant.

    M1 to M10 per case and per variant with seeded intervals, and each variant against the judged
    one, case by case. A log whose hashes do not fit its trace, manifest or variant is refused.
    M5, M6a and M6b are shares without support: lower is better. Exit 0 pass, 1 a gate fails, 2
    bad input, 3 could not be judged.

    \b
    Examples:
      gatemark runlog metrics --extractor hpo -j 2 -o report.html
      gatemark runlog metrics --runs runs --traces traces --out metrics --variant V0
      gatemark runlog metrics --gate m6b_mean=0.3 --gate m4_trace_coverage=0.4 --json
    """
    check_formats(flags["output"])
    request = MetricsRequest(
        runs=flags["runs"],
        traces=flags["traces"],
        manifest=flags["manifest"],
        configs=flags["configs"],
        variants=tuple(sorted(set(flags["variant"]))),
        extractor=chosen_extractor(flags),
        compat=flags["compat"],
        judged=flags["judged"],
        score=flags["score"],
        gates=_gates(flags["gate"]),
        coverage_gate=flags["coverage_gate"],
        bootstrap_samples=flags["bootstrap_samples"],
        seed=flags["seed"],
        on_bad_case=flags["on_bad_case"],
        computed_at=flags["computed_at"] or source_date(),
        timeline_case=flags["timeline"],
        max_errors=flags["max_errors"],
    )
    workspace = Workspace(store=flags["store"], jobs=flags["jobs"])
    with count_progress("measuring cases") as progress:
        scored = score_runlog(workspace, request, progress)
    write_reports(scored.result, flags["output"], summary=scored.summary)
    write_attachments(flags["out"], scored.attachments)
    if flags["seal"]:
        names = [file.name for part in scored.result.evidence for file in part.files]
        keep(scored, workspace, {name: name for name in names})
    if flags["json"]:
        print_json(scored.summary)
    else:
        click.echo(first_table(scored.result))
        click.echo(verdict_table(scored.result, color=wants_color()))
    return EXIT_BY_OUTCOME[scored.result.verdict]
