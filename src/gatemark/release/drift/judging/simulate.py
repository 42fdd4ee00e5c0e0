"""Simulate a policy on random series: false alarms of healthy metrics, and detection delay.

The series are judged by the real tick, without approximations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from gatemark.release.drift.judging.cohort import Cohort
from gatemark.release.drift.judging.cohort_state import CohortState
from gatemark.release.drift.judging.detector import Detector
from gatemark.release.drift.judging.parts import FormName, Series
from gatemark.release.drift.judging.policy import DriftPolicy, Watch
from gatemark.release.drift.judging.tick import judge_tick
from gatemark.release.drift.signal import Episode

Floats = NDArray[np.float64]
Watched = tuple[Watch, Detector]

DAY_S = 86_400
START = datetime(2026, 1, 1, tzinfo=UTC)
DAYS_PER_YEAR = 365.25
DAYS_PER_MONTH = DAYS_PER_YEAR / 12
ITEMS = 500.0
RATE = 0.93
YEAR = 379
"""Days of a simulated year: 365 judged days after those of a baseline."""
BEFORE = 100
"""Days before a simulated change."""
WITHIN: Final = (2, 7, 30)
SHIFTS: Final = (1.0, 2.0, 3.0, 5.0)
RAMP_SD: Final = 0.1
_CONFIDENCES = (0.02, 0.03, 0.04, 0.05, 0.06, 0.1, 0.15, 0.2, 0.2, 0.15)
_CLASSES = (0.9, 0.05, 0.03, 0.02)
_FOREVER = datetime.max.replace(tzinfo=UTC)


class Outcomes(NamedTuple):
    """The episodes of simulated series, and the number of asset-days."""

    episodes: tuple[Episode, ...]
    asset_days: float

    def per_asset_day(self, *levels: str) -> float:
        """Return the episodes that reached one of the levels, per asset and day."""
        return sum(e.level in levels for e in self.episodes) / self.asset_days


class Data(NamedTuple):
    """Daily windows of some series: form, items, parts, and a layout of that width.

    ``reference`` is the score and the item count of each version's sealed result.
    """

    form: FormName
    items: Floats
    parts: Floats
    layout: tuple[float, ...] = ()
    reference: Floats | None = None


def simulate_healthy(detector: Detector, series: int, days: int, rng: np.random.Generator) -> Data:
    """Return series without any change, in the form of the detector."""
    items = np.full((series, days), ITEMS)
    counts = items.astype(np.int64)
    if "histogram" in detector.forms:
        parts = rng.multinomial(counts, _CONFIDENCES).astype(np.float64)
        return Data("histogram", items, parts, tuple(range(len(_CONFIDENCES) + 1)))
    if "categories" in detector.forms:
        parts = rng.multinomial(counts, _CLASSES).astype(np.float64)
        return Data("categories", items, parts, tuple(range(len(_CLASSES))))
    if "calibration" in detector.forms:
        bins = len(_CONFIDENCES)
        stated = rng.multinomial(counts, _CONFIDENCES)
        promised = (np.arange(bins) + 0.5) / bins
        parts = np.concatenate([stated, stated * promised, rng.binomial(stated, promised)], axis=-1)
        return Data("calibration", items, parts.astype(np.float64), tuple(range(bins)))
    if detector.needs_reference:
        return _draw_sealed(rng, (series, days))
    return make_values(rng.standard_normal((series, days)))


def _draw_sealed(rng: np.random.Generator, shape: tuple[int, int]) -> Data:
    """Return rates, and sealed scores that were measured at the same rate."""
    items = np.full(shape[0], ITEMS)
    score = rng.binomial(int(ITEMS), RATE, shape[0]) / ITEMS
    return _draw_ratio(rng, shape)._replace(reference=np.stack([score, items], axis=1))


def make_values(values: Floats) -> Data:
    """Return plain values, one item each."""
    return Data("value", np.ones(values.shape), values[..., None])


def _make_correlated_generator(
    correlation: float,
) -> Callable[[np.random.Generator, tuple[int, int]], Data]:
    """Return a generator of series with correlated neighbouring windows and unit spread."""

    def made(rng: np.random.Generator, shape: tuple[int, int]) -> Data:
        values = rng.standard_normal(shape)
        fresh = np.sqrt(1 - correlation**2)
        for day in range(1, shape[1]):
            values[:, day] = correlation * values[:, day - 1] + fresh * values[:, day]
        return make_values(values)

    return made


def _draw_weekly(rng: np.random.Generator, shape: tuple[int, int]) -> Data:
    return make_values(rng.standard_normal(shape) + 1.5 * (np.arange(shape[1]) % 7 >= 5))


def _draw_heavy(rng: np.random.Generator, shape: tuple[int, int]) -> Data:
    return make_values(rng.standard_t(3, shape) / np.sqrt(3))


def _draw_ratio(rng: np.random.Generator, shape: tuple[int, int]) -> Data:
    hits = rng.binomial(int(ITEMS), RATE, shape)
    return Data("k", np.full(shape, ITEMS), hits.astype(np.float64)[..., None])


def _make_frozen(rng: np.random.Generator, shape: tuple[int, int]) -> Data:
    _ = rng
    return Data("k", np.full(shape, ITEMS), np.full((*shape, 1), RATE * ITEMS))


KINDS: Final[dict[str, Callable[[np.random.Generator, tuple[int, int]], Data]]] = {
    "independent": lambda rng, shape: make_values(rng.standard_normal(shape)),
    "correlation 0.5": _make_correlated_generator(0.5),
    "correlation 0.8": _make_correlated_generator(0.8),
    "weekly pattern": _draw_weekly,
    "heavy tails": _draw_heavy,
    "ratio": _draw_ratio,
    "never changing": _make_frozen,
}
"""Kinds of healthy series, by the dependence between neighbouring days."""


def simulate(
    policy: DriftPolicy, watched: Sequence[Watched], data: Data, *, metrics: int = 1
) -> Outcomes:
    """Judge daily windows, one row per series, by several watches, and return the episodes.

    ``metrics`` consecutive rows belong to one asset. All rows are judged in one tick per day.
    """
    (found,) = simulate_groups(policy, watched, [data], metrics=metrics)
    return found


def simulate_groups(
    policy: DriftPolicy, watched: Sequence[Watched], groups: Sequence[Data], *, metrics: int = 1
) -> tuple[Outcomes, ...]:
    """Judge groups of series in the same ticks, and return the episodes of each.

    The groups have one form, layout and number of days. That is faster than one after the other,
    with the same outcome where series do not depend on each other: without ``q``, or ``alone``.
    """
    data = _stack_groups(groups)
    series_count, days = data.items.shape
    now = START + timedelta(days=days)
    wide = msgspec.structs.replace(policy, catch_up=days)
    series = [
        Series(
            id=row,
            asset=f"asset-{row // metrics}",
            metric=f"metric-{row % metrics}",
            form=data.form,
            length_s=DAY_S,
            phase_s=0,
            layout=data.layout,
        )
        for row in range(series_count)
    ]
    start = int(START.timestamp())
    rows, columns = np.indices(data.items.shape).reshape(2, -1)
    parts = data.parts.reshape(-1, data.parts.shape[2])
    pairs = []
    for watch, detector in watched:
        cohort = Cohort(watch, detector, series, policy=wide, now=now)
        cohort.add(rows, start + columns * DAY_S, data.items.reshape(-1), rows * 0 + 1, parts)
        if data.reference is not None:
            cohort.reference = data.reference
        cohort.close()
        pairs.append((cohort, CohortState(cohort)))
    found = judge_tick(pairs, wide, now)
    # Count days from a full baseline until the first breach.
    first = min(
        watch.enough + cohort.lag for (watch, _), (cohort, _) in zip(watched, pairs, strict=True)
    )
    group_of = dict(zip((s.asset for s in series), _group_of_rows(groups), strict=True))
    breached = {(e.asset, e.metric): e.breached for e in found.open if e.breached is not None}
    lost_days = [0] * len(groups)
    for (asset, _), window in breached.items():
        lost_days[group_of[asset]] += (now - window.end).days
    episodes: list[list[Episode]] = [[] for _ in groups]
    for episode in _merge_episodes((*found.closed, *found.open)):
        episodes[group_of[episode.asset]].append(episode)
    return tuple(
        Outcomes(tuple(own), max(len(one.items) * max(days - first, 1) - lost, 1) / metrics)
        for one, own, lost in zip(groups, episodes, lost_days, strict=True)
    )


def _stack_groups(groups: Sequence[Data]) -> Data:
    if len(groups) == 1:
        return groups[0]
    items, parts = (np.concatenate(rows) for rows in zip(*(g[1:3] for g in groups), strict=True))
    return groups[0]._replace(items=items, parts=parts)


def _group_of_rows(groups: Sequence[Data]) -> list[int]:
    return [place for place, group in enumerate(groups) for _ in group.items]


def _merge_episodes(episodes: tuple[Episode, ...]) -> tuple[Episode, ...]:
    """Merge overlapping episodes of one metric from two watches; the worse level counts."""
    ordered = sorted(episodes, key=lambda e: (e.asset, e.metric, e.opened.start))
    found: list[Episode] = []
    for episode in ordered:
        last = found[-1] if found else None
        is_same = last is not None and (last.asset, last.metric) == (episode.asset, episode.metric)
        if last is not None and is_same and (last.closed_at or _FOREVER) > episode.opened.start:
            worse = "BREACH" if "BREACH" in (last.level, episode.level) else last.level
            ends = max(last.closed_at or _FOREVER, episode.closed_at or _FOREVER)
            first = min(filter(None, (last.breached, episode.breached)), default=None)
            found[-1] = msgspec.structs.replace(
                last, level=worse, closed_at=None if ends == _FOREVER else ends, breached=first
            )
        else:
            found.append(episode)
    return tuple(found)


def isolate_series(policy: DriftPolicy) -> DriftPolicy:
    """Return the policy under which each series is judged as if it were alone in its tick."""
    if policy.q is None:
        return policy
    return msgspec.structs.replace(policy, q=1.0)


class FalseAlarms(msgspec.Struct, frozen=True):
    """The simulated alarms of healthy assets, per asset."""

    assets: int
    metrics: int
    days: int
    seed: int
    warnings_per_month: float
    warnings_per_year: float
    demotions_per_month: float
    demotions_per_year: float


def estimate_false_alarms(
    policy: DriftPolicy,
    watched: Sequence[Watched],
    *,
    seed: int,
    assets: int = 100,
    metrics: int = 5,
    days: int = YEAR,
    kind: str | None = None,
) -> FalseAlarms:
    """Return how often healthy assets raise an alarm.

    ``kind`` is one of ``KINDS``; without it, the series have the form of the first detector.
    """
    rng = np.random.default_rng(seed)
    if kind is None:
        data = simulate_healthy(watched[0][1], assets * metrics, days, rng)
    else:
        data = KINDS[kind](rng, (assets * metrics, days))
    found = simulate(policy, watched, data, metrics=metrics)
    return _summarize_alarms(found, seed=seed, assets=assets, metrics=metrics, days=days)


def estimate_false_alarms_by_kind(
    policy: DriftPolicy,
    watched: Sequence[Watched],
    kinds: Iterable[str],
    *,
    seed: int,
    assets: int,
) -> dict[str, FalseAlarms]:
    """Return how often healthy assets with one metric raise an alarm in a year, for each kind."""
    shape = (assets, YEAR)
    drawn = {kind: KINDS[kind](np.random.default_rng(seed), shape) for kind in kinds}
    found: dict[str, Outcomes] = {}
    for form in {data.form for data in drawn.values()}:
        same = {kind: data for kind, data in drawn.items() if data.form == form}
        judged = simulate_groups(policy, watched, list(same.values()))
        found |= zip(same, judged, strict=True)
    return {
        kind: _summarize_alarms(found[kind], seed=seed, assets=assets, metrics=1, days=YEAR)
        for kind in drawn
    }


def _summarize_alarms(
    found: Outcomes, *, seed: int, assets: int, metrics: int, days: int
) -> FalseAlarms:
    warnings = found.per_asset_day("WARN", "BREACH")
    demotions = found.per_asset_day("BREACH")
    return FalseAlarms(
        assets=assets,
        metrics=metrics,
        days=days,
        seed=seed,
        warnings_per_month=warnings * DAYS_PER_MONTH,
        warnings_per_year=warnings * DAYS_PER_YEAR,
        demotions_per_month=demotions * DAYS_PER_MONTH,
        demotions_per_year=demotions * DAYS_PER_YEAR,
    )


class Detection(msgspec.Struct, frozen=True):
    """The share of changed series that are detected within some days.

    ``change`` is the size of a lasting shift in standard deviations, or ``None`` for a ramp.
    """

    change: float | None
    days: int
    found: float
    demoted: float


def estimate_detection(
    policy: DriftPolicy,
    watched: Sequence[Watched],
    *,
    changes: Sequence[float | None],
    seed: int,
    series: int = 500,
    within: Sequence[int] = WITHIN,
) -> tuple[Detection, ...]:
    """Return the share of series that warn, and that breach, within some days after each change.

    Each series is judged as the only metric of its asset.
    """
    drawn = np.random.default_rng(seed).standard_normal((series, BEFORE + max(within)))
    groups = []
    for change in changes:
        values = drawn.copy()
        values[:, BEFORE:] += RAMP_SD * np.arange(1, max(within) + 1) if change is None else change
        groups.append(make_values(values))
    judged = simulate_groups(isolate_series(policy), watched, groups) if groups else ()
    changed_at = START + timedelta(days=BEFORE)

    def share(found: Outcomes, days: int, *, breached: bool) -> float:
        hit = set()
        for episode in found.episodes:
            window = episode.breached if breached else episode.opened
            if episode.level in ("WARN", "BREACH") and window is not None:
                since = (window.end - changed_at).days
                if 0 < since <= days:
                    hit.add(episode.asset)
        return len(hit) / series

    return tuple(
        Detection(
            change=change,
            days=days,
            found=share(found, days, breached=False),
            demoted=share(found, days, breached=True),
        )
        for change, found in zip(changes, judged, strict=True)
        for days in within
    )
