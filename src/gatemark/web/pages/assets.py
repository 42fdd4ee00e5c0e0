"""An asset: where it stands, what that rests on, what is routed, and what can be done."""

from __future__ import annotations

from typing import Annotated, Any, get_args

from fastapi import APIRouter, Depends, Request, Response

from gatemark.core.errors import UnknownNameError, UsageError
from gatemark.core.result import AssetKind
from gatemark.drift.policy_file import drift_policy
from gatemark.drift.view import drift_view
from gatemark.drift.views.page import drift_context
from gatemark.drift.views.views import DriftView
from gatemark.lifecycle.assets import NewVersion, add_version, set_exam
from gatemark.lifecycle.canary import CanaryState, canary_state
from gatemark.lifecycle.model.nouns import PRODUCTION, Gate, VersionRef, parse_version_ref
from gatemark.lifecycle.routing import route
from gatemark.lifecycle.views.history import asset_history
from gatemark.lifecycle.views.page import history_context, why_context
from gatemark.lifecycle.views.timeline import ramp, timeline
from gatemark.lifecycle.views.views import asset_card
from gatemark.lifecycle.views.why import why
from gatemark.web.areas.overview import asset_etag, offered_results, sealed_results
from gatemark.web.moves import VERBS, MoveRequest, locked, move
from gatemark.web.render import back, form, member, one, page, part
from gatemark.web.site import site_of
from gatemark.workspace import Workspace

router = APIRouter()
Fields = Annotated[dict[str, list[str]], Depends(form)]
HISTORY_SHOWN = 15
SHOWN = 8
"""Versions with their forms on the page; of older ones only those that serve."""
LIVE = ("shadow", "canary_1", "canary_5", "canary_25", "enabled")
TARGETS = ("evaluating", "rejected", "eligible", "shadow", "canary", "enabled", "retired")
FALLS = ("demote", "rollback")


@router.get("/assets/{asset}")
def asset_page(request: Request, asset: str, environment: str = PRODUCTION) -> Response:
    """Everything about an asset on one page."""
    identity = member(request)
    site = site_of(request)
    context = site.kept(
        f"asset in {environment}", asset, lambda: asset_context(site.workspace, asset, environment)
    )
    policy = drift_policy(site.settings.drift_policy)
    drift = site.kept("drift", asset, lambda: _drift_context(site.workspace, asset, policy))
    packs = site.board.packs() if "pack_owner" in identity.roles else ()
    more = {"drift": drift, "roles": set(identity.roles), "packs": packs}
    return page(request, "asset.html", identity, {**context, **more})


def asset_context(workspace: Workspace, asset: str, environment: str) -> dict[str, Any]:
    """What the page of an asset is filled with."""
    tag = asset_etag(workspace, asset)
    card = asset_card(workspace, asset, environment)
    history = asset_history(workspace, asset, limit=HISTORY_SHOWN)
    shown = [line for at, line in enumerate(card.versions) if at < SHOWN or line.stage in LIVE]
    going = [line for line in shown if line.stage not in ("retired", "superseded")]
    sealed = sealed_results(workspace, asset)
    offered = {
        line.version: offered_results(sealed, line.digest, line.result_ids) for line in going
    }
    canary = _canary(workspace, asset, environment)
    fallen = [line for line in card.versions if line.stage in ("demoted", "rolled_back")]
    return {
        "title": asset,
        "card": card,
        "tag": tag,
        "history": history,
        "picture": timeline(history.segments, history.at),
        "route": route(workspace, asset, environment),
        "canary": canary,
        "ramp": None if canary is None else ramp(canary.stage, is_watch=canary.is_watch),
        "offered": offered,
        "fallen": fallen[0] if fallen and card.enabled != fallen[0].version else None,
        "why": {
            line.version: why(workspace, VersionRef(asset=asset, version=line.version), environment)
            for line in going
            if line.stage in LIVE
        },
        "shown": shown,
        "others": [line for line in card.versions if line not in shown],
        "targets": TARGETS,
        "gates": get_args(Gate),
    }


def _canary(workspace: Workspace, asset: str, environment: str) -> CanaryState | None:
    try:
        return canary_state(workspace, asset, environment)
    except UnknownNameError:
        return None


