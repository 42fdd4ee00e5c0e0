"""An asset at a glance: its versions, where they stand, and what is live."""

from __future__ import annotations

from collections.abc import Sequence

from gatemark.core.errors import UnknownNameError
from gatemark.lifecycle.model.nouns import PRODUCTION
from gatemark.lifecycle.model.state import LifecycleState
from gatemark.lifecycle.state_cache import asset_state_cache, read_state
from gatemark.lifecycle.views.views import AssetCard, AssetRow, VersionLine
from gatemark.workspace import Workspace


def asset_card(workspace: Workspace, asset: str, environment: str = PRODUCTION) -> AssetCard:
    """The versions of one asset."""
    workspace.existing_store()
    with asset_state_cache(workspace).lock:
        return _card(read_state(workspace, asset), asset, environment)


def _card(state: LifecycleState, asset: str, environment: str) -> AssetCard:
    if not state.asset.versions:
        raise UnknownNameError(f"there is no asset {asset}")
    place = state.asset.place(environment)
    exam = state.asset.exam
    return AssetCard(
        asset=asset,
        kind=state.asset.kind or "",
        risk=state.asset.risk,
        environment=environment,
        revision=state.asset.revision,
        full_pack=None if exam is None else f"{exam.pack} v{exam.version}",
        full_pack_editor=state.asset.exam_editor,
        enabled=place.enabled,
        canary=place.canary,
        versions=tuple(
            _line(state, environment, name) for name in reversed(list(state.asset.versions))
        ),
    )


def _line(state: LifecycleState, environment: str, name: str) -> VersionLine:
    version = state.asset.versions[name]
    track = state.asset.track(environment, name)
    return VersionLine(
        version=name,
        stage=track.stage,
        since=track.since or version.added_at,
        author=version.author,
        parent=version.parent,
        digest=version.digest,
        pins=version.pins,
        paused=None if track.paused is None else track.paused.reason,
        has_broken_glass=track.glass is not None,
        result_ids=track.result_ids,
    )


def asset_rows(workspace: Workspace, names: Sequence[str]) -> tuple[AssetRow, ...]:
    """One row per asset and environment it is in."""
    with asset_state_cache(workspace).lock:
        return tuple(row for name in names for row in _rows(read_state(workspace, name), name))


def _rows(state: LifecycleState, name: str) -> list[AssetRow]:
    return [
        AssetRow(
            asset=name,
            kind=state.asset.kind or "",
            risk=state.asset.risk,
            environment=environment,
            enabled=state.asset.place(environment).enabled,
            canary=state.asset.place(environment).canary,
            version_count=len(state.asset.versions),
        )
        for environment in sorted(state.asset.places) or [PRODUCTION]
    ]
