"""One asset: its versions and what may be done to them, its history, reasons and routing."""

from __future__ import annotations

from typing import Final, get_args

import msgspec

from gatemark.core.errors import UnknownNameError
from gatemark.release.attribution.routing_notes import NotedRoute, accepted_notes, noted_route
from gatemark.release.lifecycle.assets import RequirePack
from gatemark.release.lifecycle.canary import CanaryState, canary_state
from gatemark.release.lifecycle.model.nouns import (
    PRODUCTION,
    PauseReason,
    VersionRef,
    parse_version_ref,
)
from gatemark.release.lifecycle.model.release_policy import waivable_gates
from gatemark.release.lifecycle.model.stages import LANE, LANE_NOTE, moves_of
from gatemark.release.lifecycle.release import explained_moves
from gatemark.release.lifecycle.state_cache import read_state
from gatemark.release.lifecycle.views.history import asset_history
from gatemark.release.lifecycle.views.page import history_context, why_context
from gatemark.release.lifecycle.views.timeline import build_ramp, draw_timeline
from gatemark.release.lifecycle.views.views import AssetCard, History, Why, asset_card
from gatemark.release.lifecycle.views.why import explain_stage
from gatemark.server.asset_tag import asset_etag
from gatemark.server.doors import Context, Doors, Tagged, Visit
from gatemark.server.parameters import ASSET, VERSION, Environment
from gatemark.server.request_body import FormFields
from gatemark.server.views.approvals import offered_results, sealed_results
from gatemark.server.views.drift import find_drift_context
from gatemark.server.views.moves import MOVES
from gatemark.workspace import Workspace

doors = Doors("assets", {"asset": ASSET, "version": VERSION})
HISTORY_SHOWN: Final = 15
SHOWN: Final = 8
"""Number of latest versions on the page; older ones are shown only if they serve."""
LIVE: Final = ("shadow", "canary_1", "canary_5", "canary_25", "enabled")
LIMITS: Final = {
    **{verb: FormFields(move.command) for verb, move in MOVES.items()},
    "required-pack": FormFields(RequirePack),
}


@doors.view("/assets/{asset}", AssetCard)
def get_asset(visit: Visit, asset: str, environment: Environment = PRODUCTION) -> Tagged:
    """Return the versions of an asset; send the ETag as If-Match with changes."""
    tag = asset_etag(visit.workspace, asset)
    return Tagged(tag, lambda: asset_card(visit.workspace, asset, environment))


@get_asset.page("/assets/{asset}", "asset.html")
def asset_page(visit: Visit, asset: str, environment: str) -> Context:
    """Show an asset."""
    site, roles = visit.site, visit.identity.roles
    context = site.kept(
        f"asset in {environment}",
        asset,
        lambda: build_asset_context(site.workspace, asset, environment),
    )
    return {
        **context,
        "drift": site.kept("drift", asset, lambda: find_drift_context(site, asset)),
        "roles": set(roles),
        "packs": site.board.packs() if "pack_owner" in roles else (),
        # A routing note is accepted without a change of the asset, so the route is not cached.
        "route": noted_route(site.workspace, asset, environment),
        "acts": LIMITS,
        "pause_reasons": get_args(PauseReason),
    }


