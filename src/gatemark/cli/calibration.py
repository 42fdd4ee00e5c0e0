"""``gatemark calibration``: mend confidences, as a new version that the gate must pass."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from gatemark.cli.options import FiniteRange, json_option, max_errors_option, store_option
from gatemark.cli.screen import print_json
from gatemark.evidence.reading_options import ReadingChoices
from gatemark.exams.calibration.refit import (
    DEFAULT_SEED,
    RefitRequest,
    apply_map,
    refit_calibration,
)
from gatemark.lifecycle.calibrated_version import draft_calibrated
from gatemark.lifecycle.model.nouns import parse_version_ref
from gatemark.workspace import Workspace


@click.group("calibration")
def calibration_command() -> None:
    """Mend stated confidences, as a new version for the gate to judge."""


@calibration_command.command("refit")
@click.argument("file")
@click.option(
    "--kind",
    type=click.Choice(["temperature", "isotonic"]),
    default="temperature",
    show_default=True,
    help="One number that keeps the ranking, or rising steps (needs 1000 items to fit).",
)
@click.option("--score", default=None, help="Which score of the samples says right or wrong.")
@click.option("--seed", type=click.IntRange(0), default=DEFAULT_SEED, show_default=True)
@click.option(
    "--held-out",
    type=FiniteRange(0, 1, min_open=True, max_open=True),
    default=0.5,
    show_default=True,
    help="Share of items that only check.",
)
@click.option("--out", metavar="DIR", default=None, help="Write the map into this folder.")
@click.option(
    "--as",
    "version",
    metavar="ASSET@VERSION",
    default=None,
    help="Draft this version of a registered asset, with the map pinned as its calibrator.",
)
@click.option("--actor", envvar="GATEMARK_ACTOR", default=None, help="Who drafts it.")
@click.option("--note", default="", help="Kept with the draft.")
@max_errors_option
@store_option
@json_option
def refit(**flags: Any) -> int:
    """Fit a map from stated to true confidences, kept only if it helps.

    FILE holds lines of id, confidence and correct, or samples with a confidence and a score of 0
    or 1. The map is fitted on one part and accepted when the Brier score of the other part falls
    beyond doubt. A live asset is never changed: the map becomes a draft version that must pass
    the gate.

    Exit 0 when the map helps, 1 when it does not, 3 when there are too few items.

    \b
    Examples:
      gatemark calibration refit samples.jsonl --out refit
      gatemark calibration refit samples.jsonl --out refit --as sorter@1.1.0
    """
    workspace = Workspace(store=flags["store"])
    request = RefitRequest(
        path=flags["file"],
        kind=flags["kind"],
        score=flags["score"],
        seed=flags["seed"],
        held_out_share=flags["held_out"],
        out=flags["out"],
    )
    draft = None
    if flags["version"]:
        draft = partial(
            draft_calibrated,
            workspace,
            parse_version_ref(flags["version"]),
            actor=flags["actor"] or workspace.actor,
            note=flags["note"] or f"calibration refit ({request.kind})",
        )
    choices = ReadingChoices(max_errors=flags["max_errors"])
    found = refit_calibration(request, choices, draft)
    if flags["json"]:
        print_json(found)
    else:
        click.echo(f"{'accepted' if found.is_accepted else 'not accepted'}: {found.reason}")
        for label, text in (
            ("map", found.map_file),
            ("draft", found.version),
            ("next", found.next_step),
        ):
            if text is not None:
                click.echo(f"{label}: {text}")
    return found.exit_code


@calibration_command.command("apply")
@click.argument("map_file", metavar="MAP")
@click.argument("samples")
@click.option(
    "-o", "--output", required=True, metavar="FILE", help="Where the samples go (.jsonl)."
)
@max_errors_option
def apply_(map_file: str, samples: str, output: str, max_errors: int) -> None:
    """Write samples with mended confidences.

    \b
    Example:
      gatemark calibration apply refit/calibration_map.json samples.jsonl -o mended.jsonl
    """
    count = apply_map(map_file, samples, output, ReadingChoices(max_errors=max_errors))
    click.echo(f"{count} confidences mended: {output}")
