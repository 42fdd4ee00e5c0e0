"""``gatemark schema``: the evidence schemas, as a list or as JSON Schema."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import click

from gatemark.cli.options import StrictCommand, json_option
from gatemark.cli.screen import print_json, say, show
from gatemark.packs.documents import broken_plugins, describe_schemas, json_schema


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
        print_json(json_schema(name))
        return
    show(describe_schemas(), _lines, json=json)
    for module, why in broken_plugins().items():
        say(f"gatemark: {module} cannot be loaded: {why}", err=True)


def _lines(described: Mapping[str, str]) -> Iterator[str]:
    width = max(map(len, described))
    for name, summary in described.items():
        yield f"{name:<{width}}  {summary}"
