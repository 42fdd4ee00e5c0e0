"""Seeded series under a policy: how often healthy assets are hit, how soon harmed ones are.

The real tick judges the series; nothing about it is approximated.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from gatemark.drift.judging.cohort import Cohort
from gatemark.drift.judging.detector import Detector
from gatemark.drift.judging.memory import Memory
from gatemark.drift.judging.parts import FormName, Series
from gatemark.drift.judging.policy import DriftPolicy, Watch
from gatemark.drift.judging.tick import tick
from gatemark.drift.signal import Episode

Floats = NDArray[np.float64]

DAY_S = 86_400
START = datetime(2026, 1, 1, tzinfo=UTC)
DAYS_PER_YEAR = 365.25
DAYS_PER_MONTH = DAYS_PER_YEAR / 12
ITEMS = 500.0
_CONFIDENCES = (0.02, 0.03, 0.04, 0.05, 0.06, 0.1, 0.15, 0.2, 0.2, 0.15)
_CLASSES = (0.9, 0.05, 0.03, 0.02)


class Outcomes(NamedTuple):
    """The episodes of simulated series, and how many asset-days they took."""

    episodes: tuple[Episode, ...]
    asset_days: float

    def per_asset_day(self, *levels: str) -> float:
        """Episodes that came to one of the levels, per asset and day."""
        return sum(e.level in levels for e in self.episodes) / self.asset_days


class Data(NamedTuple):
    """Daily windows of some series: their form, items and parts, and a layout of that width."""

    form: FormName
    items: Floats
    parts: Floats
    layout: tuple[float, ...] = ()


def healthy(detector: Detector, series: int, days: int, rng: np.random.Generator) -> Data:
    """Series in which nothing changes, in the form that the detector is made for."""
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
    return values_data(rng.standard_normal((series, days)))


def values_data(values: Floats) -> Data:
    """Plain values, one item each."""
    return Data("value", np.ones(values.shape), values[..., None])


def simulate(
    policy: DriftPolicy, watch: Watch, detector: Detector, data: Data, *, metrics: int = 1
) -> Outcomes:
    """Let the tick judge daily windows, one row per series.

    ``metrics`` rows in turn belong to one asset. All rows are judged in one tick per day, so that
    warnings are corrected for all of them together.
    """
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
    cohort = Cohort(watch, detector, series, policy=wide, now=now)
    start = int(START.timestamp())
    rows, columns = np.indices(data.items.shape).reshape(2, -1)
    parts = data.parts.reshape(-1, data.parts.shape[2])
    cohort.add(rows, start + columns * DAY_S, data.items.reshape(-1), rows * 0 + 1, parts)
    cohort.close()
    memory = Memory(cohort, {})
    found = tick([(cohort, memory)], wide, now)
    # A series is judged once its baseline is full, and no longer once it has breached.
    healthy_days = series_count * max(days - watch.enough - cohort.lag, 1)
    lost_days = sum((now - e.breached.end).days for e in found.open if e.breached is not None)
    return Outcomes(
        episodes=(*found.closed, *found.open),
        asset_days=max(healthy_days - lost_days, 1) / metrics,
    )


def alone(policy: DriftPolicy) -> DriftPolicy:
    """The policy by which a series among others is judged as if it were alone in its tick."""
    return msgspec.structs.replace(policy, q=1 - 1e-9)


class FalseAlarms(msgspec.Struct, frozen=True):
    """What a policy does to healthy assets, per asset, by simulation."""

    assets: int
    metrics: int
    days: int
    seed: int
    warnings_per_month: float
    demotions_per_month: float
    demotions_per_year: float


def false_alarms(
    policy: DriftPolicy,
    watch: Watch,
    detector: Detector,
    *,
    seed: int,
    assets: int = 100,
    metrics: int = 5,
    days: int = 379,
) -> FalseAlarms:
    """How often assets with healthy metrics get an alarm all the same."""
    data = healthy(detector, assets * metrics, days, np.random.default_rng(seed))
    found = simulate(policy, watch, detector, data, metrics=metrics)
    demotions = found.per_asset_day("BREACH")
    return FalseAlarms(
        assets=assets,
        metrics=metrics,
        days=days,
        seed=seed,
        warnings_per_month=found.per_asset_day("WARN", "BREACH") * DAYS_PER_MONTH,
        demotions_per_month=demotions * DAYS_PER_MONTH,
        demotions_per_year=demotions * DAYS_PER_YEAR,
    )


def demoted_within(
    policy: DriftPolicy,
    watch: Watch,
    detector: Detector,
    *,
    seed: int,
    shift_sd: float,
    series: int = 1000,
    windows: int | None = None,
) -> float:
    """The share of series that breach within some windows of a shift that stays.

    Each series is judged alone, as the only metric of its tick.
    """
    windows = watch.sustained + 1 if windows is None else windows
    rng = np.random.default_rng(seed)
    healthy = watch.span + watch.sustained
    values = rng.standard_normal((series, healthy + windows))
    values[:, healthy:] += shift_sd
    shifted_at = START + timedelta(days=healthy)
    found = simulate(alone(policy), watch, detector, values_data(values))
    hit = {
        e.asset for e in found.episodes if e.breached is not None and e.breached.start >= shifted_at
    }
    return len(hit) / series
