"""One asset: the context of its page, its drift, and its required pack."""

from __future__ import annotations

from gatemark.accounts.identity import Identity
from gatemark.core.errors import UnknownNameError
from gatemark.drift.policy_file import choose_drift_policy
from gatemark.drift.view import drift_view
from gatemark.drift.views.views import DriftView
from gatemark.lifecycle.act import CommandResult
from gatemark.lifecycle.assets import set_required_pack
from gatemark.lifecycle.canary import CanaryState, canary_state
from gatemark.lifecycle.model.nouns import VersionRef
from gatemark.lifecycle.model.release_policy import waivable_gates
from gatemark.lifecycle.model.stages import LANE, LANE_NOTE, moves_of
from gatemark.lifecycle.state_cache import read_state
from gatemark.lifecycle.views.history import asset_history
from gatemark.lifecycle.views.timeline import build_ramp, draw_timeline
from gatemark.lifecycle.views.views import asset_card
from gatemark.lifecycle.views.why import explain_stage
from gatemark.web.areas.moves import locked
from gatemark.web.areas.overview import asset_etag, offered_results, sealed_results
from gatemark.web.site import Site
from gatemark.workspace import Workspace

HISTORY_SHOWN = 15
SHOWN = 8
"""Number of latest versions on the page; older ones are shown only if they serve."""
LIVE = ("shadow", "canary_1", "canary_5", "canary_25", "enabled")


def asset_drift(site: Site, asset: str) -> DriftView:
    """Return the drift of an asset under the server's policy."""
    policy = choose_drift_policy(site.settings.drift_policy)
    return drift_view(site.workspace, policy, asset, site.workspace.clock())


def require_server_pack(
    site: Site, identity: Identity, asset: str, pack: str, *, note: str, tag: str | None
) -> CommandResult:
    """Make one of the server's packs the required pack of an asset, under its lock."""
    path = site.board.path_of(pack)

    def do(_: int) -> CommandResult:
        return set_required_pack(
            site.workspace, asset, path, actor=identity.person, note=note, file=path
        )

    return locked(site.workspace, asset, tag, do)


def asset_context(workspace: Workspace, asset: str, environment: str) -> dict[str, object]:
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
