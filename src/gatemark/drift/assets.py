"""The lifecycle of watched assets: kind, live version and stage, and fresh starts."""

from __future__ import annotations

from datetime import datetime
from typing import Final

import msgspec

from gatemark.core.result import AssetKind
from gatemark.core.stored import convert_stored
from gatemark.drift.judging.policy import WatchedStage
from gatemark.drift.judging.tick import BaselineReset
from gatemark.drift.open_stores import memories_of
from gatemark.drift.signal import Episode
from gatemark.ledger.event_kinds import ASSET_REGISTERED, TRANSITION
from gatemark.lifecycle.citations import Citations
from gatemark.lifecycle.events.moves import VersionMoved
from gatemark.lifecycle.model.nouns import PRODUCTION
from gatemark.lifecycle.model.stages import CANARY
from gatemark.lifecycle.model.state import EnvironmentState, Track
from gatemark.lifecycle.state_cache import read_state, recorded
from gatemark.workspace import Workspace

_STARTS: Final = frozenset({"promote", "rollback", "break_glass"})
_SERVED: Final = frozenset({"shadow", "enabled", *CANARY})


class _Registered(msgspec.Struct):
    """What is read of an ``asset_registered`` event."""

    kind: AssetKind | None = None


class LiveVersion(msgspec.Struct, frozen=True):
    """Where an asset stands: the stage that drift acts on, the version in it, and since when."""

    stage: WatchedStage | None
    version: str | None
    since: datetime | None = None
    is_registered: bool = False


def registered_kinds(workspace: Workspace, asset: str | None = None) -> dict[str, AssetKind | None]:
    """The kind of every registered asset, or of one."""
    kinds: dict[str, AssetKind | None] = {}
    for event, payload in workspace.events.events(kind=ASSET_REGISTERED, subject=asset):
        if event.subject and payload is not None:
            kinds.setdefault(event.subject, convert_stored(payload, _Registered).kind)
    return kinds


def standing(workspace: Workspace, asset: str) -> LiveVersion:
    """The stage of an asset: of its canary if one runs, else of what serves, else of its shadow."""
    known = read_state(workspace, asset).asset
    place = known.place(PRODUCTION)
    stage: WatchedStage
    if place.canary is not None:
        stage, version = "canary", place.canary
    elif place.enabled is not None:
        stage, version = "enabled", place.enabled
    else:
        shadows = [track for track in place.tracks.values() if track.stage == "shadow"]
        if not shadows:
            return LiveVersion(None, None, is_registered=bool(known.versions))
        stage, version = "shadow", max(shadows, key=lambda track: track.seq).version
    return LiveVersion(stage, version, place.tracks[version].since, is_registered=True)


class Served:
    """Which candidate of each asset served when, by digest; read once."""

    def __init__(self, workspace: Workspace) -> None:
        self._moves: dict[str, list[tuple[datetime, VersionMoved]]] = {}
        self._registered = registered_kinds(workspace)
        for event, payload in workspace.events.events(kind=TRANSITION):
            line = recorded(event, payload)
            if line is None or not isinstance(line.fact, VersionMoved):
                continue
            if line.fact.environment == PRODUCTION:
                self._moves.setdefault(line.fact.asset, []).append((event.at, line.fact))

    def is_about(self, asset: str, candidate: str | None, moment: datetime) -> bool:
        """Whether a candidate is what served at a moment; of unregistered assets, anything may be.

        Where nothing was enabled, a canary or shadow is what there was to watch.
        """
        if asset not in self._registered:
            return True
        stages = {}
        for at, moved in self._moves.get(asset, ()):
            if at <= moment:
                stages[moved.candidate_digest] = moved.after
        for wanted in ({"enabled"}, {"shadow", *CANARY}):
            serving = {digest for digest, stage in stages.items() if stage in wanted}
            if serving:
                return candidate in serving
        return False


def latest_stage(workspace: Workspace, asset: str) -> tuple[str | None, str | None]:
    """Version and stage that drift acts on, or of the version that moved last."""
    found = standing(workspace, asset)
    tracks = read_state(workspace, asset).asset.place(PRODUCTION).tracks
    if found.version is None and tracks:
        last = max(tracks.values(), key=lambda track: track.seq)
        return last.version, last.stage.replace("_", " ")
    return found.version, found.stage


def rearming(workspace: Workspace, episode: Episode) -> BaselineReset | None:
    """Return when the asset of an episode last started over, as far as it concerns the episode.

    Another version took over, or the one that was moved for it came back on a result from after
    it showed. A version that only entered shadow beside a live one does not count.
    """
    place = read_state(workspace, episode.asset).asset.place(PRODUCTION)
    stands = standing(workspace, episode.asset).version
    moved = _moved_by(workspace, episode)
    starts = [
        (moment, track.seq, track)
        for track in place.tracks.values()
        if (moment := _start(track, place)) is not None
        and (track.stage != "shadow" or track.version == stands)
        and (track.version not in moved or _is_fresh(workspace, episode, track))
    ]
    left = [
        (track.since, track.seq, track)
        for track in place.tracks.values()
        if track.since is not None and track.stage == "rolled_back"
    ]
    if starts:
        moment, _, track = max(starts, key=lambda start: start[:2])
        if not left or max(left, key=lambda one: one[:2])[0] <= moment:
            before = [name for name in place.lineage if name != track.version]
            return BaselineReset(moment, _words(track), is_takeover=bool(before))
    if left and place.enabled is not None:
        moment, _, track = max(left, key=lambda one: one[:2])
        return BaselineReset(moment, f"canary {track.version} was rolled back", keeps_baseline=True)
    return None


def _start(track: Track, place: EnvironmentState) -> datetime | None:
    """When a version began to serve; a larger share of the traffic is not a new start."""
    if track.stage not in _SERVED:
        return None
    if track.cause == "ramp":
        rollout = place.rollout
        is_its = rollout is not None and rollout.version == track.version
        return rollout.started_at if rollout is not None and is_its else None
    return track.since if track.cause in _STARTS else None


def _moved_by(workspace: Workspace, episode: Episode) -> frozenset[str]:
    """The versions that lost their stage for an episode."""
    numbers = {seq for one in memories_of(workspace).acts([episode.id]) for seq in one.events}
    moves = workspace.events.events(kind=TRANSITION, subject=episode.asset)
    return frozenset(
        str(payload["version"])
        for event, payload in moves
        if event.seq in numbers and payload is not None and payload["signals"]
    )


def _is_fresh(workspace: Workspace, episode: Episode, track: Track) -> bool:
    """Whether a version cites a result from after its episode showed."""
    showed = (episode.breached or episode.opened).end
    known = Citations(workspace, episode.asset, must_go_on=True)
    return any(known[name].sealed_at >= showed for name in track.result_ids if name in known)


def _words(track: Track) -> str:
    cited = f", citing {track.result_ids[0][:19]}" if track.result_ids else ""
    return f"{track.version} entered {track.stage}{cited}"
