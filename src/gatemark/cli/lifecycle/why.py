"""``gatemark why``: what the stage of a version rests on."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from gatemark.cli.lifecycle.options import environment_option
from gatemark.cli.options import json_option, store_option
from gatemark.cli.screen import print_json
from gatemark.core.canonical import json_file
from gatemark.core.errors import ExitCode
from gatemark.lifecycle.model.nouns import parse_version_ref
from gatemark.lifecycle.views.text import why_text
from gatemark.lifecycle.views.why import why
from gatemark.report.outputs import check_extensions, load_renderer, write_documents
from gatemark.workspace import Workspace

PAGE = "gatemark.lifecycle.views.page"
"""Renders HTML, and is loaded only when somebody asks for a page."""


@click.command("why")
@click.argument("version", metavar="ASSET@VERSION")
@environment_option
@click.option(
    "-o",
    "--output",
    multiple=True,
    metavar="FILE",
    help="Also write it (.json, .html). Repeatable.",
)
@store_option
@json_option
def why_command(**flags: Any) -> int:
    """Tell why a version is where it is: results, votes, gates.

    Every citation is looked at again. Exit 4 when one no longer verifies.

    \b
    Examples:
      gatemark why triage@2.1.0
      gatemark why triage@2.1.0 -o why.html
    """
    ref = parse_version_ref(flags["version"])
    check_extensions(flags["output"], (".json", ".html"))
    workspace = Workspace(store=flags["store"])
    workspace.existing_store()
    found = why(workspace, ref, flags["environment"])
    write_documents(
        flags["output"],
        {
            ".json": lambda: json_file(found),
            ".html": lambda: load_renderer("gatemark.lifecycle.views.page", "render_why", ".html")(
                found
            ),
        },
    )
    if flags["json"]:
        print_json(msgspec.to_builtins(found))
    else:
        click.echo(why_text(found), nl=False)
    return ExitCode.INTEGRITY if found.problems else ExitCode.PASS
