"""API routes for measurements of serving systems: canary windows, points, service reports."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import msgspec
from fastapi import APIRouter, Path, Request, Response
from pydantic import Field, StringConstraints

from gatemark.core.errors import InvalidValueError
from gatemark.drift.point import Pushed
from gatemark.lifecycle.act import CommandResult, act
from gatemark.lifecycle.commands import ReportService
from gatemark.lifecycle.model.nouns import PRODUCTION, parse_version_ref
from gatemark.web.api.accounts import Body
from gatemark.web.areas.ingest import (
    hand_in_pairs,
    hand_in_points,
    hand_in_windows,
    run_due_now,
    settle_episode,
)
from gatemark.web.asset_tag import asset_etag
from gatemark.web.idempotency import REPEATABLE, KeyedRoute
from gatemark.web.openapi import describe_answers, reply
from gatemark.web.parameters import ASSET, VERSION, Note, Place, Reference
from gatemark.web.site import caller, site_of
from gatemark.web.views.moves import MoveDone, move_done

router = APIRouter(tags=["measurements"], route_class=KeyedRoute)
AssetPath = Annotated[str, ASSET]
VersionPath = Annotated[str, VERSION]
Moment = Annotated[str, StringConstraints(pattern=r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z$")]
EpisodePath = Annotated[str, Path(pattern=r"^(sha256:)?[0-9a-f]{8,64}$")]


class WindowsBody(Body):
    """Windows of ``gatemark.canary/1``, one per arm."""

    windows: list[dict[str, object]] = Field(min_length=1, max_length=2_000)
    environment: Place = PRODUCTION


class PairsBody(Body):
    """Measurements of a shadow and the live version, as for ``gatemark shadow push``."""

    spans: list[dict[str, object]] = Field(min_length=1, max_length=2_000)
    environment: Place = PRODUCTION


class PointsBody(Body):
    """Points of ``gatemark.point/1``."""

    points: list[dict[str, object]] = Field(min_length=1, max_length=10_000)


class PlaceBody(Body):
    """The environment."""

    environment: Place = PRODUCTION


class ServiceBody(Body):
    """The good events and all events of a time span, for the error budget."""

    start: Moment
    end: Moment
    good: int = Field(ge=0, le=10**12)
    total: int = Field(ge=0, le=10**12)
    environment: Place = PRODUCTION
    note: Note = ""


class CloseEpisodeBody(Body):
    """The reason to close an episode; a breach needs a fresh result."""

    reason: Annotated[Note, StringConstraints(min_length=1)]
    cite: Reference | None = None


class Closed(msgspec.Struct, frozen=True):
    """The id of the closed episode."""

    episode: str


def _answer_together(request: Request, asset: str, done: tuple[CommandResult, ...]) -> Response:
    found = move_done(site_of(request).workspace, asset, *done)
    return reply(found.make(), ETag=found.tag)


@router.post(
    "/assets/{asset}/canary/windows", responses=describe_answers(MoveDone), openapi_extra=REPEATABLE
)
def post_windows(request: Request, asset: AssetPath, body: WindowsBody) -> Response:
    """Push measurements of a running canary; repeating it changes nothing."""
    identity = caller(request, "act")
    workspace = site_of(request).workspace
    asset_etag(workspace, asset)
    done = hand_in_windows(workspace, identity, asset, body.windows, body.environment)
    return _answer_together(request, asset, done)


@router.post(
    "/assets/{asset}/versions/{version}/shadow",
    responses=describe_answers(MoveDone),
    openapi_extra=REPEATABLE,
)
def post_pairs(
    request: Request, asset: AssetPath, version: VersionPath, body: PairsBody
) -> Response:
    """Push measurements of a shadow and the live version; repeating it changes nothing."""
    identity = caller(request, "act")
    workspace = site_of(request).workspace
    asset_etag(workspace, asset)
    ref = parse_version_ref(f"{asset}@{version}")
    done = hand_in_pairs(workspace, identity, ref, body.spans, body.environment)
    return _answer_together(request, asset, done)


@router.post(
    "/assets/{asset}/canary/due", responses=describe_answers(MoveDone), openapi_extra=REPEATABLE
)
def post_due(request: Request, asset: AssetPath, body: PlaceBody) -> Response:
    """Do what is due: judge windows, ramp, pause, roll back, end a watch."""
    identity = caller(request, "act")
    workspace = site_of(request).workspace
    asset_etag(workspace, asset)
    return _answer_together(
        request, asset, run_due_now(workspace, identity, asset, body.environment)
    )


@router.post(
    "/assets/{asset}/service-reports",
    responses=describe_answers(MoveDone),
    openapi_extra=REPEATABLE,
)
def post_service(request: Request, asset: AssetPath, body: ServiceBody) -> Response:
    """Report the good events and all events of a time span."""
    identity = caller(request, "act")
    workspace = site_of(request).workspace
    asset_etag(workspace, asset)
    span = {"start": _parse_moment(body.start), "end": _parse_moment(body.end)}
    fields = {**body.model_dump(), **span}
    command = ReportService(actor=identity.person, asset=asset, **fields)
    return _answer_together(request, asset, (act(workspace, command),))


@router.post("/drift/points", responses=describe_answers(Pushed), openapi_extra=REPEATABLE)
def post_points(request: Request, body: PointsBody) -> Response:
    """Push points of watched metrics; repeating it changes nothing."""
    identity = caller(request, "act")
    return reply(hand_in_points(site_of(request).workspace, identity, body.points))


@router.post("/drift/episodes/{episode}/closing", responses=describe_answers(Closed))
def post_episode_closing(
    request: Request, episode: EpisodePath, body: CloseEpisodeBody
) -> Response:
    """Close an episode and start a new baseline. Needs a session."""
    identity = caller(request, "act", in_person=True)
    workspace = site_of(request).workspace
    return reply(Closed(settle_episode(workspace, identity, episode, body.reason, body.cite)))


def _parse_moment(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except ValueError as error:
        raise InvalidValueError(f"{text} is not a time: {error}") from error
