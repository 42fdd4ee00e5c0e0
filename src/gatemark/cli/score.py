"""``gatemark score``: the scorers, one subcommand each."""

from __future__ import annotations

import click

from gatemark.cli.score_agreement import agreement


@click.group("score")
def score_command() -> None:
    """Score evidence and judge it, without a store."""


score_command.add_command(agreement)