def _drift_context(workspace: Workspace, asset: str, policy: Any) -> dict[str, Any] | None:
    view = _drift(workspace, asset, policy)
    return None if view is None else drift_context(view)


def _drift(workspace: Workspace, asset: str, policy: Any) -> DriftView | None:
    try:
        return drift_view(workspace, policy, asset, workspace.clock())
    except UsageError:
        return None


@router.get("/assets/{asset}/history")
def history_page(request: Request, asset: str) -> Response:
    """What was live when, and why."""
    identity = member(request)
    site = site_of(request)
    history = site.kept("history", asset, lambda: asset_history(site.workspace, asset))
    context = {**history_context(history), "asset_of_page": asset}
    return page(request, "history.html", identity, context)


@router.get("/assets/{asset}/versions/{version}")
def why_page(request: Request, asset: str, version: str, environment: str = PRODUCTION) -> Response:
    """Why a version is where it is."""
    identity = member(request)
    ref = parse_version_ref(f"{asset}@{version}")
    context = why_context(why(site_of(request).workspace, ref, environment))
    return page(request, "why.html", identity, {**context, "asset_of_page": asset})


@router.get("/assets/{asset}/drift")
def drift_page(request: Request, asset: str) -> Response:
    """The watched metrics of an asset, their episodes and what was done."""
    identity = member(request)
    site = site_of(request)
    policy = drift_policy(site.settings.drift_policy)
    view = _drift(site.workspace, asset, policy)
    if view is None:
        raise UnknownNameError(f"no metric of {asset} was ever pushed")
    context = {**drift_context(view), "asset_of_page": asset}
    return page(request, "drift.html", identity, context)


@router.post("/assets/{asset}/{verb}")
def move_post(request: Request, asset: str, verb: str, fields: Fields) -> Response:
    """Move a version, or take it back."""
    identity = member(request)
    if verb not in VERBS:
        raise UnknownNameError(f"nothing here is called {verb}")
    days = one(fields, "days")
    wish = MoveRequest(
        asset=asset,
        version=one(fields, "version") or None,
        environment=one(fields, "environment") or PRODUCTION,
        to=one(fields, "to") or None,
        result_ids=tuple(fields.get("cite", ())),
        gate=one(fields, "gate") or None,
        days=float(days) if days.isdigit() else None,
        incident=one(fields, "incident") or None,
        note=one(fields, "note"),
    )
    tag = None if verb in FALLS else one(fields, "tag")
    acted = move(site_of(request).workspace, identity, verb, wish, tag)
    words = {"pause": "paused", "resume": "resumed", "review-glass": "reviewed", "waive": "waived"}
    return back(f"/assets/{part(asset)}", words.get(verb, "moved") if acted.events else "nothing")


@router.get("/new-version")
def new_version_page(request: Request) -> Response:
    """The form for a new version."""
    identity = member(request)
    context = {"title": "Add a version", "kinds": get_args(AssetKind)}
    return page(request, "new_version.html", identity, context)


@router.post("/new-version")
def new_version_post(request: Request, fields: Fields) -> Response:
    """Draft a version by its digest or by a result about it."""
    identity = member(request)
    ref = parse_version_ref(f"{one(fields, 'asset')}@{one(fields, 'version')}")
    new = NewVersion(
        ref=ref,
        kind=one(fields, "kind") or None,  # type: ignore[arg-type]
        risk=one(fields, "risk") or None,  # type: ignore[arg-type]
        digest=one(fields, "digest") or None,
        result=one(fields, "result") or None,
        pins=tuple(line.strip() for line in one(fields, "pins").splitlines() if line.strip()),
        note=one(fields, "note"),
    )
    add_version(site_of(request).workspace, new, actor=identity.person)
    return back(f"/assets/{part(ref.asset)}", "added")


@router.post("/assets/{asset}/exam/set")
def exam_post(request: Request, asset: str, fields: Fields) -> Response:
    """Make one of the server's packs the full pack of an asset."""
    identity = member(request)
    site = site_of(request)
    path = site.board.path_of(one(fields, "pack"))

    def do(_: int) -> Any:
        return set_exam(
            site.workspace, asset, path, actor=identity.person, note=one(fields, "note")
        )

    locked(site.workspace, asset, one(fields, "tag"), do)
    return back(f"/assets/{part(asset)}", "saved")
