"""Lifecycle facts that drift needs: kind, live version, stage, and when baselines restart."""

from __future__ import annotations

import logging
from collections.abc import Container, Iterable, Iterator
from datetime import datetime
from typing import Final, NamedTuple

import msgspec
import numpy as np

from gatemark.core.errors import GatemarkError, IntegrityError
from gatemark.core.result import AssetKind, Result
from gatemark.core.stored import convert_stored
from gatemark.ledger.event import Event
from gatemark.ledger.event_kinds import ASSET_REGISTERED, TRANSITION
from gatemark.release.drift.judging.cohort import Cohort
from gatemark.release.drift.judging.parts import Series
from gatemark.release.drift.judging.policy import WatchedStage
from gatemark.release.drift.judging.tick import BaselineReset
from gatemark.release.drift.open_stores import episodes_of
from gatemark.release.drift.sealed_scores import select_fixed_scores
from gatemark.release.drift.signal import Episode, Window, split_metric
from gatemark.release.lifecycle.citations import Citations
from gatemark.release.lifecycle.events.moves import VersionMoved
from gatemark.release.lifecycle.model.nouns import PRODUCTION
from gatemark.release.lifecycle.model.stages import CANARY
from gatemark.release.lifecycle.model.state import (
    Asset,
    EnvironmentState,
    GovernanceState,
    LifecycleState,
    Track,
)
from gatemark.release.lifecycle.state_cache import apply_event, read_state
from gatemark.workspace import Workspace

logger = logging.getLogger(__name__)

CLOSED_BY: Final = "closed by "
"""Prefix of ``closed_because`` of episodes that a person closed."""
_STARTS: Final = frozenset({"promote", "rollback", "break_glass"})
_SERVED: Final = frozenset({"shadow", "enabled", *CANARY})
_GONE: Final = frozenset({"rolled_back", "superseded", "retired"})
_WATCHED: Final[dict[str, WatchedStage]] = {
    "enabled": "enabled",
    "shadow": "shadow",
    **dict.fromkeys(CANARY, "canary"),
}


class _Registered(msgspec.Struct):
    """The fields of an ``asset_registered`` event that drift reads."""

    kind: AssetKind | None = None
    version: str | None = None


class LiveVersion(msgspec.Struct, frozen=True):
    """The version of an asset that drift acts on, its stage, and when it entered it."""

    stage: WatchedStage | None
    version: str | None
    since: datetime | None = None
    is_registered: bool = False


def read_registered_kinds(
    workspace: Workspace, asset: str | None = None
) -> dict[str, AssetKind | None]:
    """Return the kind of every registered asset, or of one."""
    kinds: dict[str, AssetKind | None] = {}
    for event, registered in _read_registered(workspace, asset):
        if event.subject:
            kinds.setdefault(event.subject, registered.kind)
    return kinds


def _read_registered(
    workspace: Workspace, asset: str | None = None
) -> Iterator[tuple[Event, _Registered]]:
    """Yield what each registration says; one that cannot be read stops no other."""
    for event, payload in workspace.events.events(kind=ASSET_REGISTERED, subject=asset):
        try:
            yield event, convert_stored(payload or {}, _Registered)
        except msgspec.ValidationError as error:
            logger.warning("event %d (%s) cannot be read: %s", event.seq, event.kind, error)
            yield event, _Registered()


class NamedVersions(NamedTuple):
    """The series whose points name a version that a registered asset did not have.

    ``unknown`` are those whose version is not there yet, ``late`` those whose version was added
    after an event: until then, they were not judged.
    """

    unknown: tuple[Series, ...]
    late: tuple[Series, ...]


def find_named_versions(
    workspace: Workspace, registered: Container[str], series: Iterable[Series], event: int
) -> NamedVersions:
    """Return the series of versions that are unknown, or were at an event."""
    named = [
        (one, version)
        for one in series
        if one.asset in registered and (version := split_metric(one.metric)[1]) is not None
    ]
    if not named:
        return NamedVersions((), ())
    added: dict[tuple[str | None, str | None], int] = {}
    assets: dict[str | None, int] = {}
    for found, payload in _read_registered(workspace):
        assets.setdefault(found.subject, found.seq)
        added.setdefault((found.subject, payload.version), found.seq)
    return NamedVersions(
        tuple(one for one, version in named if (one.asset, version) not in added),
        tuple(
            one
            for one, version in named
            if assets[one.asset] <= event < added.get((one.asset, version), 0)
        ),
    )


