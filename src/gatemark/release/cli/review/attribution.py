"""``gatemark review attribution``: accept or reject the proposals of an attribution."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from gatemark.cli.options import StrictCommand, actor_option, store_option
from gatemark.cli.screen import Outputs, output_options
from gatemark.cli.struct_options import given_group, read_given
from gatemark.core.canonical import json_file
from gatemark.core.errors import UsageError
from gatemark.release.attribution.nouns import ProposalKind
from gatemark.release.attribution.review import (
    JUDGES,
    ReviewAttribution,
    Verdict,
    accepted_items,
    add_accepted,
    review_attribution,
    sealed_attribution,
)
from gatemark.release.attribution.views import render_attribution_page, render_attribution_text
from gatemark.release.cli.options import acting_workspace

KIND: Final = click.Choice(list(JUDGES))
judging_options = given_group(ReviewAttribution, without=("verdicts",))


@click.command("attribution", cls=StrictCommand)
@click.argument("attribution")
@click.option("--accept", multiple=True, type=KIND, help="Proposal to accept. Repeatable.")
@click.option("--reject", multiple=True, type=KIND, help="Proposal to reject. Repeatable.")
@judging_options
@click.option(
    "--dataset", metavar="FILE", help="Data set (.jsonl) to add the accepted golden item to."
)
@click.option(
    "--rule-backlog", metavar="FILE", help="Backlog (.jsonl) to add the accepted rule gap to."
)
@actor_option
@store_option
@output_options(".json", ".jsonl", ".html")
def attribution_command(
    outputs: Outputs,
    given: dict[str, object],
    *,
    attribution: str,
    accept: tuple[ProposalKind, ...],
    reject: tuple[ProposalKind, ...],
    dataset: str | None,
    rule_backlog: str | None,
    actor: str | None,
    store: str,
) -> None:
    """Show a sealed attribution, and accept or reject what it proposes.

    ATTRIBUTION is the id that 'gatemark attribute --seal' printed, or its beginning. A pack_owner
    judges items and rule gaps; routing notes can also be judged by an operator. The reviewer who
    judged the decision can judge none. A proposal is judged once. --dataset and --rule-backlog add
    accepted proposals to a file once, with the id of the attribution as the citation.

    \b
    Examples:
      gatemark review attribution sha256:4be0… --actor olu --accept golden_item --reject rule_gap
      gatemark review attribution sha256:4be0… -o new-golden-items.jsonl
      gatemark review attribution sha256:4be0… --dataset data/golden.jsonl
    """
    workspace = acting_workspace(store, actor)
    if accept or reject:
        request = read_given(
            ReviewAttribution,
            {**given, "verdicts": _join_verdicts(accept, reject)},
            {"attribution": attribution},
        )
        found = review_attribution(workspace, request)
    else:
        found = sealed_attribution(workspace, attribution)
    if dataset is not None:
        add_accepted(found, "golden_item", Path(dataset))
    if rule_backlog is not None:
        add_accepted(found, "rule_gap", Path(rule_backlog))
    judged: dict[str, str] = {
        kind: f"{said.verdict} by {said.by}" for kind, said in found.said.items()
    }
    outputs.write(
        {
            ".json": lambda: json_file(found),
            ".jsonl": lambda: accepted_items(found),
            ".html": lambda: render_attribution_page(found.attribution, judged),
        }
    )
    outputs.show(found, lambda found: render_attribution_text(found.attribution, judged))


def _join_verdicts(
    accept: tuple[ProposalKind, ...], reject: tuple[ProposalKind, ...]
) -> dict[ProposalKind, Verdict]:
    verdicts: dict[ProposalKind, Verdict] = dict.fromkeys(accept, "accepted")
    for kind in reject:
        if kind in verdicts:
            raise UsageError(f"{kind} cannot be accepted and rejected at once")
        verdicts[kind] = "rejected"
    return verdicts
