"""API routes that read assets: stages, history, reasons and routing; ``moves`` changes them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response

from gatemark.attribution.routing_notes import NotedRoute, accepted_notes, noted_route
from gatemark.drift.views.views import DriftView
from gatemark.lifecycle.canary import CanaryState, canary_state
from gatemark.lifecycle.model.nouns import PRODUCTION, parse_version_ref
from gatemark.lifecycle.views.history import asset_history
from gatemark.lifecycle.views.views import AssetCard, History, Why, asset_card
from gatemark.lifecycle.views.why import explain_stage
from gatemark.schedule.list_schedules import ScheduleLine, list_schedules
from gatemark.schedule.plan_file import read_schedules
from gatemark.web.areas.assets import asset_drift
from gatemark.web.areas.overview import asset_etag, open_steps, overview
from gatemark.web.areas.views import OpenStep, Overview
from gatemark.web.idempotency import KeyedRoute
from gatemark.web.openapi import describe_answers, reply
from gatemark.web.site import caller, site_of

router = APIRouter(tags=["assets"], route_class=KeyedRoute)
NAME = r"^[A-Za-z0-9][A-Za-z0-9_.+-]*$"
AssetPath = Annotated[str, Path(max_length=128, pattern=NAME)]
VersionPath = Annotated[str, Path(max_length=64, pattern=NAME)]
Place = Annotated[str, Query(max_length=128, pattern=NAME)]


@router.get("/overview", responses=describe_answers(Overview))
def get_overview(
    request: Request,
    after: Annotated[str, Query(max_length=128)] = "",
    limit: Annotated[int, Query(ge=1, le=200)] = 100,
) -> Response:
    """List assets by stage, and the caller's open tasks."""
    identity = caller(request)
    return reply(overview(site_of(request).workspace, identity, after=after, limit=limit))


@router.get("/assets/{asset}", responses=describe_answers(AssetCard))
def get_asset(request: Request, asset: AssetPath, environment: Place = PRODUCTION) -> Response:
    """Return the versions of an asset; send the ETag as If-Match with changes."""
    caller(request)
    workspace = site_of(request).workspace
    tag = asset_etag(workspace, asset)
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers={"ETag": tag})
    return reply(asset_card(workspace, asset, environment), ETag=tag)


@router.get("/assets/{asset}/history", responses=describe_answers(History))
def get_history(request: Request, asset: AssetPath) -> Response:
    """List the events of an asset, newest first."""
    caller(request)
    return reply(asset_history(site_of(request).workspace, asset))


@router.get("/assets/{asset}/versions/{version}", responses=describe_answers(Why))
def get_why(
    request: Request, asset: AssetPath, version: VersionPath, environment: Place = PRODUCTION
) -> Response:
    """Explain why a version is in its stage."""
    caller(request)
    ref = parse_version_ref(f"{asset}@{version}")
    return reply(explain_stage(site_of(request).workspace, ref, environment))


@router.get("/assets/{asset}/route", responses=describe_answers(NotedRoute))
def get_route(request: Request, asset: AssetPath, environment: Place = PRODUCTION) -> Response:
    """Return what a serving system should route to now."""
    caller(request)
    workspace = site_of(request).workspace
    tag = asset_etag(workspace, asset)
    if accepted := accepted_notes(workspace, asset).notes:
        # A routing note is accepted without a change of the asset, so the ETag would be stale.
        tag = f'{tag[:-1]}-{len(accepted)}"'
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers={"ETag": tag})
    return reply(noted_route(workspace, asset, environment), ETag=tag)


@router.get("/assets/{asset}/canary", responses=describe_answers(CanaryState))
def get_canary(request: Request, asset: AssetPath, environment: Place = PRODUCTION) -> Response:
    """Return the state of a running canary or watch."""
    caller(request)
    return reply(canary_state(site_of(request).workspace, asset, environment))


@router.get("/assets/{asset}/drift", responses=describe_answers(DriftView))
def get_drift(request: Request, asset: AssetPath) -> Response:
    """Return the watched metrics of an asset."""
    caller(request)
    return reply(asset_drift(site_of(request), asset))


@router.get("/steps", responses=describe_answers(tuple[OpenStep, ...]))
def get_steps(request: Request) -> Response:
    """List the steps that wait for approval."""
    identity = caller(request)
    return reply(open_steps(site_of(request).workspace, identity))


@router.get("/schedules", responses=describe_answers(tuple[ScheduleLine, ...]))
def get_schedules(request: Request) -> Response:
    """List the schedules and when each fires next."""
    caller(request)
    site = site_of(request)
    plan = read_schedules(site.settings.schedules)
    return reply(list_schedules(site.workspace, plan, site.workspace.clock()))
