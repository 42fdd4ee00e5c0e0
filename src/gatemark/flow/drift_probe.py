"""The journey of ``gatemark drift probe``: judge what is due, remember it, act on it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple

import msgspec
import numpy as np

from gatemark.core.change import AssetKind
from gatemark.core.drift import DriftSignal, Episode, severity
from gatemark.core.errors import ConflictError
from gatemark.flow.drift_act import Done, act_on, tell_levels
from gatemark.flow.drift_alerts import Delivered, queue_alerts, send_pending
from gatemark.flow.drift_assets import rearming, registered_kinds
from gatemark.flow.drift_cohorts import Gathered, gather
from gatemark.flow.house import House
from gatemark.watch.alerts import AlertPlan
from gatemark.watch.cohort import Cohort
from gatemark.watch.memory import Memory, SeriesMemory, under_new_policy
from gatemark.watch.policy import ANY_METRIC, DriftPolicy
from gatemark.watch.series import Series
from gatemark.watch.stores.memories import KeptMemory, LastTick, MemoryRow
from gatemark.watch.tick import Rearming, Ticked, tick

ATTEMPTS: Final = 5


class PolicyName(msgspec.Struct, frozen=True):
    """Which policy judged."""

    name: str
    mode: str
    digest: str


class Probe(msgspec.Struct, frozen=True):
    """One probe; the fields are the keys of the JSON document."""

    at: datetime
    policy: PolicyName
    signals: tuple[DriftSignal, ...]
    levels: dict[str, int]
    judged_windows: int
    episodes: tuple[Episode, ...]
    closed: tuple[Episode, ...]
    actions: tuple[Done, ...]
    alerts: tuple[Delivered, ...]
    notes: tuple[str, ...]


class Look(NamedTuple):
    """What a tick found, and all it was found by."""

    series: Sequence[Series]
    gathered: Gathered
    memories: tuple[Memory, ...]
    kept: Mapping[tuple[int, str], KeptMemory]
    kinds: Mapping[str, AssetKind | None]
    ticked: Ticked
    signals: tuple[DriftSignal, ...]


def look(house: House, policy: DriftPolicy, now: datetime, asset: str | None = None) -> Look:
    """Judge what is due without writing anything."""
    series = house.points.series(asset)
    kinds = registered_kinds(house, asset)
    kept = house.memories.memories([one.id for one in series] if asset else None)
    recalled = _recalled(kept, policy.digest)
    gathered = gather(house, policy, now, kinds, series, kept=recalled)
    memories = tuple(Memory(cohort, _of_cohort(cohort, recalled)) for cohort in gathered.cohorts)
    rearmed = _rearmed(house, memories, kinds)
    ticked = tick(list(zip(gathered.cohorts, memories, strict=True)), policy, now, rearmed)
    silent = _never_pushed(policy, kinds, series, asset)
    ordered = sorted((*ticked.signals, *silent), key=lambda s: (s.asset, s.metric, s.detector))
    return Look(series, gathered, memories, kept, kinds, ticked, tuple(ordered))


def probe(
    house: House,
    policy: DriftPolicy,
    *,
    now: datetime,
    dry_run: bool = False,
    plan: AlertPlan | None = None,
) -> Probe:
    """One tick: judge, remember, tell the ledger, act, tell the owners. Nothing is done twice."""
    plan = plan or AlertPlan()
    for _ in range(ATTEMPTS):
        seen = house.memories.last_tick()
        found = look(house, policy, now)
        notes = _notes(found, seen, now)
        if dry_run or (seen.at is not None and now < seen.at):
            return _probed(found, policy, now, notes)
        try:
            _record(house, found, policy, seen, now)
        except ConflictError:
            continue
        tell_levels(house, found.signals, _levels_before(found), found.kinds, now=now)
        done = act_on(house, policy, found.ticked, now=now)
        queue_alerts(house, plan, policy, found.ticked.open, done, signals=found.signals, now=now)
        return _probed(found, policy, now, notes, done, alerts=send_pending(house, plan))
    raise ConflictError(f"other probes were faster {ATTEMPTS} times in a row; nothing was recorded")


def _recalled(
    kept: Mapping[tuple[int, str], KeptMemory], policy_digest: str
) -> dict[tuple[int, str], SeriesMemory]:
    """What is remembered, as far as it still counts under the policy."""
    return {
        key: known.memory
        if known.policy_digest == policy_digest
        else under_new_policy(known.memory)
        for key, known in kept.items()
    }


def _of_cohort(
    cohort: Cohort, recalled: Mapping[tuple[int, str], SeriesMemory]
) -> dict[int, SeriesMemory]:
    keys = ((one.id, cohort.detector.name) for one in cohort.series)
    return {key[0]: recalled[key] for key in keys if key in recalled}


def _rearmed(
    house: House, memories: Sequence[Memory], kinds: Mapping[str, AssetKind | None]
) -> dict[str, Rearming]:
    troubled = {e.asset for memory in memories for e in memory.episodes.values()}
    found = {asset: rearming(house, asset) for asset in sorted(troubled) if asset in kinds}
    return {asset: fresh for asset, fresh in found.items() if fresh is not None}


def _never_pushed(
    policy: DriftPolicy,
    kinds: Mapping[str, AssetKind | None],
    series: Sequence[Series],
    asset: str | None,
) -> list[DriftSignal]:
    """Registered assets for which a metric of their kind never arrived: stale, not well."""
    pushed = {(one.asset, one.metric) for one in series}
    return [
        DriftSignal(
            asset=name,
            metric=watch.metric,
            detector=watch.detector,
            level="STALE",
            reason=f"no point was ever pushed; {kind} assets are watched by it",
            sigma=None,
            z=None,
            p_value=None,
            value=None,
            mu=None,
            sd=None,
            n=0,
            window=None,
            baseline_windows=0,
        )
        for name, kind in sorted(kinds.items())
        if kind is not None and (asset is None or name == asset)
        for watch in policy.watches
        if watch.metric != ANY_METRIC
        and kind in watch.classes
        and (name, watch.metric) not in pushed
    ]


def _levels_before(found: Look) -> dict[tuple[str, str, str], str]:
    names = {one.id: (one.asset, one.metric) for one in found.series}
    return {
        (*names[series_id], detector): known.level
        for (series_id, detector), known in found.kept.items()
        if series_id in names
    }


def _record(house: House, found: Look, policy: DriftPolicy, seen: LastTick, now: datetime) -> None:
    with house.memories.recording(seen, now) as recorder:
        recorder.keep_memories(_changed(found, policy.digest))
        recorder.keep_episodes((*found.ticked.closed, *found.ticked.open))


def _changed(found: Look, policy_digest: str) -> Iterator[MemoryRow]:
    """The memories of all series that a tick moved on or judged otherwise than before."""
    looked = zip(found.gathered.cohorts, found.memories, found.ticked.by_cohort, strict=True)
    for cohort, memory, signals in looked:
        detector = cohort.detector.name
        pairs = enumerate(zip(cohort.series, signals, strict=True))
        rows = [
            row
            for row, (series, signal) in pairs
            if memory.is_touched[row] or _is_news(found, series, detector, signal)
        ]
        told = memory.told(np.asarray(rows, dtype=np.int64))
        for row, kept in zip(rows, told, strict=True):
            level = signals[row].level
            yield MemoryRow(cohort.series[row].id, detector, policy_digest, level, kept)


def _is_news(found: Look, series: Series, detector: str, signal: DriftSignal) -> bool:
    known = found.kept.get((series.id, detector))
    return known is None or known.level != signal.level


def _notes(found: Look, seen: LastTick, now: datetime) -> tuple[str, ...]:
    notes = []
    if seen.at is not None and now < seen.at:
        notes.append(
            f"the clock went back: the last probe was at {seen.at:%Y-%m-%dT%H:%M:%SZ}; "
            "nothing is recorded or acted on"
        )
    notes.extend(
        f"{one.asset} {one.metric} ({one.form}) has no watch that reads it"
        for one in found.gathered.unwatched
    )
    return tuple(notes)


def _probed(
    found: Look,
    policy: DriftPolicy,
    now: datetime,
    notes: tuple[str, ...],
    done: tuple[Done, ...] = (),
    *,
    alerts: tuple[Delivered, ...] = (),
) -> Probe:
    counted = Counter(signal.level for signal in found.signals)
    levels = sorted(counted, key=severity, reverse=True)
    return Probe(
        at=now,
        policy=PolicyName(policy.name, policy.mode, policy.digest),
        signals=found.signals,
        levels={level: counted[level] for level in levels},
        judged_windows=found.ticked.judged_windows,
        episodes=found.ticked.open,
        closed=found.ticked.closed,
        actions=done,
        alerts=alerts,
        notes=notes,
    )
