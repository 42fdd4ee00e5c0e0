"""``gatemark score``: the scorers, one subcommand each."""

from __future__ import annotations

import click

from gatemark.cli.lazy import LazyGroup, Verbs

SCORERS: Verbs = {
    "advisory": (
        "gatemark.cli.score.advisory",
        "Score advisory decision records lane by lane and judge them.",
    ),
    "agreement": (
        "gatemark.cli.score.agreement",
        "Measure agreement between two validators and judge it.",
    ),
    "calibration": (
        "gatemark.cli.score.calibration",
        "Measure how far stated confidences are from how often they come true.",
    ),
    "overhead": (
        "gatemark.cli.score.overhead",
        "Measure what guards cost and judge it by a budget.",
    ),
    "preference": (
        "gatemark.cli.score.preference",
        "Judge whether blind reviewers prefer the candidate.",
    ),
}


@click.group("score", cls=LazyGroup, verbs=SCORERS)
def score_command() -> None:
    """Score evidence and judge it, without a store."""
