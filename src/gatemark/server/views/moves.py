"""What changes an asset: new versions, and the moves of versions. The ETag is the lock."""

from __future__ import annotations

from typing import Final, NamedTuple, get_args

import msgspec

from gatemark.core.request_fields import request_fields
from gatemark.core.result import AssetKind
from gatemark.ledger.event_kinds import SYSTEM
from gatemark.ledger.keys import keep_anchored
from gatemark.release.lifecycle.act import CommandResult, act
from gatemark.release.lifecycle.assets import NewVersion, add_version
from gatemark.release.lifecycle.commands import (
    Approve,
    AssetCommand,
    Demote,
    PauseVersion,
    Promote,
    ResumeVersion,
    ReviewBreakGlass,
    RollBack,
    Waive,
)
from gatemark.release.lifecycle.decisions.decide import TAKES_AWAY
from gatemark.release.lifecycle.model.nouns import Risk
from gatemark.server.asset_tag import asset_etag, locked
from gatemark.server.doors import Context, Doors, Tagged, Visit
from gatemark.server.parameters import ASSET, VERSION, Tag
from gatemark.server.request_body import FormFields
from gatemark.workspace import Workspace

doors = Doors("moves", {"asset": ASSET, "version": VERSION})
VERSION_ADDRESS: Final = "/assets/{asset}/versions/{version}"


class MoveDone(msgspec.Struct, frozen=True):
    """The numbers of the events of a move; empty if nothing changed."""

    changed: bool
    events: tuple[int, ...]

    @classmethod
    def of(cls, *results: CommandResult) -> MoveDone:
        """Return what these commands wrote."""
        events = tuple(event.seq for result in results for event in result.events)
        return cls(bool(events), events)


def move_done(workspace: Workspace, asset: str, *results: CommandResult) -> Tagged:
    """Return what was done to an asset, with the ETag for the next move."""
    done = MoveDone.of(*results)
    return Tagged(asset_etag(workspace, asset), lambda: done)


@doors.page("/new-version", "new_version.html")
def new_version_page() -> Context:
    """Show the form for a new version."""
    kinds, risks = get_args(AssetKind), get_args(Risk)
    limits = FormFields(NewVersion)
    return {"title": "Add a version", "kinds": kinds, "risks": risks, "new": limits}


@doors.act(VERSION_ADDRESS, MoveDone, command=NewVersion, is_repeatable=True)
def post_version(visit: Visit, command: NewVersion) -> Tagged:
    """Add a version as a draft."""
    result = add_version(visit.workspace, command, actor=visit.identity.person)
    return move_done(visit.workspace, command.asset, result)


post_version.form("/new-version", to="/assets/{asset}", done="added")


class Move(NamedTuple):
    """A move: its command, the end of its address, its form, and where to go when it is done."""

    command: type[AssetCommand]
    route: str
    form: str
    done: str = "moved"
    to: str = "/assets/{asset}"

    @property
    def address(self) -> str:
        """The address in the interface; it names the version unless that may be left out."""
        fields = {field.name: field for field in request_fields(self.command)}
        place = VERSION_ADDRESS if fields["version"].is_required else "/assets/{asset}"
        return f"{place}/{self.route}"


MOVES: Final = {
    "promote": Move(Promote, "promotion", "/assets/{asset}/promote"),
    "approve": Move(Approve, "votes", "/approvals/{asset}/{version}", "voted", "/approvals"),
    "pause": Move(PauseVersion, "pause", "/assets/{asset}/pause", "paused"),
    "resume": Move(ResumeVersion, "resumption", "/assets/{asset}/resume", "resumed"),
    "confirm-break-glass": Move(
        ReviewBreakGlass, "break-glass-review", "/assets/{asset}/confirm-break-glass", "reviewed"
    ),
    "waive": Move(Waive, "waiver", "/assets/{asset}/waive", "waived"),
    "demote": Move(Demote, "demotion", "/assets/{asset}/demote"),
    "rollback": Move(RollBack, "rollback", "/assets/{asset}/rollback"),
}
"""By their verbs."""


def carry_out(visit: Visit, command: AssetCommand, tag: Tag = None) -> Tagged:
    """Carry out a move on an asset that has not changed since the caller loaded it.

    What takes authority away needs no lock, so that nothing can delay it; forms always have one.
    """
    workspace = visit.workspace
    asset_etag(workspace, command.asset)
    takes_away = isinstance(command, TAKES_AWAY)

    def do(expected: int) -> CommandResult:
        changes: dict[str, object] = {"expected_revision": expected}
        return act(workspace, msgspec.structs.replace(command, **changes))

    seen = None if takes_away and visit.is_form else tag
    done = locked(workspace, command.asset, seen, do, needs=not takes_away)
    if isinstance(command, Promote):
        keep_anchored(workspace.acting_as(SYSTEM), workspace.signing_key_file)
    return move_done(workspace, command.asset, done)


def _declare(move: Move) -> None:
    declared = doors.act(
        move.address,
        MoveDone,
        command=move.command,
        in_person=move.command.is_in_person,
        name=f"post_{move.route.replace('-', '_')}",
        description=move.command.__doc__,
    )(carry_out)

    def tell(done: MoveDone) -> str:
        return move.done if done.changed else "nothing"

    declared.form(move.form, to=move.to, done=tell)


for _move in MOVES.values():
    _declare(_move)
