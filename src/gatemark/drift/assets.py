"""The lifecycle of watched assets: kind, live version and stage, and fresh starts."""

from __future__ import annotations

import logging
from collections.abc import Container, Iterable, Iterator
from datetime import datetime
from typing import Final

import msgspec
import numpy as np

from gatemark.core.errors import IntegrityError, UsageError
from gatemark.core.result import AssetKind, Result
from gatemark.core.stored import convert_stored
from gatemark.drift.judging.cohort import Cohort
from gatemark.drift.judging.parts import Series
from gatemark.drift.judging.policy import WatchedStage
from gatemark.drift.judging.tick import BaselineReset
from gatemark.drift.open_stores import memories_of
from gatemark.drift.sealed_scores import fixed_scores
from gatemark.drift.signal import Episode, Window, split_metric
from gatemark.ledger.event_kinds import ASSET_REGISTERED, TRANSITION
from gatemark.lifecycle.citations import Citations
from gatemark.lifecycle.events.moves import VersionMoved
from gatemark.lifecycle.model.nouns import PRODUCTION
from gatemark.lifecycle.model.stages import CANARY
from gatemark.lifecycle.model.state import Asset, EnvironmentState, Track
from gatemark.lifecycle.state_cache import read_state, recorded
from gatemark.workspace import Workspace

logger = logging.getLogger(__name__)

CLOSED_BY: Final = "closed by "
"""How the reason of an episode begins that a person closed."""
_STARTS: Final = frozenset({"promote", "rollback", "break_glass"})
_SERVED: Final = frozenset({"shadow", "enabled", *CANARY})
_GONE: Final = frozenset({"rolled_back", "superseded", "retired"})
_WATCHED: Final[dict[str, WatchedStage]] = {
    "enabled": "enabled",
    "shadow": "shadow",
    **dict.fromkeys(CANARY, "canary"),
}


class _Registered(msgspec.Struct):
    """What is read of an ``asset_registered`` event."""

    kind: AssetKind | None = None
    version: str | None = None


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


def of_unknown_versions(
    workspace: Workspace, registered: Container[str], series: Iterable[Series]
) -> tuple[Series, ...]:
    """Return the series of registered assets whose points name a version that nobody added."""
    named = [
        (one, version)
        for one in series
        if one.asset in registered and (version := split_metric(one.metric)[1]) is not None
    ]
    if not named:
        return ()
    known = {
        (event.subject, convert_stored(payload, _Registered).version)
        for event, payload in workspace.events.events(kind=ASSET_REGISTERED)
        if payload is not None
    }
    return tuple(one for one, version in named if (one.asset, version) not in known)


def standing(workspace: Workspace, asset: str, version: str | None = None) -> LiveVersion:
    """Return the stage of a version, or of the one that serves when none is named."""
    known = read_state(workspace, asset).asset
    place = known.place(PRODUCTION)
    name = version or serving(place)
    track = None if name is None else place.tracks.get(name)
    stage = None if track is None else _WATCHED.get(track.stage)
    if track is None or stage is None:
        return LiveVersion(None, None, is_registered=bool(known.versions))
    return LiveVersion(stage, name, track.since, is_registered=True)


def serving(place: EnvironmentState) -> str | None:
    """Return the enabled version; where there is none, the canary, or the latest shadow."""
    shadows = [track for track in place.tracks.values() if track.stage == "shadow"]
    last = max(shadows, key=lambda track: track.seq, default=None)
    return place.enabled or place.canary or (None if last is None else last.version)


