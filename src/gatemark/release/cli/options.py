"""Options of commands that act on an asset, and how they print what was recorded."""

from __future__ import annotations

from functools import partial
from typing import Any, Final, Generic, TypeVar

import click
import msgspec

from gatemark.cli.options import (
    OptionDecorator,
    OptionGroup,
    actor_option,
    json_option,
    store_option,
)
from gatemark.cli.screen import print_json, say
from gatemark.cli.struct_options import read_given, request_options
from gatemark.core.errors import UsageError
from gatemark.core.request_fields import RequestField, find_field, request_fields
from gatemark.ledger.event_kinds import SYSTEM
from gatemark.ledger.keys import keep_anchored
from gatemark.release.lifecycle.act import CommandResult, act, preview
from gatemark.release.lifecycle.commands import Command
from gatemark.release.lifecycle.decisions.decide import TAKES_AWAY
from gatemark.release.lifecycle.model.nouns import PRODUCTION, parse_version_ref
from gatemark.release.lifecycle.views.text import document_of, lines_of, warn_of_undecided
from gatemark.workspace import Workspace

K = TypeVar("K", bound=msgspec.Struct)
D = TypeVar("D", bound=Command)
G = TypeVar("G", bound=msgspec.Struct)


class Caller(msgspec.Struct, frozen=True):
    """Who acts on which store, and whether the answer is JSON."""

    actor: str | None
    store: str
    json: bool

    def workspace(self, *, must_exist: bool = True) -> Workspace:
        """Open the store for this person."""
        return acting_workspace(self.store, self.actor, must_exist=must_exist)


class Acting(Caller, frozen=True, kw_only=True):
    """A caller whose action the ledger records, with a note."""

    note: str

    def show(self, *several: CommandResult, unchanged: str) -> None:
        """Print what was recorded, or that nothing changed."""
        show_acted(*several, unchanged=unchanged, json=self.json)


R = TypeVar("R", bound=msgspec.Struct)
C = TypeVar("C", bound=Command)


class RequestOptions(Caller, Generic[R], frozen=True, kw_only=True):
    """What somebody asks for on the command line: the fields of a request, still as given."""

    struct: type[R]
    subject: str
    given: dict[str, object]

    def request(self) -> R:
        """Return the request; a value that it may not hold is refused with its option."""
        return self._read(self.struct)

    def _read(self, struct: type[K], **known: object) -> K:
        offered = {field.name for field in request_fields(struct)}
        given = {name: value for name, value in self.given.items() if name in offered}
        return read_given(struct, given, known, arguments=SUBJECT)


class ActOptions(RequestOptions[C], Generic[C], frozen=True, kw_only=True):
    """The same of a command, which can be tried without doing it."""

    dry_run: bool
    expected_revision: int | None = None

    def command(self, workspace: Workspace) -> C:
        """Return the command of this person."""
        return self.command_of(self.struct, workspace)

    def command_of(self, kind: type[D], workspace: Workspace) -> D:
        """Return the command, or another one that has some of its fields."""
        return self._read(kind, actor=workspace.actor, expected_revision=self.expected_revision)

    def carry_out(self, workspace: Workspace, command: Command, *, unchanged: str) -> bool:
        """Run a command and print what it recorded; with ``dry_run`` what it would record.

        Return whether it was run.
        """
        if not self.dry_run:
            show_acted(act(workspace, command), unchanged=unchanged, json=self.json)
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
SUBJECT: Final = ("asset", "version")
"""The fields that ASSET@VERSION gives."""


def request_group(kind: type[R], **own: OptionDecorator) -> OptionGroup[RequestOptions[R]]:
    """Return the argument and the options of a request about an asset; ``own`` replace some."""
    return OptionGroup(
        partial(_collect, RequestOptions, kind),
        subject=_subject_argument(kind),
        **{**request_options(kind, without=SUBJECT), **own},
        actor=actor_option,
        store=store_option,
        json=json_option,
    )


def act_options(kind: type[C], **own: OptionDecorator) -> OptionGroup[ActOptions[C]]:
    """Return the argument and the options of a command of the lifecycle; ``own`` replace some."""
    # Commands that take authority away need no lock.
    locked = {} if issubclass(kind, TAKES_AWAY) else {"expected_revision": expect_option}
    return OptionGroup(
        partial(_collect, ActOptions, kind),
        subject=_subject_argument(kind),
        **{**request_options(kind, without=SUBJECT), **own},
        **locked,
        dry_run=dry_run_option,
        actor=actor_option,
        store=store_option,
        json=json_option,
    )


def _subject_argument(kind: type[msgspec.Struct]) -> OptionDecorator:
    version = find_field(kind, "version")
    if version is None:
        return click.argument("subject", metavar="ASSET")
    required = version.is_required
    return click.argument("subject", metavar="ASSET@VERSION" if required else "ASSET[@VERSION]")


def _collect(group: type[G], struct: type[msgspec.Struct], /, *, subject: str, **given: Any) -> G:
    own = {name: given.pop(name) for name in group.__struct_fields__ if name in given}
    fields = _parse_subject(subject, find_field(struct, "version"))
    # An option that was not given has the default of its field.
    fields |= {name: value for name, value in given.items() if value is not None}
    return group(struct=struct, subject=subject, given=fields, **own)


def _parse_subject(text: str, version: RequestField | None) -> dict[str, object]:
    if version is None or (not version.is_required and "@" not in text):
        return {"asset": text}
    ref = parse_version_ref(text)
    return {"asset": ref.asset, "version": ref.version}


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
    for note in dict.fromkeys(note for result in several for note in result.undecided):
        say(warn_of_undecided(note), err=True)
    lines = [line for result in several for line in lines_of(result)]
    for line in lines:
        say(line)
    if not lines:
        say(unchanged, err=True)
