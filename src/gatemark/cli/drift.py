"""``gatemark drift``: points in, signals out, and what they do to assets."""

from __future__ import annotations

import click

from gatemark.cli.drift_derive import derive
from gatemark.cli.drift_policy import policy
from gatemark.cli.drift_probe import probe, status
from gatemark.cli.drift_push import push
from gatemark.cli.drift_report import close, events, metrics, report


@click.group("drift")
def drift_command() -> None:
    """Watch metrics of live assets and act when they drift."""


for command in (push, derive, probe, status, report, policy, close, metrics, events):
    drift_command.add_command(command)
