"""The command of this plugin."""

from __future__ import annotations

from gatemark.cli.commands import ListedCommand

COMMANDS = (
    ListedCommand(
        "overhead",
        "gatemark.plugins.overhead.cli",
        "Evidence",
        "Run bare and guarded arms, and verify reports about them.",
    ),
)
