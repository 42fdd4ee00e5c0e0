"""``gatemark review attribution``: accept or turn down what an attribution proposes."""

from __future__ import annotations

from typing import Any, Final

import click

from gatemark.attribution.review import (
    JUDGES,
    ReviewAttribution,
    accepted_items,
    review_attribution,
    sealed_attribution,
)
from gatemark.attribution.views import html, text
from gatemark.cli.lifecycle.options import acting_workspace
from gatemark.cli.options import json_option, store_option
from gatemark.cli.screen import print_json
from gatemark.core.canonical import json_file
from gatemark.report.outputs import check_extensions, write_documents

FORMATS: Final = (".json", ".jsonl", ".html")
KIND: Final = click.Choice(list(JUDGES))


@click.command("attribution")
@click.argument("attribution")
@click.option("--accept", multiple=True, type=KIND, help="Accept this proposal. Repeatable.")
@click.option("--reject", multiple=True, type=KIND, help="Turn this proposal down. Repeatable.")
@click.option("--note", default="", metavar="TEXT", help="Why.")
@click.option("--actor", metavar="NAME", envvar="GATEMARK_ACTOR", help="Who acts.")
@store_option
@json_option
@click.option(
    "-o",
    "--output",
    multiple=True,
    metavar="FILE",
    help="Also write .json, .html, or the accepted items as .jsonl.",
)
def attribution_command(**flags: Any) -> None:
    """Show a sealed attribution, and accept or reject what it proposes.

    ATTRIBUTION is the id that 'gatemark attribute --seal' printed, or the beginning of it. Items
    and rule gaps are judged by a pack_owner, routing notes by an operator too, and never by the
    reviewer who judged the decision. A proposal is judged once.

    \b
    Examples:
      gatemark review attribution sha256:4be0… --actor olu --accept golden_item --reject rule_gap
      gatemark review attribution sha256:4be0… -o new-golden-items.jsonl
    """
    check_extensions(flags["output"], FORMATS)
    workspace = acting_workspace(flags)
    if flags["accept"] or flags["reject"]:
        found = review_attribution(
            workspace,
            ReviewAttribution(
                attribution=flags["attribution"],
                accept=flags["accept"],
                reject=flags["reject"],
                note=flags["note"],
            ),
        )
    else:
        found = sealed_attribution(workspace, flags["attribution"])
    told: dict[str, str] = {
        kind: f"{said.verdict} by {said.by}" for kind, said in found.said.items()
    }
    write_documents(
        flags["output"],
        {
            ".json": lambda: json_file(found),
            ".jsonl": lambda: accepted_items(found),
            ".html": lambda: html(found.attribution, told),
        },
    )
    if flags["json"]:
        print_json(found)
    else:
        click.echo(text(found.attribution, told))
