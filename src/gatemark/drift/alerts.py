"""Alerts to owners: stored first, then delivered to the sinks that accept them."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

import msgspec

from gatemark.core.durations import seconds_of
from gatemark.core.errors import BadInputError
from gatemark.drift.act import ActionRecord, Acts
from gatemark.drift.alert import Alert, AlertPlan, alert_id
from gatemark.drift.assets import LiveVersion, find_live_version
from gatemark.drift.episode_check import NOTIFIED
from gatemark.drift.judging.policy import ANY_METRIC, DriftPolicy, Watch
from gatemark.drift.open_stores import alerts_of, memories_of
from gatemark.drift.signal import DriftSignal, Episode, Level, split_metric
from gatemark.drift.sinks import DeliveryError, deliver
from gatemark.drift.stores.alerts import GIVEN_UP
from gatemark.drift.stores.memories import EpisodeAction
from gatemark.evidence.settings_file import read_settings
from gatemark.workspace import Workspace

logger = logging.getLogger(__name__)

HEAD: Final = "gatemark_alerts"
MOST_MISSING: Final = 2
DEFAULT_LENGTH: Final = "1d"
"""The assumed window length of a metric without any points."""


class Delivered(msgspec.Struct, frozen=True):
    """The delivery of one alert to one sink; ``error`` is None if it succeeded."""

    alert: str
    sink: str
    level: str
    subject: str
    error: str | None


def read_alert_plan(path: str) -> AlertPlan:
    """Read the sinks from a YAML file."""
    value = read_settings(path)
    if not isinstance(value, dict) or value.pop(HEAD, None) != 1:
        raise BadInputError(f"{path}: must start with {HEAD}: 1")
    try:
        plan = msgspec.convert(value, AlertPlan)
    except msgspec.ValidationError as error:
        raise BadInputError(f"{path}: {error}") from error
    if not plan.sinks:
        raise BadInputError(f"{path}: has no sinks, so nobody would get the alerts")
    return plan


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
    known = memories_of(workspace).acts([episode.id for episode in episodes]) if episodes else []
    for episode in episodes:
        stage = find_live_version(workspace, episode.asset, episode.version).stage
        if episode.id in found.to_tell or "alert" in policy.acts_for(stage, episode.level):
            queue_one(workspace, plan, _make_episode_alert(episode, (*known, *found.done), now))
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
            queue_one(workspace, plan, _make_stale_alert(signal, gap, now))


def _count_missing_windows(stand: LiveVersion, watch: Watch | None, now: datetime) -> int:
    """Return how many windows have passed without a point since the version began to serve."""
    if stand.since is None:
        return 0
    length = seconds_of((watch.window if watch else None) or DEFAULT_LENGTH)
    return int((now - stand.since).total_seconds()) // length


def send_pending(workspace: Workspace, plan: AlertPlan) -> tuple[Delivered, ...]:
    """Deliver the stored alerts; failed deliveries are tried again at the next tick.

    A sink that fails is skipped for the rest of the tick, so that it costs its time limit once.
    """
    sinks = {sink.name: sink for sink in plan.sinks}
    delivered = []
    for queued in alerts_of(workspace).pending():
        sink = sinks.get(queued.sink)
        if sink is None:
            continue
        problem: str | None = None
        try:
            deliver(queued.alert, sink)
        except DeliveryError as error:
            problem = str(error)
            del sinks[sink.name]
        if alerts_of(workspace).mark(queued, problem, workspace.clock()) == GIVEN_UP:
            problem = f"{problem}; given up after {queued.attempts + 1} attempts"
        alert = queued.alert
        about = {"alert": alert.id, "sink": sink.name, "attempt": queued.attempts + 1}
        logger.info("alert sent" if problem is None else "alert not sent", extra=about)
        delivered.append(Delivered(alert.id, sink.name, alert.level, alert.subject, problem))
    return tuple(delivered)


def queue_one(workspace: Workspace, plan: AlertPlan, alert: Alert) -> None:
    """Store an alert for each sink that accepts it."""
    wanted = [sink.name for sink in plan.sinks if sink.takes(alert)]
    if wanted:
        alerts_of(workspace).queue(alert, wanted)


def queue_overdue(
    workspace: Workspace,
    plan: AlertPlan,
    identity: str,
    *,
    schedule: str,
    reason: str,
    at: datetime,
) -> None:
    """Store the alert about an overdue schedule."""
    alert = Alert(
        id=identity,
        kind="overdue",
        level="WARN",
        subject=f"schedule {schedule} is overdue",
        reason=reason,
        at=at,
    )
    queue_one(workspace, plan, alert)


def queue_failed_run(
    workspace: Workspace,
    plan: AlertPlan,
    identity: str,
    *,
    schedule: str,
    asset: str | None,
    level: Level,
    reason: str,
    actions: tuple[str, ...],
    at: datetime,
) -> None:
    """Store the alert about a scheduled run that did not pass."""
    alert = Alert(
        id=identity,
        kind="schedule",
        level=level,
        subject=f"schedule {schedule} did not pass",
        reason=reason,
        at=at,
        asset=asset,
        actions=actions,
    )
    queue_one(workspace, plan, alert)


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
