"""The command of this plugin."""

from __future__ import annotations

from gatemark.cli.commands import ListedCommand

COMMANDS = (
    ListedCommand(
        "advisory",
        "gatemark.plugins.advisory.cli",
        "Evidence",
        "Dry-run advisory services: ask, compare, record; never act.",
    ),
)
