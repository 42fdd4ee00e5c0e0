"""From stored points to cohorts: which watch is about which series, and the windows of each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gatemark.core.change import AssetKind
from gatemark.flow.house import House
from gatemark.flow.plugins import detectors
from gatemark.watch.cohort import Cohort
from gatemark.watch.parts import part_count
from gatemark.watch.policy import ANY_METRIC, DriftPolicy, Watch
from gatemark.watch.series import Series
from gatemark.watch.stores.points import Chunk, SqlPoints, parts_of


def watches_of(policy: DriftPolicy, series: Series, kind: AssetKind | None) -> tuple[Watch, ...]:
    """The watches of a series: those of its metric that take its form, else those of any metric."""

    def fitting(name: str) -> tuple[Watch, ...]:
        return tuple(
            watch
            for watch in policy.watches
            if watch.metric == name
            and watch.fits(series.metric, kind)
            and series.form in detectors().get(watch.detector).forms
        )

    return fitting(series.metric) or fitting(ANY_METRIC)


class Gathered(NamedTuple):
    """All cohorts of a policy, and the series that no watch can read."""

    cohorts: tuple[Cohort, ...]
    unwatched: tuple[Series, ...]


def gather(
    house: House,
    policy: DriftPolicy,
    now: datetime,
    kinds: Mapping[str, AssetKind | None],
    series: Sequence[Series],
) -> Gathered:
    """Every series under its watches, with its windows up to now."""
    groups: dict[tuple[int, str, int], list[Series]] = defaultdict(list)
    chosen: dict[tuple[str, str, AssetKind | None], tuple[Watch, ...]] = {}
    unwatched = []
    for one in series:
        kind = kinds.get(one.asset)
        key = (one.metric, one.form, kind)
        if key not in chosen:
            chosen[key] = watches_of(policy, one, kind)
        if not chosen[key]:
            unwatched.append(one)
        for watch in chosen[key]:
            # Histograms with other bins have other parts, but classes may become more.
            width = 0 if one.form == "categories" else part_count(one.form, one.layout)
            groups[policy.watches.index(watch), one.form, width].append(one)
    cohorts = tuple(
        Cohort(
            policy.watches[place],
            detectors().get(policy.watches[place].detector),
            members,
            policy=policy,
            now=now,
        )
        for (place, _, _), members in groups.items()
    )
    _fill(house.points, cohorts)
    for cohort in cohorts:
        cohort.close()
    return Gathered(cohorts, tuple(unwatched))


def _fill(points: SqlPoints, cohorts: Sequence[Cohort]) -> None:
    """Read every point that a cohort may need, once for each length of windows."""
    highest = max((s.id for cohort in cohorts for s in cohort.series), default=0)
    by_length: dict[int, list[tuple[Cohort, NDArray[np.int64]]]] = defaultdict(list)
    for cohort in cohorts:
        lengths = {one.length_s for one in cohort.series}
        rows = np.full(highest + 1, -1, dtype=np.int64)
        rows[[one.id for one in cohort.series]] = np.arange(len(cohort.series))
        for length in lengths:
            by_length[length].append((cohort, rows))
    for length, members in sorted(by_length.items()):
        since = min(_since(cohort) for cohort, _ in members)
        for chunk in points.chunks(length, since):
            for cohort, rows in members:
                _add(cohort, rows, chunk)


def _since(cohort: Cohort) -> int:
    starts = cohort.phase_s + (cohort.last - cohort.columns + 1) * cohort.window_s
    return int(starts.min())


def _add(cohort: Cohort, rows: NDArray[np.int64], chunk: Chunk) -> None:
    # A series may have come to be since the list was read; it waits for the next tick.
    known = chunk.series_id < rows.size
    here = np.full(chunk.series_id.shape, -1, dtype=np.int64)
    here[known] = rows[chunk.series_id[known]]
    mine = here >= 0
    if not mine.any():
        return
    taken = np.flatnonzero(mine)
    part = chunk.rows(taken)
    width = cohort.parts.shape[2]
    cohort.add(
        here[taken], part.start_s, part.items, part.revision, parts_of(cohort.form, part, width)
    )
