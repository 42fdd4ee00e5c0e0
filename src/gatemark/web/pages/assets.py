"""Pages of an asset: stages, evidence, routing, drift, and possible actions."""

from __future__ import annotations

from typing import get_args

import msgspec
from fastapi import APIRouter, Request, Response

from gatemark.attribution.routing_notes import noted_route
from gatemark.core.errors import UnknownNameError, UsageError
from gatemark.core.result import AssetKind
from gatemark.drift.views.page import drift_context
from gatemark.lifecycle.assets import NewVersion, add_version
from gatemark.lifecycle.model.nouns import PRODUCTION, parse_version_ref
from gatemark.lifecycle.release import explained_moves
from gatemark.lifecycle.views.history import asset_history
from gatemark.lifecycle.views.page import history_context, why_context
from gatemark.lifecycle.views.why import explain_stage
from gatemark.web.areas.assets import asset_context, asset_drift, require_server_pack
from gatemark.web.areas.moves import VERBS, MoveRequest, carry_out_move
from gatemark.web.render import Fields, back, limited, member, one, page, part
from gatemark.web.site import Site, site_of

router = APIRouter()
FALLS = ("demote", "rollback")


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
    more = {"drift": drift, "roles": set(identity.roles), "packs": packs, "route": found}
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
    if verb not in VERBS:
        raise UnknownNameError(f"unknown action {verb}")
    days = one(fields, "days")
    wanted = MoveRequest(
        asset=asset,
        result_ids=tuple(fields.get("cite", ())),
        days=float(days) if days.isdigit() else None,
        stop=one(fields, "stop") == "yes",
        **limited(fields, "version", "environment", "to", "gate", "incident", "note"),
    )
    tag = None if verb in FALLS else one(fields, "tag")
    result = carry_out_move(site_of(request).workspace, identity, verb, wanted, tag)
    words = {
        "pause": "paused",
        "resume": "resumed",
        "confirm-break-glass": "reviewed",
        "waive": "waived",
    }
    return back(f"/assets/{part(asset)}", words.get(verb, "moved") if result.events else "nothing")


@router.get("/new-version")
def new_version_page(request: Request) -> Response:
    """Show the form for a new version."""
    identity = member(request)
    context = {"title": "Add a version", "kinds": get_args(AssetKind)}
    return page(request, "new_version.html", identity, context)


@router.post("/new-version")
def new_version_post(request: Request, fields: Fields) -> Response:
    """Add a version by its digest or by a result about it."""
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


@router.post("/assets/{asset}/required-pack/set")
def required_pack_post(request: Request, asset: str, fields: Fields) -> Response:
    """Make one of the server's packs the required pack of an asset."""
    identity = member(request)
    site = site_of(request)
    pack, note = one(fields, "pack"), one(fields, "note")
    require_server_pack(site, identity, asset, pack, note=note, tag=one(fields, "tag"))
    return back(f"/assets/{part(asset)}", "saved")
