"""The command of this plugin."""

from __future__ import annotations

from gatemark.cli.commands import ListedCommand

COMMANDS = (
    ListedCommand(
        "runlog",
        "gatemark.plugins.runlog.cli",
        "Evidence",
        "Replay multi-agent traces through variants, and measure the logs.",
    ),
)
