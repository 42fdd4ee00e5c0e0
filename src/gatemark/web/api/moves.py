"""API routes that change assets: new versions, moves, votes. If-Match is the lock."""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

import msgspec
from fastapi import APIRouter, Header, Request, Response
from pydantic import Field, StringConstraints

from gatemark.core.result import AssetKind
from gatemark.lifecycle.act import CommandResult
from gatemark.lifecycle.assets import NewVersion, add_version
from gatemark.lifecycle.model.nouns import PRODUCTION, Decision, Gate, Risk, parse_version_ref
from gatemark.web.api.accounts import Body
from gatemark.web.api.assets import NAME, AssetPath, VersionPath
from gatemark.web.api.document import describe_answers, reply
from gatemark.web.api.idempotency import REPEATABLE, KeyedRoute
from gatemark.web.areas.moves import (
    ApprovalForm,
    MoveRequest,
    acted_document,
    approve_step,
    carry_out_move,
)
from gatemark.web.areas.overview import asset_etag
from gatemark.web.site import caller, site_of

router = APIRouter(tags=["moves"], route_class=KeyedRoute)
Tag = Annotated[str | None, Header(alias="If-Match", max_length=64)]
Note = Annotated[str, StringConstraints(max_length=2000, pattern=r"^[^\x00-\x08\x0b-\x1f\x7f]*$")]
Reference = Annotated[str, StringConstraints(pattern=r"^(sha256:)?[0-9a-f]{8,64}$")]
Digest = Annotated[str, StringConstraints(pattern=r"^sha256:[0-9a-f]{64}$")]
Cites = Annotated[list[Reference], Field(max_length=32)]
Place = Annotated[str, StringConstraints(max_length=128, pattern=NAME)]
Name = Annotated[str, StringConstraints(max_length=64, pattern=NAME)]
Target = Literal["evaluating", "rejected", "eligible", "shadow", "canary", "enabled", "retired"]
Words = Annotated[str, StringConstraints(min_length=1, max_length=200)]


class MoveDone(msgspec.Struct, frozen=True):
    """The numbers of the events of a move; empty if nothing changed."""

    changed: bool
    events: tuple[int, ...]


class VersionBody(Body):
    """A version by its digest, or by a result about it."""

    kind: Literal[get_args(AssetKind)] | None = None  # type: ignore[valid-type]
    risk: Risk | None = None
    digest: Digest | None = None
    result: Reference | None = None
    parent: Name | None = None
    pins: list[Words] = Field(default=[], max_length=64)
    is_scope_change: bool = False
    note: Note = ""


class PromotionBody(Body):
    """The stage and the cited results; with an incident it is break-glass access."""

    to: Target
    result_ids: Cites = Field(default=[])
    incident: Words | None = None
    environment: Place = PRODUCTION
    note: Note = ""


class VoteBody(Body):
    """A vote, bound to candidate, results, policy and stage."""

    stage: Literal["shadow", "canary_1", "enabled"]
    decision: Decision
    result_ids: Cites = Field(default=[])
    candidate_digest: Digest
    policy_digest: Digest
    environment: Place = PRODUCTION
    note: Annotated[Note, StringConstraints(min_length=1)]


class PlainBody(Body):
    """The reason."""

    environment: Place = PRODUCTION
    note: Note = ""


class WaiverBody(PlainBody):
    """The gate to waive, and for how long."""

    gate: Gate
    days: float = Field(gt=0, le=366)


class DemotionBody(Body):
    """The version to demote (default: the enabled one), and the reason."""

    version: Name | None = None
    to: Literal["shadow", "demoted"] = "demoted"
    environment: Place = PRODUCTION
    note: Annotated[Note, StringConstraints(min_length=1)]
    stop: bool = False


class RollbackBody(PlainBody):
    """The version to leave and the version to return to; both are optional."""

    version: Name | None = None
    to: Name | None = None
    stop: bool = False


