"""``gatemark advisory``: the dry run of advisory services, one subcommand each, loaded late."""

from __future__ import annotations

import importlib

import click

SUBCOMMANDS: dict[str, tuple[str, str]] = {
    "run": (
        "gatemark.cli.advisory.run",
        "Ask advisory services about fixtures and record every answer.",
    ),
    "lint": (
        "gatemark.cli.advisory.lint",
        "Look fixtures over: nothing private, nothing twice, all as pinned.",
    ),
    "gateway": (
        "gatemark.cli.advisory.gateway",
        "Serve the reference models on the loopback interface.",
    ),
}


class LateGroup(click.Group):
    """A group that imports a subcommand's module only when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(SUBCOMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in SUBCOMMANDS:
            return None
        module = importlib.import_module(SUBCOMMANDS[cmd_name][0])
        command = getattr(module, f"{cmd_name}_command")
        assert isinstance(command, click.Command)  # noqa: S101 - a test loads every subcommand
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in SUBCOMMANDS.items()])


@click.group("advisory", cls=LateGroup)
def advisory_command() -> None:
    """Dry-run advisory services: ask, compare, record; never act."""
