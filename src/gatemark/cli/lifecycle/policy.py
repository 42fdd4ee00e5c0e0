"""``gatemark policy``: the release policy, its gates and its numbers."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from gatemark.cli.lifecycle.options import acting_options, acting_workspace, show_acted
from gatemark.cli.options import json_option, store_option
from gatemark.cli.screen import print_json
from gatemark.lifecycle.commands import AdoptPolicy
from gatemark.lifecycle.journey import act
from gatemark.lifecycle.policy_file import policy_text, read_release_policy
from gatemark.lifecycle.state_cache import read_state
from gatemark.workspace import Workspace


@click.group("policy")
def policy_command() -> None:
    """Show, check or adopt the release policy of a store."""


@policy_command.command("show")
@store_option
@json_option
def show(store: str, json: bool) -> None:
    """Print the release policy in force, with every default written out.

    A store without a policy of its own has the default one.

    \b
    Example:
      gatemark policy show > release.yaml
    """
    workspace = Workspace(store=store)
    workspace.existing_store()
    rules = read_state(workspace, "*").governance
    if json:
        print_json(
            {"policy": msgspec.to_builtins(rules.policy), "policy_digest": rules.policy_digest}
        )
        return
    click.echo(f"# {rules.policy_digest}")
    click.echo(policy_text(rules.policy), nl=False)


@policy_command.command("check")
@click.argument("file")
def check(file: str) -> None:
    """Check a release policy file and print its digest; changes nothing.

    \b
    Example:
      gatemark policy check release.yaml
    """
    click.echo(read_release_policy(file).digest)


@policy_command.command("adopt")
@click.argument("file")
@acting_options
def adopt(**flags: Any) -> None:
    """Put a release policy into force; approvals under the old one are void.

    Only an admin can, who cannot approve. The whole policy goes into the ledger.

    \b
    Example:
      gatemark policy adopt release.yaml --actor ada --note "two approvals from now on"
    """
    policy = read_release_policy(flags["file"])
    workspace = acting_workspace(flags)
    command = AdoptPolicy(actor=workspace.actor, policy=policy, note=flags["note"])
    show_acted(flags, act(workspace, command), unchanged="this policy is in force already")
