"""Alert owners to episodes, and to series without new points."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

from gatemark.core.durations import seconds_of
from gatemark.release.alerts.alert import Alert, AlertPlan, alert_id
from gatemark.release.alerts.send import queue_alert
from gatemark.release.drift.act import ActionRecord, Acts
from gatemark.release.drift.assets import LiveVersion, find_live_version
from gatemark.release.drift.episode_check import NOTIFIED
from gatemark.release.drift.judging.policy import ANY_METRIC, DriftPolicy, Watch
from gatemark.release.drift.open_stores import episodes_of
from gatemark.release.drift.signal import DriftSignal, Episode, split_metric
from gatemark.release.drift.stores.episodes import EpisodeAction
from gatemark.workspace import Workspace

MOST_MISSING: Final = 2
DEFAULT_LENGTH: Final = "1d"
"""The assumed window length of a metric without any points."""


def queue_alerts(
    workspace: Workspace,
    plan: AlertPlan,
    policy: DriftPolicy,
    found: Acts,
    *,
    episodes: Sequence[Episode],
    signals: Sequence[DriftSignal],
    now: datetime,
) -> None:
    """Store an alert for each level of an episode and for each series without new points.

    The policy applies to the stage that the version had before this tick acted on it.
    """
    if not plan.sinks:
        return
    known = episodes_of(workspace).acts([episode.id for episode in episodes]) if episodes else []
    for episode in episodes:
        stage = find_live_version(workspace, episode.asset, episode.version).stage
        if episode.id in found.to_tell or "alert" in policy.acts_for(stage, episode.level):
            queue_alert(workspace, plan, _make_episode_alert(episode, (*known, *found.done), now))
    watches = {(watch.metric, watch.detector): watch for watch in policy.watches}
    for signal in signals:
        if signal.level != "STALE":
            continue
        metric = split_metric(signal.metric)[0]
        watch = watches.get((metric, signal.detector)) or watches.get((ANY_METRIC, signal.detector))
        limit = MOST_MISSING if watch is None else watch.max_missing
        gap = int(max(signal.extras.values(), default=0))
        if signal.window is not None and gap < limit:
            continue
        stand = find_live_version(workspace, signal.asset, signal.version)
        if stand.is_registered and stand.stage is None:
            # Nothing serves, so no points are expected.
            continue
        if signal.window is None:
            gap = _count_missing_windows(stand, watch, now)
        if gap >= limit and "alert" in policy.acts_for(stand.stage, "STALE"):
            queue_alert(workspace, plan, _make_stale_alert(signal, gap, now))


def _count_missing_windows(stand: LiveVersion, watch: Watch | None, now: datetime) -> int:
    """Return how many windows have passed without a point since the version began to serve."""
    if stand.since is None:
        return 0
    length = seconds_of((watch.window if watch else None) or DEFAULT_LENGTH)
    return int((now - stand.since).total_seconds()) // length


def _make_episode_alert(
    episode: Episode, done: Iterable[ActionRecord | EpisodeAction], now: datetime
) -> Alert:
    # If a probe crashed before its alerts, its acts are only in the table; others are in both.
    outcomes = dict.fromkeys(
        one.outcome
        for one in done
        if (one.episode, one.level) == (episode.id, episode.level) and one.act != NOTIFIED
    )
    return Alert(
        id=alert_id("drift", episode.id, episode.level),
        kind="drift",
        level=episode.level,
        subject=f"{episode.asset} {episode.metric}",
        reason=episode.signal.reason,
        at=now,
        asset=episode.asset,
        metric=episode.metric,
        episode=episode.id,
        actions=tuple(outcomes),
    )


def _make_stale_alert(signal: DriftSignal, gap: int, now: datetime) -> Alert:
    # The id uses the last window with points, so a long silence raises one alert.
    last = "never"
    if signal.window is not None and "missing_windows" in signal.extras:
        length = signal.window.end - signal.window.start
        last = (signal.window.end - gap * length).isoformat()
    return Alert(
        id=alert_id("stale", signal.asset, signal.metric, last),
        kind="stale",
        level="STALE",
        subject=f"{signal.asset} {signal.metric}",
        reason=signal.reason,
        at=now,
        asset=signal.asset,
        metric=signal.metric,
    )
