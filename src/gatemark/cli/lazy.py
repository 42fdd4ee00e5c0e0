"""A group of commands that imports a command's module only when it is called."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import click

Verbs = Mapping[str, tuple[str, str]]
"""Each command's module and its summary, which is the first line of its help."""


class LazyGroup(click.Group):
    """Commands from a table. The command ``verb`` of a module is called ``verb_command``."""

    def __init__(self, *arguments: Any, verbs: Verbs, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.verbs = verbs

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.verbs)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.verbs:
            return None
        module = importlib.import_module(self.verbs[cmd_name][0])
        command = getattr(module, f"{cmd_name}_command")
        assert isinstance(command, click.Command)  # noqa: S101 - a test loads every verb
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(verb, summary) for verb, (_, summary) in self.verbs.items()])
