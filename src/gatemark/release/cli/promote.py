"""``gatemark promote`` and ``gatemark approve``: steps up, and approvals of them."""

from __future__ import annotations

import click

from gatemark.cli.options import StrictCommand
from gatemark.cli.struct_options import request_option
from gatemark.core.errors import UsageError
from gatemark.core.request_fields import require_field
from gatemark.release.cli.options import ActOptions, act_options, anchor
from gatemark.release.lifecycle.commands import Approve, Promote, ReviewBreakGlass


@click.command("promote", cls=StrictCommand)
@act_options(Promote)
def promote_command(asked: ActOptions[Promote]) -> None:
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
    workspace = asked.workspace()
    unchanged = f"{asked.subject} already exists"
    if asked.carry_out(workspace, asked.command(workspace), unchanged=unchanged):
        anchor(workspace)


# Not required, as one of two options.
stage_option = request_option(require_field(Approve, "stage"), required=False)


@click.command("approve", cls=StrictCommand)
@act_options(Approve, stage=stage_option)
@click.option("--confirm-break-glass", is_flag=True, help="Confirm a break-glass promotion.")
def approve_command(asked: ActOptions[Approve], *, confirm_break_glass: bool) -> None:
    """Approve one step of one version, bound to its current results and policy.

    An approval applies to this candidate, these results, this policy and this stage; it is void as
    soon as one of them changes, and it expires. Authors cannot approve their own versions, nor can
    whoever last edited the required pack.

    \b
    Examples:
      gatemark approve triage@2.1.0 --to canary --cite 77ab01cd --note "read both" --actor bob
      gatemark approve triage@2.1.0 --confirm-break-glass --note "it leaked" --actor bob
    """
    if confirm_break_glass == ("stage" in asked.given):
        raise UsageError("give either --to STAGE or --confirm-break-glass")
    workspace = asked.workspace()
    kind = ReviewBreakGlass if confirm_break_glass else Approve
    command = asked.command_of(kind, workspace)
    asked.carry_out(workspace, command, unchanged=f"{asked.subject} was already reviewed")
