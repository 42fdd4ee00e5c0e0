"""``gatemark promote`` and ``gatemark approve``: steps up, and approvals of them."""

from __future__ import annotations

from typing import cast, get_args

import click

from gatemark.cli.lifecycle.options import (
    Acting,
    acting_options,
    anchor,
    cite_option,
    dry_run_option,
    environment_option,
    expect_option,
)
from gatemark.cli.options import StrictCommand
from gatemark.core.errors import UsageError
from gatemark.lifecycle.citations import result_ids
from gatemark.lifecycle.commands import Approve, Promote, ReviewBreakGlass
from gatemark.lifecycle.model.nouns import Decision, Stage, parse_version_ref

CANARY = "canary"
TARGETS = ["evaluating", "rejected", "eligible", "shadow", CANARY, "enabled", "retired"]
VOTED = ["shadow", CANARY, "enabled"]


def _parse_stage(word: str) -> Stage:
    return "canary_1" if word == CANARY else cast("Stage", word)


@click.command("promote", cls=StrictCommand)
@click.argument("version", metavar="ASSET@VERSION")
@click.option("--to", required=True, type=click.Choice(TARGETS), help="Stage to go to.")
@cite_option
@click.option(
    "--break-glass",
    metavar="INCIDENT",
    help="Incident that justifies enabling at once, without approvals. Needs --note.",
)
@environment_option
@expect_option
@dry_run_option
@acting_options
def promote_command(
    acting: Acting,
    *,
    version: str,
    to: str,
    cite: tuple[str, ...],
    break_glass: str | None,
    environment: str,
    expect: int | None,
    dry_run: bool,
) -> None:
    """Move a version to a stage, citing sealed results.

    Cited results must be in the store, pass and be about this candidate; those of the required pack
    must be fresh and of the pack that is set for the asset. The release gates must be open, and
    approvals given. A refusal (exit 1) lists every reason.

    \b
    Examples:
      gatemark promote triage@2.1.0 --to evaluating
      gatemark promote triage@2.1.0 --to eligible --cite 3f2a9c01
      gatemark promote triage@2.1.0 --to canary --cite 77ab01cd
    """
    ref = parse_version_ref(version)
    if break_glass is not None and to != "enabled":
        raise UsageError("--break-glass needs --to enabled")
    workspace = acting.workspace()
    command = Promote(
        to=_parse_stage(to),
        result_ids=result_ids(workspace, cite),
        incident=break_glass,
        expected_revision=expect,
        **acting.about(workspace, ref, environment),
    )
    unchanged = f"{ref} already exists"
    if acting.carry_out(workspace, command, unchanged=unchanged, dry_run=dry_run):
        anchor(workspace)


@click.command("approve", cls=StrictCommand)
@click.argument("version", metavar="ASSET@VERSION")
@click.option("--to", type=click.Choice(VOTED), help="Stage that the version may go to.")
@cite_option
@click.option(
    "--decision",
    type=click.Choice(get_args(Decision)),
    default="approve",
    help="Decision to record.",
)
@click.option("--confirm-break-glass", is_flag=True, help="Confirm a break-glass promotion.")
@environment_option
@expect_option
@dry_run_option
@acting_options
def approve_command(
    acting: Acting,
    *,
    version: str,
    to: str | None,
    cite: tuple[str, ...],
    decision: Decision,
    confirm_break_glass: bool,
    environment: str,
    expect: int | None,
    dry_run: bool,
) -> None:
    """Approve one step of one version, bound to its current results and policy.

    An approval applies to this candidate, these results, this policy and this stage; it is void as
    soon as one of them changes, and it expires. Authors cannot approve their own versions, nor can
    whoever last edited the required pack.

    \b
    Examples:
      gatemark approve triage@2.1.0 --to canary --cite 77ab01cd --actor bob
      gatemark approve triage@2.1.0 --confirm-break-glass --actor bob
    """
    ref = parse_version_ref(version)
    if confirm_break_glass == (to is not None):
        raise UsageError("give either --to STAGE or --confirm-break-glass")
    workspace = acting.workspace()
    command: Approve | ReviewBreakGlass
    about = acting.about(workspace, ref, environment)
    if to is None:
        command = ReviewBreakGlass(expected_revision=expect, **about)
    else:
        command = Approve(
            stage=_parse_stage(to),
            decision=decision,
            result_ids=result_ids(workspace, cite),
            expected_revision=expect,
            **about,
        )
    unchanged = f"{ref} was already reviewed"
    acting.carry_out(workspace, command, unchanged=unchanged, dry_run=dry_run)
