"""The commands of ``gatemark``: every ring and every plugin lists its own.

A ring lists them as ``COMMANDS`` in its module ``command_list``. The entry point of a plugin is
called ``command.NAME``. The lists are read for each call, so they import nothing heavy.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Final, Literal, NamedTuple

from gatemark.core.registry import Registry

Section = Literal[
    "Start here", "Evidence", "Packs and results", "Release", "Watch", "Audit and settings"
]
SECTIONS: Final[tuple[Section, ...]] = (
    "Start here",
    "Evidence",
    "Packs and results",
    "Release",
    "Watch",
    "Audit and settings",
)


class ListedCommand(NamedTuple):
    """A command that is imported when it is called: ``NAME_command`` in its module."""

    name: str
    module: str
    section: Section
    summary: str


@cache
def list_commands() -> Mapping[str, ListedCommand]:
    """Return every command by name, in the order of the help."""
    found = Registry(
        kind="command",
        places=("gatemark.*.command_list",),
        attribute="COMMANDS",
        plugin_type=ListedCommand,
        name_of=lambda command: command.name,
    )
    commands = list(found.in_order())
    ordered = [one for section in SECTIONS for one in commands if one.section == section]
    return {command.name: command for command in ordered}
