"""Build cohorts from stored points: match series to watches and load their windows.

Every point has the number of the event that recorded it, and every recording of a tick the number
up to which it had read. So what is new since then follows from the points.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from operator import itemgetter
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gatemark.core.result import AssetKind
from gatemark.release.drift.assets import ServingHistory
from gatemark.release.drift.detectors.registry import detectors
from gatemark.release.drift.events import JudgedUntil
from gatemark.release.drift.judging.cohort import Cohort
from gatemark.release.drift.judging.parts import FormName, Series, part_count
from gatemark.release.drift.judging.policy import ANY_METRIC, DriftPolicy, Watch
from gatemark.release.drift.open_stores import points_of
from gatemark.release.drift.stores.points import Chunk, SqlPoints
from gatemark.workspace import Workspace

REPLAYED: Final = 30
"""How many windows before the first new one a tick reads again, to find what they led to."""


def watches_of(policy: DriftPolicy, series: Series, kind: AssetKind | None) -> tuple[Watch, ...]:
    """Return the watches of the series' metric that accept its form, else those for any metric."""

    def takes(watch: Watch) -> bool:
        detector = detectors().get(watch.detector)
        is_named = watch.metric != ANY_METRIC
        return series.form in (
            detector.forms if is_named else detector.forms - detector.named_forms
        )

    def fitting(name: str) -> tuple[Watch, ...]:
        return tuple(
            watch
            for watch in policy.watches
            if watch.metric == name and takes(watch) and (kind is None or watch.is_for(kind))
        )

    metric = series.watched_metric
    named = tuple(watch for watch in policy.watches if watch.metric == metric and takes(watch))
    # The harmful direction depends on the metric, not on the kind of the asset.
    return fitting(metric) or named or fitting(ANY_METRIC)


class GatheredCohorts(NamedTuple):
    """All cohorts of a policy, and the series that no watch accepts."""

    cohorts: tuple[Cohort, ...]
    unwatched: tuple[Series, ...]


def gather(
    workspace: Workspace,
    policy: DriftPolicy,
    now: datetime,
    kinds: Mapping[str, AssetKind | None],
    series: Sequence[Series],
    *,
    judged: JudgedUntil | None = None,
    history: ServingHistory | None = None,
) -> GatheredCohorts:
    """Return every series under its watches, with its windows up to now.

    ``judged`` says how far the tick before this one got. Windows that the version of a series did
    not serve are left out. A baseline begins with the windows of points that name the
    version, such as those of its canary.
    """
    groups: dict[tuple[int, str, int], list[Series]] = defaultdict(list)
    chosen: dict[tuple[str, str, AssetKind | None], list[tuple[int, bool]]] = {}
    unwatched = []
    scores = {} if history is None else _find_scores(history, series)
    for one in series:
        kind = kinds.get(one.asset)
        key = (one.watched_metric, one.form, kind)
        if key not in chosen:
            chosen[key] = [
                (policy.watches.index(watch), detectors().get(watch.detector).needs_reference)
                for watch in watches_of(policy, one, kind)
            ]
        has_score = bool(scores.get(one.id))
        mine = [place for place, needs_score in chosen[key] if has_score or not needs_score]
        # Histograms with different bins cannot be compared, but a series may get more classes.
        width = 0 if one.form == "categories" else part_count(one.form, one.layout)
        for place in mine:
            groups[place, one.form, width].append(one)
        if not mine:
            unwatched.append(one)
    cohorts = tuple(
        Cohort(
            policy.watches[place],
            detectors().get(policy.watches[place].detector),
            members,
            policy=policy,
            now=now,
            rounds=_count_rounds(policy, policy.watches[place], members, judged, now),
            judged_at=None if judged is None else judged.at,
        )
        for (place, _, _), members in groups.items()
    )
    _fill(points_of(workspace), cohorts, judged, now)
    for cohort in cohorts:
        if history is not None:
            history.leave_out(cohort)
        _seed(cohort)
        for row, one in enumerate(cohort.series):
            if one.id in scores:
                cohort.reference[row] = scores[one.id]
        cohort.close()
    return GatheredCohorts(cohorts, tuple(unwatched))


def _find_scores(history: ServingHistory, series: Sequence[Series]) -> dict[int, tuple[float, int]]:
    found = ((one.id, history.sealed_score(one)) for one in series if one.form in ("value", "k"))
    return {number: score for number, score in found if score is not None}


def _seed(cohort: Cohort) -> None:
    """Begin the baseline of a series with the windows of its version from another series.

    A version has at most two series of a metric: one from points that name it, and one from points
    without a version while it serves.
    """
    alike: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for row, one in enumerate(cohort.series):
        if one.version is not None:
            grid = (int(cohort.window_s[row]), int(cohort.phase_s[row]))
            alike[one.asset, one.watched_metric, one.version, one.layout, grid].append(row)
    for pair in alike.values():
        if len(pair) < 2:
            continue
        own = [(cohort.raw_items[row] > 0) & ~cohort.is_foreign[row] for row in pair]
        for row, other, mine, theirs in zip(pair, pair[::-1], own, own[::-1], strict=True):
            if mine.any():
                before = np.arange(cohort.columns) < np.argmax(mine)
                cohort.seed(row, other, theirs & before)


