"""``gatemark drift probe``: judge the windows that are due, record the outcome, and act."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple

import msgspec
import numpy as np

from gatemark.core.errors import ConflictError
from gatemark.core.levels import Level
from gatemark.core.result import AssetKind
from gatemark.release.alerts.alert import AlertPlan
from gatemark.release.alerts.send import Delivered, send_pending
from gatemark.release.drift.act import ActionRecord, act_on, tell_levels
from gatemark.release.drift.alert_owners import queue_alerts
from gatemark.release.drift.assets import (
    ServingHistory,
    find_baseline_reset,
    find_named_versions,
    read_registered_kinds,
)
from gatemark.release.drift.cohorts import GatheredCohorts, gather
from gatemark.release.drift.detectors.registry import detectors
from gatemark.release.drift.events import JudgedUntil
from gatemark.release.drift.judging.cohort_state import CohortState, EpisodesBefore
from gatemark.release.drift.judging.parts import Series
from gatemark.release.drift.judging.policy import ANY_METRIC, DriftPolicy
from gatemark.release.drift.judging.tick import TickFindings, judge_tick
from gatemark.release.drift.ledger import make_event_recorder, read_judged_until
from gatemark.release.drift.open_stores import episodes_of, points_of
from gatemark.release.drift.signal import (
    UNJUDGED,
    DriftSignal,
    Episode,
    make_unjudged_signal,
    rank_level,
)
from gatemark.release.drift.stores.episodes import LastTick, LevelRow
from gatemark.workspace import Workspace

logger = logging.getLogger(__name__)

ATTEMPTS: Final = 5
MOST_NAMED: Final = 5


class PolicyName(msgspec.Struct, frozen=True):
    """The name and digest of the policy that judged."""

    name: str
    mode: str
    digest: str


class ProbeReport(msgspec.Struct, frozen=True):
    """The outcome of one probe; the fields are the keys of the JSON document."""

    at: datetime
    policy: PolicyName
    signals: tuple[DriftSignal, ...]
    levels: dict[str, int]
    judged_windows: int
    episodes: tuple[Episode, ...]
    closed: tuple[Episode, ...]
    actions: tuple[ActionRecord, ...]
    alerts: tuple[Delivered, ...]
    notes: tuple[str, ...]


class Evaluation(NamedTuple):
    """The findings of a tick and the inputs that led to them.

    ``before`` is how far the tick before this one judged, ``judged`` how far this one did.
    """

    series: Sequence[Series]
    history: ServingHistory
    gathered: GatheredCohorts
    episodes: EpisodesBefore
    levels: Mapping[tuple[int, str], Level]
    before: JudgedUntil | None
    judged: JudgedUntil
    kinds: Mapping[str, AssetKind | None]
    ticked: TickFindings
    signals: tuple[DriftSignal, ...]
    changed_series: tuple[Series, ...]
    unknown: tuple[Series, ...]

    def by_metric(self) -> tuple[DriftSignal, ...]:
        """Return the signals, with one for each metric that has a probe and shift watches.

        That is the signal of the probe, unless the probe cannot judge yet or another one is worse.
        """
        lasting = {detector.name for detector in detectors() if detector.is_self_starting}
        shown: dict[tuple[str, str], DriftSignal] = {}
        others = []
        for signal in sorted(self.signals, key=lambda signal: signal.detector in lasting):
            key = (signal.asset, signal.metric)
            known = shown.get(key)
            if signal.detector in lasting and known is not None:
                if signal.level not in UNJUDGED and (
                    known.level in UNJUDGED or rank_level(signal.level) > rank_level(known.level)
                ):
                    shown[key] = signal
            elif known is None:
                shown[key] = signal
            else:
                others.append(signal)
        both = (*shown.values(), *others)
        return tuple(sorted(both, key=lambda s: (s.asset, s.metric, s.detector)))


def evaluate(
    workspace: Workspace, policy: DriftPolicy, now: datetime, asset: str | None = None
) -> Evaluation:
    """Judge the windows that are due, without writing anything."""
    before = read_judged_until(workspace)
    # Read first: points that are pushed meanwhile are new to the next tick.
    head = workspace.events.head().seq
    history = ServingHistory(workspace, asset)
    kinds = read_registered_kinds(workspace, asset)
    pushed = points_of(workspace).series(asset)
    named = find_named_versions(workspace, kinds, pushed, 0 if before is None else before.event)
    left_out = {one.id for one in named.unknown}
    series = [history.bound(one) for one in pushed if one.id not in left_out]
    levels = episodes_of(workspace).levels([one.id for one in series] if asset else None)
    recorded = episodes_of(workspace).recorded(asset)
    gathered = gather(workspace, policy, now, kinds, series, judged=before, history=history)
    late = {one.id for one in named.late}
    states = []
    for cohort in gathered.cohorts:
        if before is not None and before.policy_digest != policy.digest:
            cohort.judge_anew(np.ones(len(cohort.series), dtype=bool), were_judged=True)
        if late:
            added = np.asarray([one.id in late for one in cohort.series])
            cohort.judge_anew(added, were_judged=False)
        states.append(CohortState(cohort, recorded))
    ticked = judge_tick(
        list(zip(gathered.cohorts, states, strict=True)),
        policy,
        now,
        lambda one: find_baseline_reset(workspace, history, one) if one.asset in kinds else None,
    )
    changed = {
        cohort.series[row].id
        for cohort, state in zip(gathered.cohorts, states, strict=True)
        for row in np.flatnonzero(cohort.is_changed & (cohort.first_new > state.settled)).tolist()
    }
    silent = _list_never_pushed(policy, kinds, series, asset)
    ordered = sorted((*ticked.signals, *silent), key=lambda s: (s.asset, s.metric, s.detector))
    return Evaluation(
        series=series,
        history=history,
        gathered=gathered,
        episodes=recorded,
        levels=levels,
        before=before,
        judged=JudgedUntil(at=now, event=head, policy_digest=policy.digest),
        kinds=kinds,
        ticked=ticked,
        signals=tuple(ordered),
        changed_series=tuple(one for one in series if one.id in changed),
        unknown=named.unknown,
    )


def probe(
    workspace: Workspace,
    policy: DriftPolicy,
    *,
    now: datetime,
    dry_run: bool = False,
    plan: AlertPlan | None = None,
) -> ProbeReport:
    """Run one tick: judge, record, act, and alert the owners. Nothing is done twice."""
    plan = plan or AlertPlan()
    for _ in range(ATTEMPTS):
        seen = episodes_of(workspace).last_tick()
        found = evaluate(workspace, policy, now)
        before = None if found.before is None else found.before.at
        notes = _write_notes(found, before, now)
        # Windows that were closed earlier are closed now, so a clock that went back can judge them.
        if dry_run or (_is_back(before, now) and not found.ticked.judged_windows):
            return _make_report(found, policy, now, notes)
        try:
            _record(workspace, found, seen, now)
        except ConflictError:
            logger.info("another probe was faster; trying again")
            continue
        tell_levels(workspace, found.signals, _read_levels_before(found), found.kinds, now=now)
        acts = act_on(workspace, policy, found.ticked, found.history, now=now)
        queue_alerts(
            workspace,
            plan,
            policy,
            acts,
            episodes=found.ticked.open,
            signals=found.signals,
            now=now,
        )
        sent = send_pending(workspace, plan)
        opened, closed = len(found.ticked.open), len(found.ticked.closed)
        windows, actions = found.ticked.judged_windows, len(acts.done)
        counts = {"windows": windows, "open": opened, "closed": closed, "actions": actions}
        logger.info("drift tick", extra={"policy": policy.name, "alerts": len(sent), **counts})
        return _make_report(found, policy, now, notes, acts.done, alerts=sent)
    raise ConflictError(
        f"other probes wrote first {ATTEMPTS} times in a row; nothing was recorded. Try again later"
    )


def _list_never_pushed(
    policy: DriftPolicy,
    kinds: Mapping[str, AssetKind | None],
    series: Sequence[Series],
    asset: str | None,
) -> list[DriftSignal]:
    """Return a STALE signal for each expected metric that was never pushed."""
    pushed = {(one.asset, one.watched_metric) for one in series}
    return [
        make_unjudged_signal(
            (name, watch.metric, watch.detector),
            "STALE",
            f"no point was ever pushed; {kind} assets are watched by it",
        )
        for name, kind in sorted(kinds.items())
        if kind is not None and (asset is None or name == asset)
        for watch in policy.watches
        if watch.metric != ANY_METRIC
        and kind in watch.classes
        and (name, watch.metric) not in pushed
    ]


def _read_levels_before(found: Evaluation) -> dict[tuple[str, str, str], str]:
    """Return the levels of registered assets before the tick."""
    names = {one.id: (one.asset, one.metric) for one in found.series if one.asset in found.kinds}
    return {
        (*names[series_id], detector): level
        for (series_id, detector), level in found.levels.items()
        if series_id in names
    }


def _record(workspace: Workspace, found: Evaluation, seen: LastTick, now: datetime) -> None:
    with episodes_of(workspace).recording(
        seen,
        now,
        found.judged,
        make_event_recorder(workspace, now),
        is_news=found.ticked.judged_windows > 0,
    ) as recorder:
        recorder.keep_levels(_find_new_levels(found))
        recorder.keep_episodes(found.ticked.recorded)


def _find_new_levels(found: Evaluation) -> Iterator[LevelRow]:
    """Yield the levels of registered assets that this tick changed; the ledger is told those."""
    for cohort, signals in zip(found.gathered.cohorts, found.ticked.by_cohort, strict=True):
        detector = cohort.detector.name
        for series, signal in zip(cohort.series, signals, strict=True):
            is_news = found.levels.get((series.id, detector)) != signal.level
            if is_news and series.asset in found.kinds:
                yield LevelRow(series.id, detector, signal.level)


def _is_back(before: datetime | None, now: datetime) -> bool:
    return before is not None and now < before


def _format_moment(moment: datetime | None) -> str:
    return "-" if moment is None else f"{moment:%Y-%m-%dT%H:%M:%SZ}"


def _write_notes(found: Evaluation, before: datetime | None, now: datetime) -> tuple[str, ...]:
    notes = []
    if _is_back(before, now):
        rest = "windows that were not judged yet are judged"
        if not found.ticked.judged_windows:
            rest = "nothing is recorded or acted on"
        notes.append(f"the clock went back: the last probe was at {_format_moment(before)}; {rest}")
    if found.changed_series:
        names = ", ".join(f"{one.asset} {one.metric}" for one in found.changed_series[:MOST_NAMED])
        more = len(found.changed_series) - MOST_NAMED
        names += f" and {more} more" if more > 0 else ""
        notes.append(f"windows that were judged before have changed and are judged again: {names}")
    notes.extend(
        f"{one.asset} {one.metric} ({one.form}) has no watch that reads it"
        for one in found.gathered.unwatched
    )
    notes.extend(
        f"{one.asset} {one.metric} is not judged: no such version was added"
        for one in found.unknown
    )
    return tuple(notes)


def _make_report(
    found: Evaluation,
    policy: DriftPolicy,
    now: datetime,
    notes: tuple[str, ...],
    done: tuple[ActionRecord, ...] = (),
    *,
    alerts: tuple[Delivered, ...] = (),
) -> ProbeReport:
    signals = found.by_metric()
    counted = Counter(signal.level for signal in signals)
    levels = sorted(counted, key=rank_level, reverse=True)
    return ProbeReport(
        at=now,
        policy=PolicyName(policy.name, policy.mode, policy.digest),
        signals=signals,
        levels={level: counted[level] for level in levels},
        judged_windows=found.ticked.judged_windows,
        episodes=found.ticked.open,
        closed=found.ticked.closed,
        actions=done,
        alerts=alerts,
        notes=notes,
    )
