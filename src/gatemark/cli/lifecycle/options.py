"""Options of commands that act on an asset, and how they print what was recorded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypedDict, TypeVar

import click
import msgspec

from gatemark.cli.options import OptionGroup, actor_option, json_option, store_option
from gatemark.cli.screen import print_json, say
from gatemark.core.errors import UsageError
from gatemark.ledger.event_kinds import SYSTEM
from gatemark.ledger.keys import keep_anchored
from gatemark.lifecycle.act import CommandResult, act, preview
from gatemark.lifecycle.commands import Command
from gatemark.lifecycle.model.nouns import PRODUCTION, VersionRef
from gatemark.lifecycle.views.text import document_of, lines_of
from gatemark.workspace import Workspace

F = TypeVar("F", bound=Callable[..., Any])


class Caller(msgspec.Struct, frozen=True):
    """Who acts on which store, and whether the answer is JSON."""

    actor: str | None
    store: str
    json: bool

    def workspace(self, *, must_exist: bool = True) -> Workspace:
        """Open the store for this person."""
        return acting_workspace(self.store, self.actor, must_exist=must_exist)


class AboutVersion(TypedDict):
    """The fields that every command about one version has."""

    actor: str
    asset: str
    version: str
    environment: str
    note: str


class Acting(Caller, frozen=True, kw_only=True):
    """A caller whose action the ledger records, with a note."""

    note: str

    def about(self, workspace: Workspace, ref: VersionRef, environment: str) -> AboutVersion:
        """Return who does something about which version, where and why."""
        return {
            "actor": workspace.actor,
            "asset": ref.asset,
            "version": ref.version,
            "environment": environment,
            "note": self.note,
        }

    def show(self, *several: CommandResult, unchanged: str) -> None:
        """Print what was recorded, or that nothing changed."""
        show_acted(*several, unchanged=unchanged, json=self.json)

    def carry_out(
        self, workspace: Workspace, command: Command, *, unchanged: str, dry_run: bool
    ) -> bool:
        """Run a command and print what it recorded; with ``dry_run`` what it would record.

        Return whether it was run.
        """
        if not dry_run:
            self.show(act(workspace, command), unchanged=unchanged)
            return True
        facts = preview(workspace, command)
        if self.json:
            said = [{"kind": one.declared.name, **msgspec.to_builtins(one)} for one in facts]
            print_json({"dry_run": True, "facts": said})
            return False
        for one in facts:
            say(f"would record: {one.label}: {one.sentence}")
        if not facts:
            say(unchanged, err=True)
        return False


note_option = click.option(
    "--note",
    default="",
    show_default=False,
    metavar="TEXT",
    help="Reason, recorded in the ledger.",
)
caller_options = OptionGroup(Caller, actor=actor_option, store=store_option, json=json_option)
acting_options = OptionGroup(
    Acting,
    actor=actor_option,
    note=note_option,
    store=store_option,
    json=json_option,
)
environment_option = click.option(
    "--environment", metavar="NAME", default=PRODUCTION, help="Name of the environment."
)
expect_option = click.option(
    "--expect",
    type=click.IntRange(0),
    metavar="EVENT",
    help="Revision of the asset that you looked at; refused if it has changed since.",
)
dry_run_option = click.option(
    "--dry-run", is_flag=True, help="Show what would be recorded or refused; write nothing."
)
cite_option = click.option(
    "--cite",
    multiple=True,
    metavar="RESULT",
    help="Id of a sealed result to cite, or its first digits. Repeatable.",
)


def acting_workspace(store: str, actor: str | None, *, must_exist: bool = True) -> Workspace:
    """Open a store for a person who changes something."""
    if actor == SYSTEM:
        raise UsageError(
            f"nobody can act as {SYSTEM!r}: the name is reserved for automatic actions"
        )
    workspace = Workspace(store=store, actor=actor)
    if must_exist:
        workspace.existing_store()
    return workspace


def anchor(workspace: Workspace, *, is_daily: bool = False) -> None:
    """Sign a checkpoint after a promotion; whatever is wrong with it never stops one."""
    key = workspace.signing_key_file
    problem = keep_anchored(workspace.acting_as(SYSTEM), key, is_daily=is_daily)
    if problem is not None:
        say(problem, err=True)


def show_acted(*several: CommandResult, unchanged: str, json: bool) -> None:
    """Print what was recorded, or that nothing changed."""
    if json:
        print_json(document_of(*several))
        return
    lines = [line for result in several for line in lines_of(result)]
    for line in lines:
        say(line)
    if not lines:
        say(unchanged, err=True)
