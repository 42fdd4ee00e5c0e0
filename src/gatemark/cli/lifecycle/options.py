"""Options and printing that the commands of the lifecycle share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from gatemark.cli.options import json_option, store_option
from gatemark.cli.screen import print_json
from gatemark.core.errors import UsageError
from gatemark.ledger.payloads import SYSTEM
from gatemark.lifecycle.journey import CommandResult
from gatemark.lifecycle.model.nouns import PRODUCTION
from gatemark.lifecycle.views.text import document_of, lines_of
from gatemark.workspace import Workspace

F = TypeVar("F", bound=Callable[..., Any])


def acting_options(function: F) -> F:
    """``--actor``, ``--note``, ``--store`` and ``--json`` of commands that change something."""
    decorators = [
        click.option(
            "--actor",
            metavar="NAME",
            envvar="GATEMARK_ACTOR",
            help="Who acts; the login name when left out. The ledger keeps it, nothing proves it.",
        ),
        click.option("--note", default="", metavar="TEXT", help="Why; kept in the ledger."),
        store_option,
        json_option,
    ]
    for decorator in reversed(decorators):
        function = decorator(function)
    return function


def environment_option(function: F) -> F:
    """``--environment``: where a version stands."""
    return click.option(
        "--environment",
        metavar="NAME",
        default=PRODUCTION,
        show_default=True,
        help="The environment that this is about.",
    )(function)


def expect_option(function: F) -> F:
    """``--expect``: the optimistic lock."""
    return click.option(
        "--expect",
        type=click.IntRange(0),
        metavar="EVENT",
        help="Refuse when the asset has changed since this event.",
    )(function)


def cite_option(function: F) -> F:
    """``--cite``: results that a step rests on."""
    return click.option(
        "--cite",
        multiple=True,
        metavar="RESULT",
        help="A sealed result that this rests on, by its id or its first digits. Repeatable.",
    )(function)


def acting_workspace(flags: dict[str, Any], *, must_exist: bool = True) -> Workspace:
    """The workspace of a command that changes something, with whoever acts."""
    if flags["actor"] == SYSTEM:
        raise UsageError(f"nobody can act as {SYSTEM!r}: that is what Gatemark does by itself")
    workspace = Workspace(store=flags["store"], actor=flags["actor"])
    if must_exist:
        workspace.existing_store()
    return workspace


def show_acted(flags: dict[str, Any], *several: CommandResult, unchanged: str) -> None:
    """Print what was written, or that it was already so."""
    if flags["json"]:
        print_json(document_of(*several))
        return
    lines = [line for acted in several for line in lines_of(acted)]
    for line in lines:
        click.echo(line)
    if not lines:
        click.echo(unchanged, err=True)
