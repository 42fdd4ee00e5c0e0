"""Moves of versions for page and API, each under the lock of its asset."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Final, NamedTuple

import msgspec

from gatemark.accounts.identity import Identity
from gatemark.core.errors import GatemarkError, RefusedError
from gatemark.core.request_fields import read_request, request_fields
from gatemark.ledger.event_kinds import SYSTEM
from gatemark.ledger.keys import keep_anchored
from gatemark.lifecycle.act import CommandResult, act
from gatemark.lifecycle.commands import (
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
from gatemark.lifecycle.decisions.decide import TAKES_AWAY
from gatemark.web.areas.overview import asset_etag
from gatemark.web.problems import ProblemResponse
from gatemark.workspace import Workspace

_TAG: Final = re.compile(r'"([0-9]{1,15})\.([0-9]{1,15})"\Z')


def locked(
    workspace: Workspace,
    asset: str,
    tag: str | None,
    do: Callable[[int], CommandResult],
    *,
    needs: bool = True,
) -> CommandResult:
    """Run ``do`` on an asset that has not changed since the caller loaded it.

    Raise 428 if a tag is needed and missing, and 412 if it is old; nothing is done then.
    """
    if tag is None or tag == "*":
        if needs:
            raise ProblemResponse(
                HTTPStatus.PRECONDITION_REQUIRED,
                "missing If-Match header; send the ETag of the asset",
            )
        tag = asset_etag(workspace, asset)
    found = _TAG.match(tag)
    if found is None or tag != asset_etag(workspace, asset):
        raise _report_changed(workspace, asset)
    try:
        return do(int(found[1]))
    except RefusedError:
        if tag != asset_etag(workspace, asset):
            raise _report_changed(workspace, asset) from None
        raise


def _report_changed(workspace: Workspace, asset: str) -> ProblemResponse:
    headers: dict[str, str] = {}
    try:
        headers = {"ETag": asset_etag(workspace, asset)}
    except GatemarkError as error:
        return ProblemResponse(HTTPStatus.NOT_FOUND, str(error))
    return ProblemResponse(
        HTTPStatus.PRECONDITION_FAILED,
        f"{asset} changed since you loaded it; reload and try again",
        headers=headers,
    )


def acted_document(result: CommandResult) -> dict[str, object]:
    """Return the outcome of a move as JSON data."""
    return {
        "changed": result.is_change,
        "events": [event.seq for event in result.events],
    }


class WebAct(NamedTuple):
    """An act of a version: its command, the end of its address, and the word for it when done."""

    command: type[AssetCommand]
    route: str
    done: str = "moved"

    @property
    def is_of_version(self) -> bool:
        """Whether its address names the version; elsewhere the version may be left out."""
        fields = {field.name: field for field in request_fields(self.command)}
        return fields["version"].is_required


ACTS: Final = {
    "promote": WebAct(Promote, "promotion"),
    "approve": WebAct(Approve, "votes", "voted"),
    "pause": WebAct(PauseVersion, "pause", "paused"),
    "resume": WebAct(ResumeVersion, "resumption", "resumed"),
    "confirm-break-glass": WebAct(ReviewBreakGlass, "break-glass-review", "reviewed"),
    "waive": WebAct(Waive, "waiver", "waived"),
    "demote": WebAct(Demote, "demotion"),
    "rollback": WebAct(RollBack, "rollback"),
}
"""By the verb of the form."""


def carry_out(
    workspace: Workspace,
    identity: Identity,
    kind: type[AssetCommand],
    given: Mapping[str, object],
    tag: str | None,
    **address: str,
) -> CommandResult:
    """Carry out a request about an asset, under its lock; ``address`` are fields of the address.

    What takes authority away needs no lock, so that nothing can delay it.
    """
    command = read_request(kind, given, {"actor": identity.person, **address})
    asset_etag(workspace, command.asset)

    def do(expected: int) -> CommandResult:
        changes: dict[str, object] = {"expected_revision": expected}
        return act(workspace, msgspec.structs.replace(command, **changes))

    needs = not issubclass(kind, TAKES_AWAY)
    done = locked(workspace, command.asset, tag, do, needs=needs)
    if kind is Promote:
        keep_anchored(workspace.acting_as(SYSTEM), workspace.signing_key_file)
    return done
