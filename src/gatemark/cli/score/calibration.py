"""``gatemark score calibration``: whether stated confidences come true."""

from __future__ import annotations

from typing import Any

import click

from gatemark.cli.options import FiniteRange, document_option, json_option, max_errors_option
from gatemark.cli.screen import byte_progress, print_json
from gatemark.core.canonical import json_file
from gatemark.core.errors import ExitCode
from gatemark.core.policy import EXIT_BY_OUTCOME
from gatemark.evidence.reading_options import ReadingChoices
from gatemark.exams.calibration.journey import (
    DEFAULT_BINS,
    DEFAULT_SEED,
    CalibrationRequest,
    CalibrationScore,
    score_calibration,
)
from gatemark.report.outputs import check_extensions, write_documents
from gatemark.report.words import NOT_MEASURED, VERDICT_WORDS, number
from gatemark.workspace import Workspace

SHARE = FiniteRange(0, 1)


@click.command("calibration")
@click.argument("file")
@click.option("--score", metavar="NAME", help="Which 0/1 score of samples says what came true.")
@click.option(
    "--bins",
    type=click.IntRange(1, 1000),
    default=DEFAULT_BINS,
    show_default=True,
    help="Equal-width bins.",
)
@click.option("--max-ece", type=SHARE, help="Gate: the largest expected calibration error.")
@click.option("--max-mce", type=SHARE, help="Gate: the largest error of any bin.")
@click.option(
    "--seed",
    type=click.IntRange(0),
    default=DEFAULT_SEED,
    show_default=True,
    help="Seed of the simulated twins.",
)
@max_errors_option
@document_option
@json_option
def calibration_command(**flags: Any) -> int:
    """Measure how far stated confidences are from how often they come true.

    FILE holds lines of id, confidence (0 to 1) and correct (true or false), or gatemark.sample/1
    with a confidence and a score of 0 or 1; plain, gzip or zstd, '-' is standard input. Gives ECE,
    MCE, the deviation of an isotonic fit and the Brier score with its parts.

    Without gates exit 0. With them: 0 pass, 1 fail, 3 when fewer than 100 items or items without a
    confidence or an outcome leave it open. 3 also when nothing could be measured. 2 bad input.

    \b
    Examples:
      gatemark score calibration answers.jsonl
      gatemark score calibration samples.jsonl --score exact --max-ece 0.05 --json
    """
    check_extensions(flags["output"], (".json",))
    request = CalibrationRequest(
        path=flags["file"],
        score=flags["score"],
        bins=flags["bins"],
        seed=flags["seed"],
        max_ece=flags["max_ece"],
        max_mce=flags["max_mce"],
    )
    with byte_progress("scoring") as progress:
        scored = score_calibration(
            Workspace(), request, ReadingChoices(max_errors=flags["max_errors"]), progress
        )
    write_documents(
        flags["output"],
        {".json": lambda: json_file(scored)},
    )
    if flags["json"]:
        print_json(scored)
    else:
        _tell(scored)
    return ExitCode.PASS if scored.verdict is None else EXIT_BY_OUTCOME[scored.verdict]


def _tell(scored: CalibrationScore) -> None:
    if scored.verdict is not None:
        click.echo(f"{VERDICT_WORDS[scored.verdict]}  calibration")
        for blocker in scored.blockers:
            click.echo(f"  - {blocker}")
        click.echo()
    brier = scored.brier or {}
    rows: list[tuple[str, float | None]] = [
        ("ECE", scored.ece),
        ("ECE beyond a calibrated twin's", scored.ece_excess),
        ("MCE", scored.mce),
        ("MCE over bins of 10 or more", scored.mce_min10),
        ("isotonic deviation", scored.iso_dev),
        ("Brier score", brier.get("score")),
        ("  miscalibration", brier.get("mcb")),
        ("  discrimination", brier.get("dsc")),
        ("  uncertainty", brier.get("unc")),
    ]
    click.echo(f"{'items':<32}{scored.n}")
    for name, value in rows:
        click.echo(f"{name:<32}{NOT_MEASURED if value is None else number(value)}")
    for reason, count in scored.excluded.items():
        click.echo(f"{'left out: ' + reason:<32}{count}")
    _tell_bins(scored.bins)
    for caveat in scored.caveats:
        click.echo(f"caveat: {caveat}")


def _tell_bins(bins: list[dict[str, Any]]) -> None:
    filled = [bin_ for bin_ in bins if bin_["n"]]
    if not filled:
        return
    click.echo(f"\n{'confidence':<18}{'items':>7}  {'promised':>8}  {'came true':>9}")
    for bin_ in filled:
        edges = f"({bin_['low']:.3f}, {bin_['high']:.3f}]"
        click.echo(
            f"{edges:<18}{bin_['n']:>7}  {bin_['mean_confidence']:>8.4f}  {bin_['accuracy']:>9.4f}"
        )