class ServingHistory:
    """Which version of each registered asset served when, in production.

    Points that name no version are about the version that served their window. What served before
    the first version is not known; it counts as that version.
    """

    def __init__(self, workspace: Workspace, asset: str | None = None) -> None:
        self._workspace = workspace
        self._served: dict[str, list[tuple[float, str | None]]] = {}
        self._cited: dict[tuple[str, str], tuple[str, ...]] = {}
        self._scores: dict[tuple[str, str], dict[str, tuple[float, int]]] = {}
        assets: dict[str, Asset] = {}
        for event, payload in workspace.events.events(kind=TRANSITION, subject=asset):
            line = recorded(event, payload)
            if line is None or not isinstance(line.fact, VersionMoved):
                continue
            name = line.fact.asset
            known = assets.setdefault(name, Asset(name=name))
            line.fact.apply(known, line)
            if line.fact.result_ids:
                self._cited[name, line.fact.version] = line.fact.result_ids
            version = serving(known.place(PRODUCTION))
            served = self._served.setdefault(name, [])
            if (served[-1][1] if served else None) != version:
                served.append((event.at.timestamp(), version))

    def bound(self, series: Series) -> Series:
        """Return a series with the version that its windows are judged as."""
        named = split_metric(series.metric)[1]
        versions = [version for _, version in self._served.get(series.asset, ()) if version]
        latest = versions[-1] if versions else None
        return msgspec.structs.replace(series, version=named or latest)

    def sealed_score(self, series: Series) -> tuple[float, int] | None:
        """Return the score of a series' metric in the results that its version cites.

        The second number is how many items the score rests on. None when no result has the metric.
        """
        key = (series.asset, series.version or "")
        if key not in self._cited:
            return None
        if key not in self._scores:
            self._scores[key] = fixed_scores(self._results(self._cited[key]))
        return self._scores[key].get(series.watched_metric)

    def _results(self, names: Iterable[str]) -> Iterator[Result]:
        for name in names:
            try:
                yield self._workspace.results.get(name)
            except (UsageError, IntegrityError) as error:
                # One damaged result must not stop the probe of all assets.
                logger.warning("no comparison with a sealed score: %s", error)

    def version_at(self, asset: str, window: Window) -> str | None:
        """Return the version that served at the end of a window; None when none is known."""
        served = self._served.get(asset, [])
        before = [version for at, version in served if at < window.end.timestamp()]
        return before[-1] if before else (served[0][1] if served else None)

    def leave_out(self, cohort: Cohort) -> None:
        """Leave out the windows that the version of a series did not serve from end to end."""
        for row, series in enumerate(cohort.series):
            served = self._served.get(series.asset, ())
            if len(served) < 2 or split_metric(series.metric)[1] is not None:
                continue
            moments = np.asarray([at for at, _ in served])
            others = np.asarray([version != series.version for _, version in served])
            starts = cohort.starts_of(row)
            first = np.maximum(np.searchsorted(moments, starts, side="right") - 1, 0)
            ends = starts + cohort.window_s[row]
            last = np.maximum(np.searchsorted(moments, ends, side="left") - 1, 0)
            counted = np.cumsum(others)
            cohort.leave_out(row, (counted[last] - counted[first] + others[first]) > 0)


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


def rearming(
    workspace: Workspace, history: ServingHistory, episode: Episode
) -> BaselineReset | None:
    """Return when an episode was over because its version is gone or was examined again.

    Another version serves now, or the same one came back on a result from after the episode
    showed. A canary beside the live version ends nothing of it.
    """
    place = read_state(workspace, episode.asset).asset.place(PRODUCTION)
    named = split_metric(episode.metric)[1]
    version = episode.version or named or history.version_at(episode.asset, episode.opened)
    live = named or serving(place)
    if version is not None and live is not None and live != version:
        return BaselineReset(*_takeover(place.tracks[live]), is_takeover=True)
    track = None if version is None else place.tracks.get(version)
    if track is None:
        return None
    if track.stage in _GONE and track.since is not None:
        # Only of points that name the version: nobody measures it any more.
        return BaselineReset(track.since, f"{version} is {track.stage.replace('_', ' ')}")
    if named and track.stage == "demoted" and place.enabled is not None:
        # As without a name: what another version is does not depend on this one any more.
        return BaselineReset(*_takeover(place.tracks[place.enabled]), is_takeover=True)
    moment = _start(track, place)
    if moment is None or not _is_fresh(workspace, episode, track):
        return None
    return BaselineReset(moment, _words(track))


def breached_before(workspace: Workspace, history: ServingHistory, asset: str, version: str) -> str:
    """Return why a version is no fallback: it breached, and nothing it cites was answered since.

    Empty when it may take over. What a person closed, citing a new result, counts no more.
    """
    track = read_state(workspace, asset).asset.place(PRODUCTION).tracks[version]
    for episode in reversed(memories_of(workspace).episodes(asset)):
        about = episode.version or history.version_at(asset, episode.opened)
        is_settled = (episode.closed_because or "").startswith(CLOSED_BY)
        if about != version or episode.level != "BREACH" or is_settled:
            continue
        if not _is_fresh(workspace, episode, track):
            moment = (episode.breached or episode.opened).end
            return f"{version} breached itself on {moment:%Y-%m-%d} ({episode.metric})"
    return ""


def _takeover(track: Track) -> tuple[datetime, str]:
    if track.since is None:
        raise IntegrityError(f"{track.version} serves, but never moved")
    return track.since, _words(track)


def _start(track: Track, place: EnvironmentState) -> datetime | None:
    """When a version began to serve; a larger share of the traffic is not a new start."""
    if track.stage not in _SERVED:
        return None
    if track.cause == "ramp":
        rollout = place.rollout
        is_its = rollout is not None and rollout.version == track.version
        return rollout.started_at if rollout is not None and is_its else None
    return track.since if track.cause in _STARTS else None


def _is_fresh(workspace: Workspace, episode: Episode, track: Track) -> bool:
    """Whether a version cites a result whose answers were given after its episode showed."""
    showed = (episode.breached or episode.opened).end
    known = Citations(workspace, episode.asset, must_go_on=True)
    answered = (known[name].answered_at for name in track.result_ids if name in known)
    return any(moment is not None and moment >= showed for moment in answered)


def _words(track: Track) -> str:
    cited = f", citing {track.result_ids[0][:19]}" if track.result_ids else ""
    return f"{track.version} entered {track.stage}{cited}"