def build_asset_context(workspace: Workspace, asset: str, environment: str) -> dict[str, object]:
    """Return the template context of an asset page."""
    tag = asset_etag(workspace, asset)
    card = asset_card(workspace, asset, environment)
    history = asset_history(workspace, asset, limit=HISTORY_SHOWN)
    shown = [line for at, line in enumerate(card.versions) if at < SHOWN or line.stage in LIVE]
    going = [line for line in shown if line.stage not in ("retired", "superseded")]
    sealed = sealed_results(workspace, asset)
    offered = {
        line.version: offered_results(sealed, line.digest, line.result_ids) for line in going
    }
    canary = _find_canary(workspace, asset, environment)
    fallen = [line for line in card.versions if line.stage in ("demoted", "rolled_back")]
    return {
        "title": asset,
        "card": card,
        "tag": tag,
        "history": history,
        "picture": draw_timeline(history.segments, history.at),
        "canary": canary,
        "ramp": None if canary is None else build_ramp(canary.stage, is_watch=canary.is_watch),
        "offered": offered,
        "fallen": fallen[0] if fallen and card.enabled != fallen[0].version else None,
        "why": {
            line.version: explain_stage(
                workspace, VersionRef(asset=asset, version=line.version), environment
            )
            for line in going
            if line.stage in LIVE
        },
        "shown": shown,
        "others": [line for line in card.versions if line not in shown],
        "targets": {
            line.version: _list_target_stages(line.stage, card.enabled, card.kind)
            for line in card.versions
        },
        "urgent": {line.version for line in card.versions if _may_skip(line.stage, card.kind)},
        "lane_note": LANE_NOTE if card.kind == LANE else None,
        "gates": waivable_gates(read_state(workspace, asset).policy),
    }


def _list_target_stages(stage: str, enabled: str | None, kind: str) -> list[str]:
    """Return the stages that a person can promote a version to from its stage."""
    return [
        "canary" if row.after == "canary_1" else row.after
        for row in moves_of(LANE if kind == LANE else None)
        if row.before == stage and row.cause == "promote" and not (row.only_if and enabled)
    ]


def _may_skip(stage: str, kind: str) -> bool:
    """Whether break-glass access can enable a version from its stage."""
    rows = moves_of(LANE if kind == LANE else None)
    return any(row.before == stage and row.cause == "break_glass" for row in rows)


def _find_canary(workspace: Workspace, asset: str, environment: str) -> CanaryState | None:
    try:
        return canary_state(workspace, asset, environment)
    except UnknownNameError:
        return None


@doors.view("/assets/{asset}/history", History)
def get_history(visit: Visit, asset: str) -> History:
    """List the events of an asset, newest first."""
    return asset_history(visit.workspace, asset)


@get_history.page("/assets/{asset}/history", "history.html")
def history_page(visit: Visit, asset: str) -> Context:
    """Show what was live, when, and why."""
    history = visit.site.kept("history", asset, lambda: asset_history(visit.workspace, asset))
    return {**history_context(history), "asset_of_page": asset}


@doors.view("/assets/{asset}/versions/{version}", Why)
def get_why(visit: Visit, asset: str, version: str, environment: Environment = PRODUCTION) -> Why:
    """Explain why a version is in its stage."""
    return explain_stage(visit.workspace, parse_version_ref(f"{asset}@{version}"), environment)


@get_why.page("/assets/{asset}/versions/{version}", "why.html")
def why_page(visit: Visit, document: Why, asset: str, version: str, environment: str) -> Context:
    """Show why a version is in its stage, and the commands for what may follow."""
    ref = parse_version_ref(f"{asset}@{version}")
    moves = explained_moves(visit.workspace, ref, environment, document.next_moves)
    context = why_context(msgspec.structs.replace(document, next_moves=moves))
    return {**context, "asset_of_page": asset}


@doors.view("/assets/{asset}/route", NotedRoute)
def get_route(visit: Visit, asset: str, environment: Environment = PRODUCTION) -> Tagged:
    """Return what a serving system should route to now."""
    tag = asset_etag(visit.workspace, asset)
    if accepted := accepted_notes(visit.workspace, asset).notes:
        # A routing note is accepted without a change of the asset, so the ETag would be stale.
        tag = f'{tag[:-1]}-{len(accepted)}"'
    return Tagged(tag, lambda: noted_route(visit.workspace, asset, environment))


@doors.view("/assets/{asset}/canary", CanaryState)
def get_canary(visit: Visit, asset: str, environment: Environment = PRODUCTION) -> CanaryState:
    """Return the state of a running canary or watch."""
    return canary_state(visit.workspace, asset, environment)
