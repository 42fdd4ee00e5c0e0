"""Pages of an asset: stages, evidence, routing, drift, and possible actions."""

from __future__ import annotations

from typing import Final, get_args

import msgspec
from fastapi import APIRouter, Request, Response

from gatemark.attribution.routing_notes import noted_route
from gatemark.core.errors import UnknownNameError, UsageError
from gatemark.core.request_fields import read_request
from gatemark.core.result import AssetKind
from gatemark.drift.views.page import drift_context
from gatemark.lifecycle.assets import NewVersion, add_version
from gatemark.lifecycle.decisions.decide import TAKES_AWAY
from gatemark.lifecycle.model.nouns import PRODUCTION, PauseReason, Risk, parse_version_ref
from gatemark.lifecycle.release import explained_moves
from gatemark.lifecycle.views.history import asset_history
from gatemark.lifecycle.views.page import history_context, why_context
from gatemark.lifecycle.views.why import explain_stage
from gatemark.web.areas.assets import asset_context, asset_drift, require_server_pack
from gatemark.web.areas.moves import ACTS, carry_out
from gatemark.web.render import Fields, back, member, one, page, part
from gatemark.web.request_body import form_body, form_limits
from gatemark.web.site import Site, site_of

router = APIRouter()
LIMITS: Final = {verb: form_limits(one.command) for verb, one in ACTS.items()}


@router.get("/assets/{asset}")
def asset_page(request: Request, asset: str, environment: str = PRODUCTION) -> Response:
    """Show an asset."""
    identity = member(request)
    site = site_of(request)
    context = site.kept(
        f"asset in {environment}", asset, lambda: asset_context(site.workspace, asset, environment)
    )
    drift = site.kept("drift", asset, lambda: _build_drift_context(site, asset))
    packs = site.board.packs() if "pack_owner" in identity.roles else ()
    # A routing note is accepted without a change of the asset, so the route is not cached.
    found = noted_route(site.workspace, asset, environment)
    more = {
        "drift": drift,
        "roles": set(identity.roles),
        "packs": packs,
        "route": found,
        "acts": LIMITS,
        "pause_reasons": get_args(PauseReason),
    }
    return page(request, "asset.html", identity, {**context, **more})


@router.get("/assets/{asset}/history")
def history_page(request: Request, asset: str) -> Response:
    """Show what was live, when, and why."""
    identity = member(request)
    site = site_of(request)
    history = site.kept("history", asset, lambda: asset_history(site.workspace, asset))
    context = {**history_context(history), "asset_of_page": asset}
    return page(request, "history.html", identity, context)


@router.get("/assets/{asset}/versions/{version}")
def why_page(request: Request, asset: str, version: str, environment: str = PRODUCTION) -> Response:
    """Show why a version is in its stage."""
    identity = member(request)
    ref = parse_version_ref(f"{asset}@{version}")
    workspace = site_of(request).workspace
    found = explain_stage(workspace, ref, environment)
    moves = explained_moves(workspace, ref, environment, found.next_moves)
    context = why_context(msgspec.structs.replace(found, next_moves=moves))
    return page(request, "why.html", identity, {**context, "asset_of_page": asset})


@router.get("/assets/{asset}/drift")
def drift_page(request: Request, asset: str) -> Response:
    """Show the watched metrics of an asset, their episodes and the actions."""
    identity = member(request)
    site = site_of(request)
    drift = _build_drift_context(site, asset)
    if drift is None:
        raise UnknownNameError(
            f"no points of {asset} were pushed yet; push some with 'gatemark drift push'"
        )
    return page(request, "drift.html", identity, {**drift, "asset_of_page": asset})


def _build_drift_context(site: Site, asset: str) -> dict[str, object] | None:
    try:
        return drift_context(asset_drift(site, asset))
    except UsageError:
        return None


@router.post("/assets/{asset}/{verb}")
def move_post(request: Request, asset: str, verb: str, fields: Fields) -> Response:
    """Promote, demote, pause or resume a version."""
    identity = member(request)
    if verb not in ACTS:
        raise UnknownNameError(f"unknown action {verb}")
    found = ACTS[verb]
    given = form_body(found.command, fields)
    tag = None if issubclass(found.command, TAKES_AWAY) else one(fields, "tag")
    workspace = site_of(request).workspace
    result = carry_out(workspace, identity, found.command, given, tag, asset=asset)
    return back(f"/assets/{part(asset)}", found.done if result.events else "nothing")


@router.get("/new-version")
def new_version_page(request: Request) -> Response:
    """Show the form for a new version."""
    identity = member(request)
    context = {"title": "Add a version", "kinds": get_args(AssetKind), "risks": get_args(Risk)}
    return page(request, "new_version.html", identity, {**context, "new": form_limits(NewVersion)})


@router.post("/new-version")
def new_version_post(request: Request, fields: Fields) -> Response:
    """Add a version by its digest or by a result about it."""
    identity = member(request)
    new = read_request(NewVersion, form_body(NewVersion, fields))
    add_version(site_of(request).workspace, new, actor=identity.person)
    return back(f"/assets/{part(new.asset)}", "added")


@router.post("/assets/{asset}/required-pack/set")
def required_pack_post(request: Request, asset: str, fields: Fields) -> Response:
    """Make one of the server's packs the required pack of an asset."""
    identity = member(request)
    site = site_of(request)
    pack, note = one(fields, "pack"), one(fields, "note")
    require_server_pack(site, identity, asset, pack, note=note, tag=one(fields, "tag"))
    return back(f"/assets/{part(asset)}", "saved")
