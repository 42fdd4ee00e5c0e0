"""``gatemark drift probe``: judge the windows that are due, record the outcome, and act."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple

import msgspec
import numpy as np

from gatemark.alerts.alert import AlertPlan
from gatemark.alerts.send import Delivered, send_pending
from gatemark.core.errors import ConflictError
from gatemark.core.levels import Level
from gatemark.core.result import AssetKind
from gatemark.drift.act import ActionRecord, act_on, tell_levels
from gatemark.drift.alert_owners import queue_alerts
from gatemark.drift.assets import (
    ServingHistory,
    find_baseline_reset,
    read_registered_kinds,
    select_unknown_versions,
)
from gatemark.drift.cohorts import GatheredCohorts, gather
from gatemark.drift.detectors.registry import detectors
from gatemark.drift.judging.cohort import Cohort
from gatemark.drift.judging.memory import (
    Memory,
    SeriesMemory,
    carry_after_change,
    carry_to_new_policy,
    find_first_changed,
)
from gatemark.drift.judging.parts import Series
from gatemark.drift.judging.policy import ANY_METRIC, DriftPolicy
from gatemark.drift.judging.tick import TickFindings, judge_tick
from gatemark.drift.ledger import last_recording_at, make_event_recorder
from gatemark.drift.open_stores import memories_of, points_of
from gatemark.drift.signal import UNJUDGED, DriftSignal, Episode, make_unjudged_signal, rank_level
from gatemark.drift.stores.memories import KeptMemory, LastTick, MemoryRow
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


class StateBefore(NamedTuple):
    """What is used of a stored memory after it was recalled."""

    level: Level
    window_s: int
    since: int


class RecalledCohorts(NamedTuple):
    """The cohorts with their memories, and the series with judged windows that have changed."""

    gathered: GatheredCohorts
    memories: tuple[Memory, ...]
    before: Mapping[tuple[int, str], StateBefore]
    changed: frozenset[int]


class Evaluation(NamedTuple):
    """The findings of a tick and the inputs that led to them."""

    series: Sequence[Series]
    history: ServingHistory
    gathered: GatheredCohorts
    memories: tuple[Memory, ...]
    before: Mapping[tuple[int, str], StateBefore]
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
    history = ServingHistory(workspace, asset)
    kinds = read_registered_kinds(workspace, asset)
    pushed = points_of(workspace).series(asset)
    unknown = select_unknown_versions(workspace, kinds, pushed)
    left_out = {one.id for one in unknown}
    series = [history.bound(one) for one in pushed if one.id not in left_out]
    kept = memories_of(workspace).memories([one.id for one in series] if asset else None)
    found = _recall_cohorts(workspace, policy, now, series, kept, kinds=kinds, history=history)
    # Those of a fleet take more room than all else.
    del kept
    ticked = judge_tick(
        list(zip(found.gathered.cohorts, found.memories, strict=True)),
        policy,
        now,
        lambda one: find_baseline_reset(workspace, history, one) if one.asset in kinds else None,
    )
    silent = _list_never_pushed(policy, kinds, series, asset)
    ordered = sorted((*ticked.signals, *silent), key=lambda s: (s.asset, s.metric, s.detector))
    return Evaluation(
        series=series,
        history=history,
        gathered=found.gathered,
        memories=found.memories,
        before=found.before,
        kinds=kinds,
        ticked=ticked,
        signals=tuple(ordered),
        changed_series=tuple(one for one in series if one.id in found.changed),
        unknown=unknown,
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
        seen = memories_of(workspace).last_tick()
        found = evaluate(workspace, policy, now)
        before = last_recording_at(workspace)
        notes = _write_notes(found, before, now)
        # Windows that were closed earlier are closed now, so a clock that went back can judge them.
        if dry_run or (_is_back(before, now) and not found.ticked.judged_windows):
            return _make_report(found, policy, now, notes)
        try:
            _record(workspace, found, policy, seen, now)
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


def _recall_cohorts(
    workspace: Workspace,
    policy: DriftPolicy,
    now: datetime,
    series: Sequence[Series],
    kept: Mapping[tuple[int, str], KeptMemory],
    *,
    kinds: Mapping[str, AssetKind | None],
    history: ServingHistory,
) -> RecalledCohorts:
    """Return the cohorts with what is stored about them."""
    recalled = _recall_memories(kept, policy.digest)
    gathered = gather(workspace, policy, now, kinds, series, kept=recalled, history=history)
    changed = _find_rewritten(gathered.cohorts, recalled)
    if changed:
        recalled |= changed
        gathered = gather(workspace, policy, now, kinds, series, kept=recalled, history=history)
    over = _find_closed_episodes(workspace, recalled)
    return RecalledCohorts(
        gathered,
        tuple(
            Memory(cohort, _select_cohort(cohort, recalled), over) for cohort in gathered.cohorts
        ),
        {
            key: StateBefore(known.level, known.memory.window_s, known.memory.since)
            for key, known in kept.items()
        },
        frozenset(series_id for series_id, _ in changed),
    )


def _recall_memories(
    kept: Mapping[tuple[int, str], KeptMemory], policy_digest: str
) -> dict[tuple[int, str], SeriesMemory]:
    """Return the stored memories that still apply under the policy."""
    return {
        key: known.memory
        if known.policy_digest == policy_digest
        else carry_to_new_policy(known.memory)
        for key, known in kept.items()
    }


def _find_rewritten(
    cohorts: Sequence[Cohort], recalled: Mapping[tuple[int, str], SeriesMemory]
) -> dict[tuple[int, str], SeriesMemory]:
    """Return the memories of series with judged windows that have changed since."""
    found = {}
    for cohort in cohorts:
        known = [
            (row, key, memory)
            for row, one in enumerate(cohort.series)
            if (memory := recalled.get(key := (one.id, cohort.detector.name))) is not None
            and len(memory.seen) == cohort.watch.span
            and memory.window_s == cohort.window_s[row]
        ]
        if not known:
            continue
        rows = np.asarray([row for row, _, _ in known])
        judged = np.asarray([memory.judged for _, _, memory in known])
        seen = np.frombuffer(b"".join(memory.seen for _, _, memory in known), dtype=np.uint8)
        first = find_first_changed(cohort, rows, judged, seen.reshape(len(known), -1))
        settled = np.asarray([memory.settled for _, _, memory in known])
        for at in np.flatnonzero(first > settled).tolist():
            row, key, memory = known[at]
            opened = None
            if memory.episode is not None:
                opened = cohort.index_at(row, memory.episode.opened.start)
            found[key] = carry_after_change(memory, int(first[at]), opened, cohort.watch.sustained)
    return found


def _select_cohort(
    cohort: Cohort, recalled: Mapping[tuple[int, str], SeriesMemory]
) -> dict[int, SeriesMemory]:
    keys = ((one.id, cohort.detector.name) for one in cohort.series)
    return {key[0]: recalled[key] for key in keys if key in recalled}


def _find_closed_episodes(
    workspace: Workspace, recalled: Mapping[tuple[int, str], SeriesMemory]
) -> frozenset[str]:
    """Return the closed episodes that windows which are judged again may have opened."""
    if all(memory.seen for memory in recalled.values()):
        return frozenset()
    return frozenset(e.id for e in memories_of(workspace).episodes() if not e.is_open)


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
        (*names[series_id], detector): known.level
        for (series_id, detector), known in found.before.items()
        if series_id in names
    }


def _record(
    workspace: Workspace, found: Evaluation, policy: DriftPolicy, seen: LastTick, now: datetime
) -> None:
    with memories_of(workspace).recording(
        seen, now, make_event_recorder(workspace, now)
    ) as recorder:
        recorder.keep_memories(_find_changed(found, policy.digest))
        recorder.keep_episodes((*found.ticked.closed, *found.ticked.open))


def _find_changed(found: Evaluation, policy_digest: str) -> Iterator[MemoryRow]:
    """Yield the memories of all series whose state or level this tick changed."""
    looked = zip(found.gathered.cohorts, found.memories, found.ticked.by_cohort, strict=True)
    for cohort, memory, signals in looked:
        detector = cohort.detector.name
        looked_at = zip(memory.is_touched.tolist(), cohort.series, signals, strict=True)
        rows = [
            row
            for row, (is_touched, series, signal) in enumerate(looked_at)
            if is_touched or _is_news(found, series, detector, signal)
        ]
        remembered = memory.remembered(np.asarray(rows, dtype=np.int64))
        for row, kept in zip(rows, remembered, strict=True):
            level = signals[row].level
            yield MemoryRow(cohort.series[row].id, detector, policy_digest, level, kept)


def _is_news(found: Evaluation, series: Series, detector: str, signal: DriftSignal) -> bool:
    known = found.before.get((series.id, detector))
    return known is None or known.level != signal.level


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
