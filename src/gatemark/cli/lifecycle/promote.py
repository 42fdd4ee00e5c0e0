"""``gatemark promote`` and ``gatemark approve``: steps up, and the people behind them."""

from __future__ import annotations

from typing import Any, cast, get_args

import click

from gatemark.cli.lifecycle.options import (
    acting_options,
    acting_workspace,
    cite_option,
    environment_option,
    expect_option,
    show_acted,
)
from gatemark.core.errors import UsageError
from gatemark.lifecycle.citations import result_ids
from gatemark.lifecycle.commands import Approve, Promote, ReviewGlass
from gatemark.lifecycle.journey import act
from gatemark.lifecycle.model.nouns import Decision, Stage, parse_version_ref

CANARY = "canary"
TARGETS = ["evaluating", "rejected", "eligible", "shadow", CANARY, "enabled", "retired"]
VOTED = [CANARY, "enabled"]


def _stage(word: str) -> Stage:
    return "canary_1" if word == CANARY else cast("Stage", word)


@click.command("promote")
@click.argument("version", metavar="ASSET@VERSION")
@click.option("--to", required=True, type=click.Choice(TARGETS), help="The stage to go to.")
@cite_option
@click.option(
    "--break-glass",
    metavar="INCIDENT",
    help="Enable at once and without approvals, because of an incident. Needs --note.",
)
@environment_option
@expect_option
@acting_options
def promote_command(**flags: Any) -> None:
    """Take a version to a stage, citing sealed results.

    What is cited must be in the store, pass, be about this very candidate and, for the full pack,
    be of the pack of record and fresh. The release gates are asked, and approvals must be there.
    A refusal (exit 1) lists every reason.

    \b
    Examples:
      gatemark promote triage@2.1.0 --to evaluating
      gatemark promote triage@2.1.0 --to eligible --cite 3f2a9c01
      gatemark promote triage@2.1.0 --to canary --cite 77ab01cd
    """
    ref = parse_version_ref(flags["version"])
    if flags["break_glass"] is not None and flags["to"] != "enabled":
        raise UsageError("--break-glass only goes with --to enabled")
    workspace = acting_workspace(flags)
    command = Promote(
        actor=workspace.actor,
        asset=ref.asset,
        version=ref.version,
        to=_stage(flags["to"]),
        environment=flags["environment"],
        result_ids=result_ids(workspace, flags["cite"]),
        incident=flags["break_glass"],
        expected_revision=flags["expect"],
        note=flags["note"],
    )
    show_acted(flags, act(workspace, command), unchanged=f"{ref} is there already")


@click.command("approve")
@click.argument("version", metavar="ASSET@VERSION")
@click.option("--to", type=click.Choice(VOTED), help="The stage that the version may go to.")
@cite_option
@click.option(
    "--decision",
    type=click.Choice(get_args(Decision)),
    default="approve",
    show_default=True,
    help="What to say.",
)
@click.option("--review-glass", is_flag=True, help="Confirm what was done behind broken glass.")
@environment_option
@expect_option
@acting_options
def approve_command(**flags: Any) -> None:
    """Approve one step of one version, bound to what stands now.

    An approval speaks of this candidate, these results, this policy and this stage; it is void as
    soon as one of them changes, and expires. Authors cannot approve their own versions, nor can
    whoever last edited the full pack.

    \b
    Examples:
      gatemark approve triage@2.1.0 --to canary --cite 77ab01cd --actor bob
      gatemark approve triage@2.1.0 --review-glass --actor bob
    """
    ref = parse_version_ref(flags["version"])
    if flags["review_glass"] == (flags["to"] is not None):
        raise UsageError("say either --to STAGE or --review-glass")
    workspace = acting_workspace(flags)
    common: dict[str, Any] = {
        "actor": workspace.actor,
        "asset": ref.asset,
        "version": ref.version,
        "environment": flags["environment"],
        "expected_revision": flags["expect"],
        "note": flags["note"],
    }
    if flags["review_glass"]:
        acted = act(workspace, ReviewGlass(**common))
    else:
        acted = act(
            workspace,
            Approve(
                stage=_stage(flags["to"]),
                decision=flags["decision"],
                result_ids=result_ids(workspace, flags["cite"]),
                **common,
            ),
        )
    show_acted(flags, acted, unchanged=f"{ref} was reviewed already")
