"""``gatemark schema``, ``scorers``, ``targets``, ``plugins``: what evidence and packs can name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import click
import msgspec

from gatemark.cli.options import StrictCommand, json_option
from gatemark.cli.screen import print_json, say, show
from gatemark.packs.documents import describe_schemas, list_broken_plugins, make_json_schema
from gatemark.packs.option_list import (
    PluginOptions,
    describe_scorers,
    describe_targets,
    list_plugins,
)


@click.command("schema", cls=StrictCommand)
@click.argument("name", required=False)
@json_option
def schema_command(name: str | None, json: bool) -> None:
    """List the evidence schemas, or print one as JSON Schema.

    \b
    Examples:
      gatemark schema
      gatemark schema gatemark.pair/1 > pair.schema.json
    """
    if name is not None:
        print_json(make_json_schema(name))
        return
    show(describe_schemas(), _format_schemas, json=json)
    for module, why in list_broken_plugins().items():
        say(f"gatemark: {module} cannot be loaded: {why}", err=True)


def _format_schemas(described: Mapping[str, str]) -> Iterator[str]:
    width = max(map(len, described))
    for name, summary in described.items():
        yield f"{name:<{width}}  {summary}"


@click.command("scorers", cls=StrictCommand)
@click.argument("name", required=False)
@json_option
def scorers_command(name: str | None, json: bool) -> None:
    """List the scorers with their options.

    \b
    Examples:
      gatemark scorers
      gatemark scorers rouge_l
    """
    show(describe_scorers(name), _format_plugins, json=json)


@click.command("targets", cls=StrictCommand)
@json_option
def targets_command(json: bool) -> None:
    """List the kinds of targets that a pack can name, with their options.

    \b
    Example:
      gatemark targets
    """
    show(describe_targets(), _format_plugins, json=json)


@click.command("plugins", cls=StrictCommand)
@json_option
def plugins_command(json: bool) -> None:
    """List the installed plugins: what they add, and from which module.

    \b
    Example:
      gatemark plugins
    """
    found = list_plugins()
    show(found, lambda one: [f"{name}  {module}" for name, module in one.items()], json=json)
    if not found and not json:
        say("no plugins are installed", err=True)


def _format_plugins(found: Mapping[str, PluginOptions]) -> Iterator[str]:
    for name, plugin in found.items():
        yield f"{name}: {plugin.summary}"
        for option in plugin.options:
            default = (
                "required" if option.is_required else f"default {_format_value(option.default)}"
            )
            meaning = f"  {option.meaning}" if option.meaning else ""
            yield f"    {option.name} ({default}){meaning}"


def _format_value(value: object) -> str:
    return msgspec.json.encode(value).decode()
