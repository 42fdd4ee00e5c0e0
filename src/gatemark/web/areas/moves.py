"""Moves of versions for page and API, each under the lock of its asset."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from http import HTTPStatus
from typing import Any, Final

import msgspec

from gatemark.accounts.identity import Identity
from gatemark.core.errors import (
    ConflictError,
    GatemarkError,
    InvalidValueError,
    RefusedError,
    UnknownNameError,
    UsageError,
)
from gatemark.ledger.event_kinds import SYSTEM
from gatemark.ledger.keys import keep_anchored
from gatemark.lifecycle.act import CommandResult, act
from gatemark.lifecycle.citations import result_ids
from gatemark.lifecycle.commands import (
    Approve,
    Command,
    Demote,
    PauseVersion,
    Promote,
    ResumeVersion,
    ReviewBreakGlass,
    RollBack,
    Waive,
)
from gatemark.lifecycle.model.nouns import PRODUCTION, Stage
from gatemark.lifecycle.state_cache import read_state
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


class MoveRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request to move a version; the verb decides which fields are used."""

    asset: str
    version: str | None = None
    environment: str = PRODUCTION
    to: str | None = None
    result_ids: tuple[str, ...] = ()
    gate: str | None = None
    days: float | None = None
    incident: str | None = None
    note: str = ""
    stop: bool = False
    """Whether a version may be removed even if nothing serves afterwards."""


FREE: Final = frozenset({"demote", "rollback", "pause"})
"""Verbs that demote or pause: they need no lock, so that nothing can delay them."""


def carry_out_move(
    workspace: Workspace, identity: Identity, verb: str, request: MoveRequest, tag: str | None
) -> CommandResult:
    """Carry out a request to move a version."""
    build = _VERBS[verb]
    asset_etag(workspace, request.asset)

    def do(expected: int) -> CommandResult:
        common: dict[str, Any] = {
            "actor": identity.person,
            "asset": request.asset,
            "environment": request.environment,
            "note": f"(stop) {request.note}".strip() if request.stop else request.note,
            "expected_revision": expected,
        }
        return act(workspace, build(workspace, request, common))

    done = locked(workspace, request.asset, tag, do, needs=verb not in FREE)
    if verb == "promote":
        keep_anchored(workspace.acting_as(SYSTEM), workspace.signing_key_file)
    return done


def _promote(workspace: Workspace, request: MoveRequest, common: dict[str, Any]) -> Command:
    to = "canary_1" if request.to == "canary" else request.to
    if request.incident and to != "enabled":
        raise UsageError("break-glass access can only enable a version")
    return Promote(
        version=_require_version(request),
        to=to,  # type: ignore[arg-type]
        result_ids=result_ids(workspace, request.result_ids),
        incident=request.incident or None,
        **common,
    )


def _demote(_: Workspace, request: MoveRequest, common: dict[str, Any]) -> Command:
    if not request.note.strip():
        raise UsageError("give a reason for the demotion")
    return Demote(
        version=request.version,
        to=request.to or "demoted",  # type: ignore[arg-type]
        needs_fallback=not request.stop,
        **common,
    )


def _waive(workspace: Workspace, request: MoveRequest, common: dict[str, Any]) -> Command:
    expires_at = workspace.clock() + timedelta(days=request.days or 0)
    return Waive(
        version=_require_version(request),
        gate=request.gate,  # type: ignore[arg-type]
        expires_at=expires_at,
        **common,
    )


def _require_version(request: MoveRequest) -> str:
    if request.version is None:
        raise UsageError("name the version")
    return request.version


_VERBS: Final[dict[str, Callable[[Workspace, MoveRequest, dict[str, Any]], Command]]] = {
    "promote": _promote,
    "demote": _demote,
    "rollback": lambda _, request, common: RollBack(
        version=request.version, to=request.to, needs_fallback=not request.stop, **common
    ),
    "pause": lambda _, request, common: PauseVersion(
        version=_require_version(request), reason="operator", **common
    ),
    "resume": lambda _, request, common: ResumeVersion(version=_require_version(request), **common),
    "confirm-break-glass": lambda _, request, common: ReviewBreakGlass(
        version=_require_version(request), **common
    ),
    "waive": _waive,
}
VERBS: Final = tuple(_VERBS)


class ApprovalForm(msgspec.Struct, frozen=True, kw_only=True):
    """A vote with everything that the voter saw; it is bound to that."""

    asset: str
    version: str
    environment: str = PRODUCTION
    stage: Stage
    decision: str
    result_ids: tuple[str, ...]
    candidate_digest: str
    policy_digest: str
    note: str


def approve_step(
    workspace: Workspace, identity: Identity, ballot: ApprovalForm, tag: str | None
) -> CommandResult:
    """Vote on a step with a comment, bound to what the voter saw."""
    fields = msgspec.structs.asdict(ballot)
    seen = (fields.pop("candidate_digest"), fields.pop("policy_digest"))
    fields["result_ids"] = result_ids(workspace, ballot.result_ids)

    def do(expected: int) -> CommandResult:
        if not ballot.note.strip():
            raise InvalidValueError("a vote needs a comment with its reason")
        state = read_state(workspace, ballot.asset)
        known = state.asset.versions.get(ballot.version)
        if known is None:
            raise UnknownNameError(f"{ballot.asset} has no version {ballot.version}")
        if seen != (known.digest, state.governance.policy_digest):
            raise ConflictError(
                "the candidate or the release policy changed since you loaded the page"
            )
        command = Approve(actor=identity.person, expected_revision=expected, **fields)
        return act(workspace, command)

    return locked(workspace, ballot.asset, tag, do)