@router.post(
    "/assets/{asset}/versions/{version}",
    responses=describe_answers(MoveDone),
    openapi_extra=REPEATABLE,
)
def post_version(
    request: Request, asset: AssetPath, version: VersionPath, body: VersionBody
) -> Response:
    """Add a version as a draft."""
    identity = caller(request, "act")
    workspace = site_of(request).workspace
    new = NewVersion(ref=parse_version_ref(f"{asset}@{version}"), **_convert_body(body))
    return move_done(request, asset, add_version(workspace, new, actor=identity.person))


def move_done(request: Request, asset: str, result: CommandResult) -> Response:
    """Return the outcome of a move, with the ETag for the next one."""
    return reply(acted_document(result), ETag=asset_etag(site_of(request).workspace, asset))


def _move(
    request: Request,
    verb: str,
    body: Body,
    tag: str | None,
    *,
    asset: str,
    version: str | None = None,
) -> Response:
    identity = caller(request, "act", in_person=verb in ("confirm-break-glass", "waive"))
    fields = {"version": version, **_convert_body(body)}
    result = carry_out_move(
        site_of(request).workspace, identity, verb, MoveRequest(asset=asset, **fields), tag
    )
    return move_done(request, asset, result)


@router.post("/assets/{asset}/versions/{version}/promotion", responses=describe_answers(MoveDone))
def post_promotion(
    request: Request,
    asset: AssetPath,
    version: VersionPath,
    body: PromotionBody,
    tag: Tag = None,
) -> Response:
    """Promote a version to a stage, citing results."""
    return _move(request, "promote", body, tag, asset=asset, version=version)


@router.post("/assets/{asset}/versions/{version}/votes", responses=describe_answers(MoveDone))
def post_vote(
    request: Request, asset: AssetPath, version: VersionPath, body: VoteBody, tag: Tag = None
) -> Response:
    """Vote on a step, with a comment. Needs a session."""
    identity = caller(request, "act", in_person=True)
    ballot = ApprovalForm(asset=asset, version=version, **_convert_body(body))
    workspace = site_of(request).workspace
    return move_done(request, asset, approve_step(workspace, identity, ballot, tag))


@router.post("/assets/{asset}/versions/{version}/pause", responses=describe_answers(MoveDone))
def post_pause(
    request: Request, asset: AssetPath, version: VersionPath, body: PlainBody, tag: Tag = None
) -> Response:
    """Pause a version; If-Match is optional."""
    return _move(request, "pause", body, tag, asset=asset, version=version)


@router.post("/assets/{asset}/versions/{version}/resumption", responses=describe_answers(MoveDone))
def post_resumption(
    request: Request, asset: AssetPath, version: VersionPath, body: PlainBody, tag: Tag = None
) -> Response:
    """Resume a paused version."""
    return _move(request, "resume", body, tag, asset=asset, version=version)


@router.post(
    "/assets/{asset}/versions/{version}/break-glass-review", responses=describe_answers(MoveDone)
)
def post_break_glass_review(
    request: Request, asset: AssetPath, version: VersionPath, body: PlainBody, tag: Tag = None
) -> Response:
    """Confirm break-glass access as a second person."""
    return _move(request, "confirm-break-glass", body, tag, asset=asset, version=version)


@router.post("/assets/{asset}/versions/{version}/waiver", responses=describe_answers(MoveDone))
def post_waiver(
    request: Request, asset: AssetPath, version: VersionPath, body: WaiverBody, tag: Tag = None
) -> Response:
    """Waive a gate for a version, if the policy allows it."""
    return _move(request, "waive", body, tag, asset=asset, version=version)


@router.post("/assets/{asset}/demotion", responses=describe_answers(MoveDone))
def post_demotion(
    request: Request, asset: AssetPath, body: DemotionBody, tag: Tag = None
) -> Response:
    """Demote a version; If-Match is optional."""
    return _move(request, "demote", body, tag, asset=asset)


@router.post("/assets/{asset}/rollback", responses=describe_answers(MoveDone))
def post_rollback(
    request: Request, asset: AssetPath, body: RollbackBody, tag: Tag = None
) -> Response:
    """Roll back immediately; If-Match is optional."""
    return _move(request, "rollback", body, tag, asset=asset)


def _convert_body(body: Body) -> dict[str, Any]:
    plain = body.model_dump()
    return {name: tuple(one) if isinstance(one, list) else one for name, one in plain.items()}