def find_live_version(workspace: Workspace, asset: str, version: str | None = None) -> LiveVersion:
    """Return the stage of a version, or of the serving version if none is named."""
    known = read_state(workspace, asset).asset
    place = known.place(PRODUCTION)
    name = version or find_serving_version(place)
    track = None if name is None else place.tracks.get(name)
    stage = None if track is None else _WATCHED.get(track.stage)
    if track is None or stage is None:
        return LiveVersion(None, None, is_registered=bool(known.versions))
    return LiveVersion(stage, name, track.since, is_registered=True)


def find_serving_version(place: EnvironmentState) -> str | None:
    """Return the enabled version, else the canary, else the latest shadow version."""
    shadows = [track for track in place.tracks.values() if track.stage == "shadow"]
    last = max(shadows, key=lambda track: track.seq, default=None)
    return place.enabled or place.canary or (None if last is None else last.version)


def _replay_moves(
    workspace: Workspace, asset: str | None = None
) -> Iterator[tuple[Event, VersionMoved, Asset]]:
    """Yield each move of a version that counts, with the state of its asset after it.

    What counts is what counts for the lifecycle, so that drift means the version that serves.
    """
    states: dict[str, LifecycleState] = {}
    for kind in (ASSET_REGISTERED, TRANSITION):
        for event, payload in workspace.events.events(kind=kind, subject=asset):
            name = event.subject or ""
            state = states.setdefault(name, LifecycleState(GovernanceState(), Asset(name=name)))
            line = apply_event(state, event, payload)
            if line is None or not isinstance(line.fact, VersionMoved):
                continue
            if state.asset.track(line.fact.environment, line.fact.version).seq == line.seq:
                yield event, line.fact, state.asset