def _count_rounds(
    policy: DriftPolicy,
    watch: Watch,
    members: Sequence[Series],
    judged: JudgedUntil | None,
    now: datetime,
) -> int:
    """Return how many windows are read: those that may be new, and some before them."""
    if judged is None:
        return policy.catch_up
    if judged.policy_digest != policy.digest:
        return policy.catch_up + REPLAYED
    shortest = min(one.window_s(watch) for one in members)
    elapsed = int((now - judged.at).total_seconds()) // shortest + 1
    return min(max(elapsed, 1), policy.catch_up) + REPLAYED


def _fill(
    points: SqlPoints, cohorts: Sequence[Cohort], judged: JudgedUntil | None, now: datetime
) -> None:
    """Load the points of all cohorts, with one query for each form and window length."""
    alike: dict[tuple[int, FormName], list[tuple[Cohort, NDArray[np.int64]]]] = defaultdict(list)
    for cohort in _share_windows(cohorts):
        lengths = {one.length_s for one in cohort.series}
        ids = np.asarray([one.id for one in cohort.series], dtype=np.int64)
        for length in lengths:
            alike[length, cohort.form].append((cohort, ids))
    news = None if judged is None else _News(judged.event, points.corrected_since(judged.event))
    for (length, form), members in sorted(alike.items(), key=itemgetter(0)):
        since = min(_find_start(cohort) for cohort, _ in members)
        for chunk in points.chunks(form, length, since):
            for cohort, ids in members:
                _add(cohort, ids, chunk, news)
    _find_last_points(points, cohorts, now)


class _News(NamedTuple):
    """The event after which points are new, and the windows that were corrected since."""

    event: int
    corrected: frozenset[tuple[int, int]]

    def are_corrected(self, chunk: Chunk) -> NDArray[np.bool_]:
        """Return the points of a chunk that replace one from before."""
        keys = zip(chunk.series_id.tolist(), chunk.start_s.tolist(), strict=True)
        return np.fromiter((key in self.corrected for key in keys), dtype=bool)


def _find_last_points(points: SqlPoints, cohorts: Sequence[Cohort], now: datetime) -> None:
    """Find when the series without any window in reach had their last point."""
    silent = [~cohort.raw_items.any(axis=1) for cohort in cohorts]
    pairs = list(zip(cohorts, silent, strict=True))
    wanted = {c.series[row].id for c, rows in pairs for row in np.flatnonzero(rows).tolist()}
    moment = int(now.timestamp())
    starts = points.last_starts(sorted(wanted), moment) if wanted else {}
    for cohort, rows in pairs:
        for row in np.flatnonzero(rows).tolist():
            start = starts.get(cohort.series[row].id)
            if start is not None:
                phase, window_s = int(cohort.phase_s[row]), int(cohort.window_s[row])
                index = (start - phase) // window_s
                if index <= cohort.last[row]:
                    cohort.last_point[row] = index


def _share_windows(cohorts: Sequence[Cohort]) -> list[Cohort]:
    """Let watches of the same series share their windows, and return the cohorts that hold them.

    Each would load and hold its own otherwise, and most metrics have two watches.
    """
    alike: dict[tuple[object, ...], list[Cohort]] = defaultdict(list)
    for cohort in cohorts:
        ids = tuple(one.id for one in cohort.series)
        alike[cohort.form, ids, cohort.window_s.tobytes()].append(cohort)
    holding = []
    for same in alike.values():
        longest = max(same, key=lambda cohort: cohort.columns)
        holding.append(longest)
        for cohort in same:
            if cohort is not longest:
                cohort.share(longest)
    return holding


def _find_start(cohort: Cohort) -> int:
    starts = cohort.phase_s + (cohort.last - cohort.columns + 1) * cohort.window_s
    return int(starts.min())


def _add(cohort: Cohort, ids: NDArray[np.int64], chunk: Chunk, news: _News | None) -> None:
    order = np.argsort(ids)
    place = np.minimum(np.searchsorted(ids, chunk.series_id, sorter=order), ids.size - 1)
    here = order[place]
    # A series that was added after the list was read waits for the next tick.
    taken = np.flatnonzero(ids[here] == chunk.series_id)
    if not taken.size:
        return
    part = chunk.rows(taken)
    is_written = is_corrected = None
    if news is not None:
        is_written = part.batch > news.event
        if news.corrected and (is_written & (part.revision > 1)).any():
            is_corrected = news.are_corrected(part)
    cohort.add(
        here[taken],
        part.start_s,
        part.items,
        part.revision,
        part.parts(cohort.parts.shape[2]),
        is_written=is_written,
        is_corrected=is_corrected,
    )
