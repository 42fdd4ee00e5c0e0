"""``gatemark drift``: points in, signals out, and what they do to assets."""

from __future__ import annotations

import click

from gatemark.cli.drift_derive import derive
from gatemark.cli.drift_policy import policy
from gatemark.cli.drift_probe import probe, status
from gatemark.cli.drift_push import push


@click.group("drift")
def drift_command() -> None:
    """Watch metrics of live assets and act when they drift."""


drift_command.add_command(push)
drift_command.add_command(probe)
drift_command.add_command(status)
drift_command.add_command(derive)
drift_command.add_command(policy)
