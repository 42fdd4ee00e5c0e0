"""What pages and tables show about an asset; the field names are JSON keys."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

import msgspec

from gatemark.release.lifecycle.events.fact import Tone
from gatemark.release.lifecycle.model.nouns import PRODUCTION, GateFinding, Pins
from gatemark.release.lifecycle.model.state import LifecycleState
from gatemark.release.lifecycle.state_cache import (
    asset_state_cache,
    describe_undecided,
    read_state,
    unknown_asset,
)
from gatemark.workspace import Workspace

Worth = Literal["verified", "missing", "changed"]


class View(msgspec.Struct, frozen=True, kw_only=True):
    """Base class of the views."""


class HistoryLine(View, frozen=True, kw_only=True):
    """One event as text: what happened to which version, by whom and why."""

    seq: int
    at: datetime
    actor: str
    version: str | None
    environment: str | None
    what: str
    tone: Tone
    note: str = ""
    result_ids: tuple[str, ...] = ()
    approved_by: tuple[str, ...] = ()


class Live(View, frozen=True, kw_only=True):
    """What served in one environment at a given time, and why."""

    environment: str
    version: str | None
    since: datetime | None
    why: str
    result_ids: tuple[str, ...] = ()
    approved_by: tuple[str, ...] = ()
    canary: str | None = None
    canary_share: float | None = None
    shadow: tuple[str, ...] = ()


class StageSpan(View, frozen=True, kw_only=True):
    """A time span that a version spent in one stage."""

    environment: str
    version: str
    stage: str
    start: datetime
    end: datetime | None


class History(View, frozen=True, kw_only=True):
    """The history of an asset; ``at`` is the time of ``live``."""

    asset: str
    kind: str
    risk: str
    at: datetime
    live: tuple[Live, ...]
    segments: tuple[StageSpan, ...]
    lines: tuple[HistoryLine, ...]
    more_lines: int = 0


class Citation(View, frozen=True, kw_only=True):
    """A result behind a stage, and whether it is still valid.

    ``caveat`` is a note on a valid result.
    """

    id: str
    worth: Worth
    reason: str
    caveat: str | None = None
    verdict: str | None = None
    title: str | None = None
    pack: str | None = None
    actor: str | None = None
    sealed_at: datetime | None = None


class ShownVote(View, frozen=True, kw_only=True):
    """One vote on a step."""

    seq: int
    actor: str
    stage: str
    decision: str
    at: datetime
    expires_at: datetime
    was_used: bool
    is_expired: bool = False
    is_replaced: bool = False
    note: str = ""
    through: str = ""
    """How the vote was cast and authenticated; empty if the ledger does not say."""


class ClimbStep(View, frozen=True, kw_only=True):
    """One move on the way to the current stage."""

    seq: int
    at: datetime
    actor: str
    before: str
    after: str
    cause: str
    note: str
    result_ids: tuple[str, ...]
    approved_by: tuple[str, ...]
    window_count: int
    gates: tuple[GateFinding, ...]
    policy_digest: str
    through: str = ""


class Why(View, frozen=True, kw_only=True):
    """Why a version is in its stage."""

    asset: str
    version: str
    environment: str
    kind: str
    risk: str
    stage: str
    since: datetime | None
    author: str
    parent: str | None
    digest: str
    pins: Pins
    pins_digest: str
    paused: str | None
    break_glass: str | None
    steps: tuple[ClimbStep, ...]
    citations: tuple[Citation, ...]
    votes: tuple[ShownVote, ...]
    overrides: tuple[str, ...]
    problems: tuple[str, ...]
    next_moves: tuple[str, ...]
    is_one_person: bool = False
    """Whether the store is in one-person mode: nobody else had to approve."""
    undecided: tuple[str, ...] = ()
    """Events that this build cannot decide. What rests on them does not serve."""


class VersionLine(View, frozen=True, kw_only=True):
    """One version as a row of a list."""

    version: str
    stage: str
    since: datetime
    author: str
    parent: str | None
    digest: str
    pins: Pins
    paused: str | None
    has_break_glass: bool
    is_undecided: bool
    result_ids: tuple[str, ...]


class AssetCard(View, frozen=True, kw_only=True):
    """An asset and its versions, newest first."""

    asset: str
    kind: str
    risk: str
    environment: str
    revision: int
    required_pack: str | None
    required_pack_editor: str | None
    enabled: str | None
    canary: str | None
    versions: tuple[VersionLine, ...]
    is_one_person: bool = False
    undecided: tuple[str, ...] = ()
    """Events that this build cannot decide. What rests on them does not serve."""


class AssetRow(View, frozen=True, kw_only=True):
    """An asset in one environment as a row of a list."""

    asset: str
    kind: str
    risk: str
    environment: str
    enabled: str | None
    canary: str | None
    version_count: int


def asset_card(workspace: Workspace, asset: str, environment: str = PRODUCTION) -> AssetCard:
    """Return the versions of one asset."""
    workspace.existing_store()
    with asset_state_cache(workspace).lock:
        state = read_state(workspace, asset)
        if not state.asset.versions:
            raise unknown_asset(workspace, asset)
        return _make_card(state, asset, environment)


def _make_card(state: LifecycleState, asset: str, environment: str) -> AssetCard:
    place = state.asset.place(environment)
    pack = state.asset.required_pack
    return AssetCard(
        asset=asset,
        kind=state.asset.kind or "",
        risk=state.asset.risk,
        environment=environment,
        revision=state.asset.revision,
        required_pack=None if pack is None else f"{pack.pack} v{pack.version}",
        required_pack_editor=state.asset.required_pack_editor,
        enabled=place.enabled,
        canary=place.canary,
        versions=tuple(
            _make_line(state, environment, name) for name in reversed(list(state.asset.versions))
        ),
        is_one_person=state.governance.policy.one_person,
        undecided=describe_undecided(state),
    )


def _make_line(state: LifecycleState, environment: str, name: str) -> VersionLine:
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
        has_break_glass=track.break_glass is not None,
        is_undecided=state.asset.find_undecided(environment, name) is not None,
        result_ids=track.result_ids,
    )


def asset_rows(workspace: Workspace, names: Sequence[str]) -> tuple[AssetRow, ...]:
    """Return one row per asset and environment."""
    with asset_state_cache(workspace).lock:
        return tuple(row for name in names for row in _make_rows(read_state(workspace, name), name))


def _make_rows(state: LifecycleState, name: str) -> list[AssetRow]:
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
