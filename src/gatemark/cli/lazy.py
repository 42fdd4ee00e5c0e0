"""A group of commands that imports a command's module only when it is called."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

import click

Verbs = Mapping[str, tuple[str, str]]
"""Each command's module and its summary, which is the first line of its help."""


class LazyGroup(click.Group):
    """Commands from a table. The command ``verb`` of a module is called ``verb_command``."""

    def __init__(
        self,
        *arguments: Any,
        verbs: Verbs,
        sections: Mapping[str, Sequence[str]] | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(*arguments, **settings)
        self.verbs = verbs
        self.sections = dict(sections or {})
        listed = {verb for section in self.sections.values() for verb in section}
        # A command that no section names is still listed.
        if others := [verb for verb in verbs if verb not in listed]:
            self.sections["Other commands" if listed else "Commands"] = others

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
        width = max(len(verb) for verb in self.verbs)
        for title, names in self.sections.items():
            with formatter.section(title):
                rows = [(name.ljust(width), self.verbs[name][1]) for name in names]
                formatter.write_dl(rows)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in self.verbs and not name.startswith("-"):
            close = get_close_matches(name, self.verbs, n=1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise click.UsageError(f"No such command {name!r}.{hint}", ctx)
        return super().resolve_command(ctx, args)
