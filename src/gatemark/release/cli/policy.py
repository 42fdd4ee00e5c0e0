"""``gatemark policy``: the release policy, its gates and its numbers."""

from __future__ import annotations

import click

from gatemark.cli.options import StrictGroup, json_option, store_option
from gatemark.cli.screen import say, show
from gatemark.cli.struct_options import given_group, read_given
from gatemark.release.cli.options import Caller, caller_options, show_acted
from gatemark.release.lifecycle.act import act
from gatemark.release.lifecycle.commands import AdoptPolicy
from gatemark.release.lifecycle.events.fact import WORKSPACE_SUBJECT
from gatemark.release.lifecycle.policy_file import policy_text, read_release_policy
from gatemark.release.lifecycle.state_cache import read_state, unknown_asset
from gatemark.workspace import Workspace


@click.group("policy", cls=StrictGroup)
def policy_command() -> None:
    """Show, check or adopt the release policy of a store."""


@policy_command.command("show")
@click.option("--asset", metavar="ASSET", help="Show the policy as it applies to this asset.")
@store_option
@json_option
def show_policy(store: str, asset: str | None, json: bool) -> None:
    """Print the release policy in force, with every default written out.

    A store without its own policy uses the default one. With --asset, the first matching entry of
    the section assets is applied.

    \b
    Examples:
      gatemark policy show > release.yaml
      gatemark policy show --asset triage
    """
    workspace = Workspace(store=store)
    workspace.existing_store()
    state = read_state(workspace, asset or WORKSPACE_SUBJECT)
    if asset is not None and not state.asset.versions:
        raise unknown_asset(workspace, asset)
    policy_digest = state.governance.policy_digest
    show(
        {"policy": state.policy, "policy_digest": policy_digest},
        lambda _: f"# {policy_digest}\n{policy_text(state.policy)}",
        json=json,
    )


@policy_command.command("check")
@click.argument("file")
def check_policy_command(file: str) -> None:
    """Check a release policy file and print its digest; changes nothing.

    \b
    Example:
      gatemark policy check release.yaml
    """
    say(read_release_policy(file).digest)


adopt_options = given_group(AdoptPolicy)


@policy_command.command("adopt")
@click.argument("file")
@adopt_options
@caller_options
def adopt_policy_command(caller: Caller, given: dict[str, object], *, file: str) -> None:
    """Put a release policy into force; approvals under the old one are void.

    Only an admin can adopt a policy, and admins cannot approve. The ledger stores the whole policy.

    \b
    Example:
      gatemark policy adopt release.yaml --actor ada --note "two approvals from now on"
    """
    policy = read_release_policy(file)
    workspace = caller.workspace()
    command = read_given(AdoptPolicy, given, {"actor": workspace.actor, "policy": policy})
    unchanged = "this policy is already in force"
    show_acted(act(workspace, command), unchanged=unchanged, json=caller.json)