class ServingHistory:
    """The version of each registered asset that served in production, over time.

    Points that do not name a version belong to the version that served their window. The time
    before the first version counts as that version, since nothing is known about it.
    """

    def __init__(self, workspace: Workspace, asset: str | None = None) -> None:
        self._workspace = workspace
        self._served: dict[str, list[tuple[float, str | None]]] = {}
        self._cited: dict[tuple[str, str], tuple[str, ...]] = {}
        self._scores: dict[tuple[str, str], dict[str, tuple[float, int]]] = {}
        for event, moved, known in _replay_moves(workspace, asset):
            name = known.name
            if moved.result_ids:
                self._cited[name, moved.version] = moved.result_ids
            version = find_serving_version(known.place(PRODUCTION))
            served = self._served.setdefault(name, [])
            if (served[-1][1] if served else None) != version:
                served.append((event.at.timestamp(), version))

    def bound(self, series: Series) -> Series:
        """Return the series with the version that its windows are attributed to."""
        named = split_metric(series.metric)[1]
        versions = [version for _, version in self._served.get(series.asset, ()) if version]
        version = named or (versions[-1] if versions else None)
        if version == series.version:
            return series
        return msgspec.structs.replace(series, version=version)

    def sealed_score(self, series: Series) -> tuple[float, int] | None:
        """Return score and item count of the series' metric in the results that its version cites.

        Return None if no result has the metric.
        """
        key = (series.asset, series.version or "")
        if key not in self._cited:
            return None
        if key not in self._scores:
            self._scores[key] = select_fixed_scores(self._load_results(self._cited[key]))
        return self._scores[key].get(series.watched_metric)

    def _load_results(self, names: Iterable[str]) -> Iterator[Result]:
        for name in names:
            try:
                yield self._workspace.citable_result(name)
            except GatemarkError as error:
                # One damaged result must not stop the probe of the other assets.
                logger.warning("no comparison with a sealed score: %s", error)

    def version_at(self, asset: str, window: Window) -> str | None:
        """Return the version that served at the end of a window, or None if unknown."""
        served = self._served.get(asset, [])
        before = [version for at, version in served if at < window.end.timestamp()]
        return before[-1] if before else (served[0][1] if served else None)

    def leave_out(self, cohort: Cohort) -> None:
        """Exclude the windows that the version of a series did not serve from start to end."""
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
    """The candidates of each asset that served over time, by digest; the ledger is read once."""

    def __init__(self, workspace: Workspace) -> None:
        self._moves: dict[str, list[tuple[datetime, VersionMoved]]] = {}
        self._registered = read_registered_kinds(workspace)
        for event, moved, known in _replay_moves(workspace):
            if moved.environment == PRODUCTION:
                self._moves.setdefault(known.name, []).append((event.at, moved))

    def is_about(self, asset: str, candidate: str | None, moment: datetime) -> bool:
        """Return whether a candidate served at a moment; always true for unregistered assets.

        If no version was enabled then, canary and shadow versions count as serving.
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


def find_latest_stage(workspace: Workspace, asset: str) -> tuple[str | None, str | None]:
    """Return version and stage that drift acts on, else those of the version that moved last."""
    found = find_live_version(workspace, asset)
    tracks = read_state(workspace, asset).asset.place(PRODUCTION).tracks
    if found.version is None and tracks:
        last = max(tracks.values(), key=lambda track: track.seq)
        return last.version, last.stage.replace("_", " ")
    return found.version, found.stage


def find_baseline_reset(
    workspace: Workspace, history: ServingHistory, episode: Episode
) -> BaselineReset | None:
    """Return when and why an episode ended because of what happened to its version.

    It ends when another version serves, when its version is gone, or when its version returned on a
    result from after the episode began. A canary alongside the live version does not end it.
    """
    place = read_state(workspace, episode.asset).asset.place(PRODUCTION)
    named = split_metric(episode.metric)[1]
    version = episode.version or named or history.version_at(episode.asset, episode.opened)
    live = named or find_serving_version(place)
    if version is not None and live is not None and live != version:
        return BaselineReset(*_describe_takeover(place.tracks[live]), is_takeover=True)
    track = None if version is None else place.tracks.get(version)
    if track is None:
        return None
    if track.stage in _GONE and track.since is not None:
        # Reached only by points that name the version; nothing measures it any more.
        return BaselineReset(track.since, f"{version} is {track.stage.replace('_', ' ')}")
    if named and track.stage == "demoted" and place.enabled is not None:
        # As for points without a version: the enabled version has taken over.
        return BaselineReset(*_describe_takeover(place.tracks[place.enabled]), is_takeover=True)
    moment = _start(track, place)
    if moment is None or not _is_fresh(workspace, episode, track):
        return None
    return BaselineReset(moment, _describe_track(track))


def explain_earlier_breach(
    workspace: Workspace, history: ServingHistory, asset: str, version: str
) -> str:
    """Return why a version cannot be the fallback, or an empty string if it can.

    It cannot if it breached and cites no result with answers from after that. Breaches that a
    person closed with a new result do not count.
    """
    track = read_state(workspace, asset).asset.place(PRODUCTION).tracks[version]
    for episode in reversed(episodes_of(workspace).episodes(asset)):
        about = episode.version or history.version_at(asset, episode.opened)
        is_settled = (episode.closed_because or "").startswith(CLOSED_BY)
        if about != version or episode.level != "BREACH" or is_settled:
            continue
        if not _is_fresh(workspace, episode, track):
            moment = (episode.breached or episode.opened).end
            return f"{version} breached itself on {moment:%Y-%m-%d} ({episode.metric})"
    return ""


def _describe_takeover(track: Track) -> tuple[datetime, str]:
    if track.since is None:
        raise IntegrityError(f"{track.version} serves, but never moved")
    return track.since, _describe_track(track)


def _start(track: Track, place: EnvironmentState) -> datetime | None:
    """Return when a version began to serve; a larger traffic share is not a new start."""
    if track.stage not in _SERVED:
        return None
    if track.cause == "ramp":
        rollout = place.rollout
        is_its = rollout is not None and rollout.version == track.version
        return rollout.started_at if rollout is not None and is_its else None
    return track.since if track.cause in _STARTS else None


def _is_fresh(workspace: Workspace, episode: Episode, track: Track) -> bool:
    """Return whether the version cites a result with answers from after the episode began."""
    showed = (episode.breached or episode.opened).end
    known = Citations(workspace, episode.asset, must_go_on=True)
    answered = (known[name].answered_at for name in track.result_ids if name in known)
    return any(moment is not None and moment >= showed for moment in answered)


def _describe_track(track: Track) -> str:
    cited = f", citing {track.result_ids[0][:19]}" if track.result_ids else ""
    return f"{track.version} entered {track.stage}{cited}"
