"""``gatemark schema``: which evidence schemas there are, and what each allows."""

from __future__ import annotations

import click

from gatemark.cli.options import json_option
from gatemark.cli.screen import print_json
from gatemark.packs.documents import broken_plugins, describe_schemas, json_schema


@click.command("schema")
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
    described = describe_schemas()
    if json:
        print_json(described)
    else:
        width = max(len(schema_name) for schema_name in described)
        for schema_name, summary in described.items():
            click.echo(f"{schema_name:<{width}}  {summary}")
    for module, why in broken_plugins().items():
        click.echo(f"gatemark: {module} cannot be loaded: {why}", err=True)
