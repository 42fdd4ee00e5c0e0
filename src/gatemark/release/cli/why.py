"""``gatemark why``: the results, votes and gates behind the stage of a version."""

from __future__ import annotations

import click
import msgspec

from gatemark.cli.options import StrictCommand, store_option
from gatemark.cli.screen import Outputs, optional_import, output_options
from gatemark.core.canonical import json_file
from gatemark.core.errors import ExitCode
from gatemark.release.cli.options import environment_option
from gatemark.release.lifecycle.model.nouns import parse_version_ref
from gatemark.release.lifecycle.release import explained_moves
from gatemark.release.lifecycle.views.text import why_text
from gatemark.release.lifecycle.views.views import Why
from gatemark.release.lifecycle.views.why import explain_stage
from gatemark.workspace import Workspace


@click.command("why", cls=StrictCommand)
@click.argument("version", metavar="ASSET@VERSION")
@environment_option
@store_option
@output_options(".json", ".html")
def why_command(outputs: Outputs, *, version: str, environment: str, store: str) -> int:
    """Show why a version is where it is: results, votes, gates.

    Every citation is verified again, and each possible step lists what is missing for it. Exit 4 if
    a citation no longer verifies, and 3 if a decision was made by rules that this build does not
    have.

    \b
    Examples:
      gatemark why triage@2.1.0
      gatemark why triage@2.1.0 -o why.html
    """
    ref = parse_version_ref(version)
    workspace = Workspace(store=store)
    workspace.existing_store()
    found = explain_stage(workspace, ref, environment)
    moves = explained_moves(workspace, ref, environment, found.next_moves)
    found = msgspec.structs.replace(found, next_moves=moves)
    outputs.write({".json": lambda: json_file(found), ".html": lambda: _render_page(found)})
    outputs.show(found, why_text)
    if found.problems:
        return ExitCode.INTEGRITY
    return ExitCode.INCONCLUSIVE if found.undecided else ExitCode.PASS


def _render_page(found: Why) -> bytes:
    with optional_import("report"):
        from gatemark.release.lifecycle.views.page import render_why_page  # noqa: PLC0415 - an extra
    return render_why_page(found)
