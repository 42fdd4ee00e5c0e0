"""``gatemark calibration``: recalibrate confidences, as a new version for the gate to judge."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import click

from gatemark.checks.calibration.refit import (
    DEFAULT_SEED,
    RefitRequest,
    Refitted,
    apply_map,
    refit_calibration,
)
from gatemark.cli.options import FiniteRange, StrictGroup, max_errors_option
from gatemark.cli.screen import say, show
from gatemark.evidence.reading_choices import ReadingChoices
from gatemark.release.cli.options import Acting, acting_options
from gatemark.release.lifecycle.assets import draft_calibrated
from gatemark.release.lifecycle.model.nouns import parse_version_ref
from gatemark.statistics.confidence.recalibration import Kind
from gatemark.workspace import Workspace


@click.group("calibration", cls=StrictGroup)
def calibration_command() -> None:
    """Recalibrate stated confidences, as a new version that must pass the gate."""


@calibration_command.command("refit")
@click.argument("file")
@click.option(
    "--kind",
    type=click.Choice(["temperature", "isotonic"]),
    default="temperature",
    help="Kind of map: one number that keeps the ranking, or rising steps (at least 1000 items).",
)
@click.option("--score", help="Score of the samples that marks an answer right (1) or wrong (0).")
@click.option("--seed", type=click.IntRange(0), default=DEFAULT_SEED, help="Random seed.")
@click.option(
    "--held-out",
    type=FiniteRange(0, 1, min_open=True, max_open=True),
    default=0.5,
    help="Share of items held out for the check.",
)
@click.option("--out", metavar="DIR", help="Folder to write the map to.")
@click.option(
    "--as",
    "version",
    metavar="ASSET@VERSION",
    help="Version of a registered asset to draft, with the map pinned as its calibrator.",
)
@max_errors_option
@acting_options
def refit(
    acting: Acting,
    *,
    file: str,
    kind: Kind,
    score: str | None,
    seed: int,
    held_out: float,
    out: str | None,
    version: str | None,
    max_errors: int,
) -> int:
    """Fit a map from stated to true confidences; keep it only if it helps.

    FILE holds lines of id, confidence and correct, or samples with a confidence and a score of 0
    or 1. The map is fitted on one part of the items and accepted if it clearly lowers the Brier
    score of the other part. A live asset is never changed: the map becomes a draft version that
    must pass the gate.

    Exit 0 if the map helps, 1 if it does not, 3 if there are too few items.

    \b
    Examples:
      gatemark calibration refit samples.jsonl --out refit
      gatemark calibration refit samples.jsonl --out refit --as sorter@1.1.0
    """
    workspace = Workspace(store=acting.store, actor=acting.actor)
    request = RefitRequest(
        path=file,
        kind=kind,
        score=score,
        seed=seed,
        held_out_share=held_out,
        out=out,
    )
    draft = None
    if version:
        draft = partial(
            draft_calibrated,
            workspace,
            parse_version_ref(version),
            actor=workspace.actor,
            note=acting.note or f"calibration refit ({request.kind})",
        )
    found = refit_calibration(request, ReadingChoices(max_errors=max_errors), draft)
    show(found, _format_lines, json=acting.json)
    return found.exit_code


def _format_lines(found: Refitted) -> Iterator[str]:
    yield f"{'accepted' if found.is_accepted else 'not accepted'}: {found.reason}"
    for label, text in (
        ("map", found.map_file),
        ("draft", found.version),
        ("next", found.next_step),
    ):
        if text is not None:
            yield f"{label}: {text}"


@calibration_command.command("apply")
@click.argument("map_file", metavar="MAP")
@click.argument("samples")
@click.option(
    "-o", "--output", required=True, metavar="FILE", help="File to write the samples to (.jsonl)."
)
@max_errors_option
def apply_(map_file: str, samples: str, output: str, max_errors: int) -> None:
    """Write samples with recalibrated confidences.

    \b
    Example:
      gatemark calibration apply refit/calibration_map.json samples.jsonl -o mended.jsonl
    """
    count = apply_map(map_file, samples, output, ReadingChoices(max_errors=max_errors))
    say(f"{count} confidences mended: {output}")
