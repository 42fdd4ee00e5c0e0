"""``gatemark score``: the scorers, one subcommand each."""

from __future__ import annotations

import click

from gatemark.cli.score.advisory import advisory
from gatemark.cli.score.agreement import agreement
from gatemark.cli.score.calibration import calibration
from gatemark.cli.score.overhead import overhead
from gatemark.cli.score.preference import preference


@click.group("score")
def score_command() -> None:
    """Score evidence and judge it, without a store."""


score_command.add_command(advisory)
score_command.add_command(agreement)
score_command.add_command(calibration)
score_command.add_command(overhead)
score_command.add_command(preference)
