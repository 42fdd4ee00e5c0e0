"""The reference page of the command line, made from the commands themselves."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import click

from gatemark.cli.main import EPILOG, VERBS, gatemark

_OPENING = """\
# Commands

This page is made from the commands themselves; `gatemark COMMAND --help` says the same.
[Exit codes](exit-codes.md) explains how a command ends, and [files](files.md) what it reads and
writes.
"""
_TABLE_HEAD = ("| Option | Meaning | Environment |", "|---|---|---|")
_SHELL_ONLY = frozenset({"help", "version"})


def commands_page() -> str:
    """Every verb with its usage, its words and its options."""
    root = click.Context(gatemark, info_name="gatemark", **gatemark.context_settings)
    parts = [_OPENING, "\n".join(_verb_list()), inspect.cleandoc(EPILOG.replace("\b", ""))]
    for verb in VERBS:
        command = gatemark.get_command(root, verb)
        if command is None:
            raise LookupError(f"verb {verb} has no command")
        parts.extend(_sections(command, click.Context(command, info_name=verb, parent=root), 2))
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def _verb_list() -> Iterator[str]:
    for verb, (_, summary) in VERBS.items():
        yield f"- [`gatemark {verb}`](#gatemark-{verb}): {summary}"


def _sections(command: click.Command, ctx: click.Context, level: int) -> Iterator[str]:
    yield f"{'#' * level} gatemark {ctx.command_path.removeprefix('gatemark ')}"
    usage = " ".join([ctx.command_path, *command.collect_usage_pieces(ctx)])
    summary, *rest = _prose(command)
    yield from (summary, f"```text\n{usage}\n```", *rest)
    rows = [row for parameter in command.params if (row := _row(parameter, ctx))]
    if rows:
        yield "\n".join((*_TABLE_HEAD, *rows))
    if isinstance(command, click.Group):
        for name in command.list_commands(ctx):
            child = command.get_command(ctx, name)
            if child is not None:
                inner = click.Context(child, info_name=name, parent=ctx)
                yield from _sections(child, inner, level + 1)


def _prose(command: click.Command) -> Iterator[str]:
    """The paragraphs of a help text; those that click leaves alone become code."""
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        if not paragraph.startswith("\b"):
            yield " ".join(paragraph.split())
            continue
        title, _, examples = paragraph.removeprefix("\b\n").partition("\n")
        yield f"{title}\n\n```text\n{inspect.cleandoc(examples)}\n```"


def _row(parameter: click.Parameter, ctx: click.Context) -> str | None:
    record = parameter.get_help_record(ctx)
    if record is None or parameter.name in _SHELL_ONLY or isinstance(parameter, click.Argument):
        return None
    names, meaning = record
    cells = (f"`{names}`", " ".join(meaning.split()), f"`{_environment_twin(parameter, ctx)}`")
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _environment_twin(parameter: click.Parameter, ctx: click.Context) -> str:
    """The variable that click reads when the option is not on the command line."""
    if isinstance(parameter.envvar, str):
        return parameter.envvar
    return f"{ctx.auto_envvar_prefix}_{str(parameter.name).upper()}"
