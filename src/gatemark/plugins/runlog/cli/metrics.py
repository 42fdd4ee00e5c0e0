"""``gatemark runlog metrics``: M1 to M10 of run logs, with intervals and gates."""

from __future__ import annotations

from collections.abc import Sequence

import click
import msgspec

from gatemark.cli.options import FiniteRange, StrictCommand, store_option
from gatemark.cli.screen import Reports, count_progress, report_options, say
from gatemark.cli.struct_options import struct_group
from gatemark.core.errors import UsageError
from gatemark.plugins.runlog.cli.options import (
    ExtractorOptions,
    cases_option,
    extractor_options,
    read_source_date,
    stoplists_option,
)
from gatemark.plugins.runlog.metrics.request import MetricsRequest
from gatemark.plugins.runlog.metrics.score import score_runlog
from gatemark.report.outputs import write_attachments
from gatemark.report.terminal import first_table
from gatemark.workspace import Workspace


class Gate(click.ParamType[tuple[str, float]]):
    """A metric and its bound, as METRIC=BOUND."""

    name = "METRIC=BOUND"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, float]:
        metric, found, bound = str(value).partition("=")
        if not (found and metric and bound):
            self.fail(f"expected METRIC=BOUND, got {value!r}", param, ctx)
        return metric, FiniteRange().convert(bound, param, ctx)


def _parse_gates(given: Sequence[tuple[str, float]], option: str = "--gate") -> dict[str, float]:
    """Return the bounds by metric; raise if a metric has two."""
    gates = dict(given)
    if len(gates) < len(given):
        names = [metric for metric, _ in given]
        twice = next(name for name in names if names.count(name) > 1)
        raise UsageError(f"{option} names {twice} more than once")
    return gates


@click.command("metrics", cls=StrictCommand)
@struct_group(MetricsRequest)
@click.option("--variant", multiple=True, metavar="V", help="Variant to measure. Repeatable.")
@click.option(
    "--gate",
    "--bound",
    multiple=True,
    type=Gate(),
    help="Bound of a metric of the judged variant: a floor where higher is better, else a "
    "ceiling. Repeatable.",
)
@click.option(
    "--paired-gate",
    "paired_gates",
    multiple=True,
    type=Gate(),
    help="How much worse a metric of the judged variant may be than that of --reference, case "
    "by case. Repeatable.",
)
@extractor_options
@stoplists_option
@click.option(
    "--out",
    metavar="DIR",
    default="data/metrics",
    show_default=True,
    help="Folder for per-case, aggregate, paired and provenance files.",
)
@click.option("--seal", is_flag=True, help="Store the result and its evidence.")
@cases_option
@store_option
@report_options
def metrics_command(
    reports: Reports,
    extractor: ExtractorOptions,
    request: MetricsRequest,
    *,
    variant: tuple[str, ...],
    gate: tuple[tuple[str, float], ...],
    paired_gates: tuple[tuple[str, float], ...],
    stoplists: str | None,
    out: str,
    seal: bool,
    jobs: int | None,
    store: str,
) -> int:
    """Measure run logs against their traces, variant by variant.

    Computes M1 to M10 per case and per variant with seeded intervals, and compares each variant
    with the judged one, case by case. A log whose hashes do not match its trace, manifest or
    variant is refused. M5, M6a and M6b are shares without support: lower is better. Exit 0 pass, 1
    a gate fails, 2 bad input, 3 could not be judged.

    \b
    Examples:
      gatemark runlog metrics --extractor hpo -j 2 -o report.html
      gatemark runlog metrics --runs runs --traces traces --out metrics --variant V0
      gatemark runlog metrics --gate m6b_mean=0.3 --gate m4_trace_coverage=0.4 --json
      gatemark runlog metrics --judged V4 --reference V0 --paired-gate m6b_mean=0.02
    """
    request = msgspec.structs.replace(
        request,
        variants=tuple(sorted(set(variant))),
        gates=_parse_gates(gate),
        paired_gates=_parse_gates(paired_gates, "--paired-gate"),
        extractor=extractor.spec(stoplists),
        computed_at=request.computed_at or read_source_date(),
    )
    workspace = Workspace(store=store, jobs=jobs)
    with count_progress("measuring cases") as progress:
        scored = score_runlog(workspace, request, progress)
    reports.write(scored.result, scored.summary)
    write_attachments(out, scored.attachments)
    if seal:
        names = [file.name for part in scored.result.evidence for file in part.files]
        workspace.keep(scored.result, scored.stored_files, {name: name for name in names})
    if not reports.json:
        say(first_table(scored.result))
    return reports.print(scored.result, scored.summary)
