"""Small cohorts from plain values, for tests of ticks."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import numpy as np

from gatemark.release.drift.cohorts import REPLAYED
from gatemark.release.drift.detectors.registry import detectors
from gatemark.release.drift.judging.cohort import Cohort
from gatemark.release.drift.judging.cohort_state import (
    CohortState,
    EpisodesBefore,
    PastEpisode,
    RecordedEpisode,
    SeriesName,
)
from gatemark.release.drift.judging.parts import Series
from gatemark.release.drift.judging.policy import LITERAL_DEFAULTS, DriftPolicy, Watch
from gatemark.release.drift.judging.tick import BaselineReset, TickFindings, judge_tick
from gatemark.release.drift.signal import DriftSignal

DAY = 86_400
START = datetime(2026, 3, 1, tzinfo=UTC)
HEALTHY = [
    10.0,
    11.0,
    9.0,
    10.0,
    12.0,
    8.0,
    10.0,
    11.0,
    9.0,
    10.0,
    10.5,
    9.5,
    11.0,
    9.0,
    10.0,
    10.0,
]
"""Sixteen windows around ten with a spread of about one."""


def by_tick(**policy: Any) -> DriftPolicy:
    """One sigma probe a metric, warnings corrected for the tick: simple to reckon with.

    What the built-in policy does is in ``test_quality.py``.
    """
    return DriftPolicy(**{"watches": LITERAL_DEFAULTS, "q": 0.05, **policy})


def day(number: float) -> datetime:
    return START + timedelta(days=number)


class Days:
    """Series of daily values, judged day after day by real ticks; None is a missing window."""

    def __init__(self, *rows: Sequence[float | None], watch: Any = None, **policy: Any) -> None:
        self.rows = rows
        self.watch = watch or Watch(metric="*")
        self.policy = by_tick(**policy)
        self.open: dict[SeriesName, RecordedEpisode] = {}
        self.past: dict[SeriesName, list[PastEpisode]] = {}
        self.last: tuple[int, tuple[Sequence[float | None], ...]] | None = None
        self.closed: list[Any] = []
        self.opened: tuple[Any, ...] = ()

    def at(self, days: int, rearmed: dict[str, BaselineReset] | None = None) -> list[DriftSignal]:
        """One tick at the end of so many days."""
        found = self.tick(days, rearmed)
        return list(found.signals)

    def tick(self, days: int, rearmed: dict[str, BaselineReset] | None = None) -> TickFindings:
        series = [
            Series(id=row, asset=f"a{row}", metric="m", form="value", length_s=DAY, phase_s=0)
            for row in range(len(self.rows))
        ]
        detector = detectors().get(self.watch.detector)
        last, known = self.last or (None, ())
        cohort = Cohort(
            self.watch,
            detector,
            series,
            policy=self.policy,
            now=day(days),
            rounds=None if last is None else max(days - last, 0) + 1 + REPLAYED,
            judged_at=None if last is None else day(last),
        )
        for row, values in enumerate(self.rows):
            before = known[row] if row < len(known) else ()
            for place, value in enumerate(values):
                if value is not None:
                    there = before[place] if place < len(before) else None
                    cohort.add(
                        np.asarray([row]),
                        np.asarray([int(day(place).timestamp())]),
                        np.asarray([1.0]),
                        np.asarray([1]),
                        np.asarray([[value]]),
                        is_written=np.asarray([value != there]),
                        is_corrected=np.asarray([there is not None]),
                    )
        cohort.close()
        state = CohortState(cohort, EpisodesBefore(self.open, self.past))
        starts = rearmed or {}
        found = judge_tick(
            [(cohort, state)], self.policy, day(days), lambda episode: starts.get(episode.asset)
        )
        self.last = (days, self.rows)
        self.open.clear()
        for one in found.recorded:
            episode = one.episode
            name = (episode.asset, episode.metric, episode.detector)
            if episode.is_open:
                self.open[name] = one
            else:
                over = msgspec.convert(episode, PastEpisode, from_attributes=True)
                self.past.setdefault(name, []).append(over)
        self.closed.extend(found.closed)
        self.opened = found.open
        return found

    def levels(self, first: int, last: int) -> list[str]:
        """The level of the first series at the end of each of some days."""
        return [self.at(days)[0].level for days in range(first, last + 1)]
