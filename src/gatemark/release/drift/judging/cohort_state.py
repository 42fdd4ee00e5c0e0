"""What is known of the series of a cohort during one tick; nothing of it is kept.

Scores, suspicions and quiet windows follow from the points. Only episodes are recorded, each with
the baseline that it froze; the windows before the first new one are read again to find the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from gatemark.core.canonical import digest
from gatemark.core.levels import Level
from gatemark.release.drift.judging.cohort import (
    MISSING,
    NEVER,
    Baseline,
    Cohort,
    Rows,
    baseline_width,
)
from gatemark.release.drift.judging.levels import Trail
from gatemark.release.drift.signal import DriftSignal, Ending, Episode, Window, rank_level

Indices = NDArray[np.int64]
Flags = NDArray[np.bool_]
BaselineWindow = tuple[str, float, tuple[float | None, ...]]
"""A window of a recorded baseline: its id with its revision, its items, and its parts."""


SeriesName = tuple[str, str, str]
"""Asset, metric and detector."""


class RecordedEpisode(NamedTuple):
    """An episode, and the windows of the baseline that it froze; empty if it froze none."""

    episode: Episode
    baseline: tuple[BaselineWindow, ...] = ()


class PastEpisode(msgspec.Struct, frozen=True):
    """What matters of an episode that is over."""

    id: str
    asset: str
    metric: str
    detector: str
    opened: Window
    closed_at: datetime
    ending: Ending


class EpisodesBefore(NamedTuple):
    """The episodes that were recorded before a tick: those that are open, and those of the past."""

    open: Mapping[SeriesName, RecordedEpisode]
    past: Mapping[SeriesName, Sequence[PastEpisode]]


NO_EPISODES = EpisodesBefore({}, {})


class CohortState:
    """The state of a whole cohort, as arrays.

    ``since`` is the first window that may be in a baseline, ``settled`` the latest window that is
    never judged again, ``calm`` the number of quiet windows in a row. ``waiting`` has the open
    episodes whose first window has not come yet in this tick.
    """

    def __init__(self, cohort: Cohort, before: EpisodesBefore = NO_EPISODES) -> None:
        count = len(cohort.series)
        self._cohort = cohort
        self.settled: Indices = np.full(count, NEVER, dtype=np.int64)
        self.since: Indices = np.full(count, NEVER, dtype=np.int64)
        self.calm: Indices = np.zeros(count, dtype=np.int64)
        never = np.full((count, cohort.watch.sustained + 1), np.nan)
        self.trail = Trail(never, never.copy())
        self.freezes = cohort.mode == "corrected" and not cohort.detector.is_self_starting
        self.is_frozen: Flags = np.zeros(count, dtype=bool)
        # Few series are frozen at a time, so a dictionary is smaller than an array.
        self._frozen: dict[int, Baseline] = {}
        self.waiting: dict[int, Episode] = {}
        self.episodes: dict[int, Episode] = {}
        self.closed: list[Episode] = []
        self.baselines: dict[str, tuple[BaselineWindow, ...]] = {}
        self._over: set[str] = set()
        self._opened_now: set[str] = set()
        # The episodes that were over before this tick: row, first and last window.
        self._past: list[tuple[int, int, int]] = []
        for row, series in enumerate(cohort.series):
            name = (series.asset, series.metric, cohort.detector.name)
            if (known := before.open.get(name)) is not None:
                self.waiting[row] = known.episode
                self.baselines[known.episode.id] = known.baseline
            for past in before.past.get(name, ()):
                self._recall(row, past)

    def _recall(self, row: int, past: PastEpisode) -> None:
        self._over.add(past.id)
        first = self._cohort.first_index_from(row, past.closed_at)
        if past.ending == "quiet":
            self._past.append((row, self._cohort.index_at(row, past.opened.start), first - 1))
            return
        self.settled[row] = max(int(self.settled[row]), first - 1)
        if past.ending == "reset":
            self.since[row] = max(int(self.since[row]), first)

    def is_due(self, column: int, *, is_last: bool) -> Flags:
        """Return the rows whose window in a column must be read.

        A window that was judged before is read again where the judgement of later ones needs it:
        for the scores before them, for a suspicion, and for the quiet windows of an episode.
        """
        index = self._cohort.index_of(column)
        if is_last:
            return np.ones(index.size, dtype=bool)
        # A window that was over before a new start, but never judged, is not left out.
        due = index > np.minimum(self.settled, self._cohort.looked)
        if self.freezes or self._cohort.watch.sustained > 1:
            return due
        has_episode = np.zeros(due.size, dtype=bool)
        has_episode[list(self.episodes)] = True
        return due & (has_episode | self.is_new(column))

    def is_new(self, column: int) -> Flags:
        """Return the rows whose window in a column this tick is to judge."""
        index, cohort = self._cohort.index_of(column), self._cohort
        return (index >= cohort.first_new) & (index > np.minimum(self.settled, cohort.looked))

    def enter(self, column: int) -> None:
        """Take up the open episodes that began in or before a column."""
        for row, episode in list(self.waiting.items()):
            last = int(self._cohort.last[row]) - (self._cohort.columns - 1 - column)
            if self._cohort.index_at(row, episode.opened.start) <= last:
                self._take_up(row)

    def enter_rest(self) -> None:
        """Take up the open episodes that begin after the last window, as by a clock before."""
        for row in list(self.waiting):
            self._take_up(row)

    def _take_up(self, row: int) -> None:
        episode = self.waiting.pop(row)
        now = self.episodes.get(row)
        if now is not None:
            # Drift that shows earlier in late windows belongs to the same episode.
            self.episodes[row] = _merge(episode, now)
            return
        self.episodes[row] = episode
        self.calm[row] = 0
        kept = self.baselines.get(episode.id, ())
        seconds = round((episode.opened.end - episode.opened.start).total_seconds())
        if self.freezes and kept and seconds == self._cohort.window_s[row]:
            self._frozen[row] = self._read_baseline(row, kept)
            self.is_frozen[row] = True

    def _read_baseline(self, row: int, windows: Sequence[BaselineWindow]) -> Baseline:
        names = [name.rpartition("#") for name, _, _ in windows]
        parts = np.zeros((len(windows), self._cohort.parts.shape[2]))
        for at, (_, _, own) in enumerate(windows):
            parts[at, : len(own)] = [np.nan if part is None else part for part in own]
        return Baseline(
            number=np.asarray(
                [self._cohort.index_at(row, _start_of(name)) for name, _, _ in names],
                dtype=np.int64,
            ),
            revision=np.asarray([int(revision) for _, _, revision in names], dtype=np.int64),
            items=np.asarray([items for _, items, _ in windows], dtype=np.float64),
            parts=parts,
        )

    def has_episode(self, column: int) -> Flags:
        """Return the rows that have an open episode, or had one in a window judged before."""
        has_one = np.zeros(self.calm.size, dtype=bool)
        has_one[list(self.episodes)] = True
        if self._past:
            rows, first, last = np.asarray(self._past, dtype=np.int64).T
            index = self._cohort.index_of(column)[rows]
            is_past = (first <= index) & (index < last) & (index < self._cohort.first_new[rows])
            has_one[rows[is_past]] = True
        return has_one

    def baseline(self, trailing: Baseline, rows: Rows) -> Baseline:
        """Return the trailing baseline of some rows, or the frozen one where there is one."""
        is_frozen = self.is_frozen[rows]
        if not is_frozen.any():
            return trailing
        numbers = np.arange(self.is_frozen.size)[rows]
        # A frozen baseline may be longer than the trailing one, as after a reset or under a policy
        # with longer baselines.
        count = max(self._frozen[row].items.size for row in numbers[is_frozen].tolist())
        used = trailing.widen(max(baseline_width(self._cohort.watch.baseline, count), count))
        for at in np.flatnonzero(is_frozen).tolist():
            kept = self._frozen[int(numbers[at])]
            for target, source, missing in zip(used, kept, MISSING, strict=True):
                target[at] = missing
                target[at, : len(source)] = source
        return used

    def freeze(self, rows: Indices, baseline: Baseline) -> None:
        """Freeze the baseline of some rows."""
        for at, row in enumerate(rows.tolist()):
            self._frozen[row] = Baseline(*(part[at].copy() for part in baseline))
        self.is_frozen[rows] = True

    def unfreeze(self, rows: Indices) -> None:
        """Return some rows to their trailing baseline."""
        self.is_frozen[rows] = False

    def rearm(
        self, row: int, first: int, moment: datetime, cause: str, *, is_takeover: bool
    ) -> None:
        """Close the episode of a row because its version was examined again, or is gone.

        ``first`` is the first window of the version that serves now. A version that was examined
        again starts a new baseline there; another version has windows of its own.
        """
        self.close(row, moment, cause, "takeover" if is_takeover else "reset")
        if not is_takeover:
            self.since[row] = first
        self.settled[row] = max(int(self.settled[row]), first - 1)
        for trail in self.trail:
            trail[row] = np.nan

    def is_first_seen(self, row: int, episode: Episode) -> bool:
        """Return whether this tick was the first to judge the window that opened an episode."""
        opened = self._cohort.index_at(row, episode.opened.start)
        return episode.id in self._opened_now and opened > int(self._cohort.looked[row])

    def close(self, row: int, moment: datetime, cause: str, ending: Ending) -> None:
        """Close the episode of a row."""
        episode = self.episodes.pop(row, None) or self.waiting.pop(row)
        # A past episode that was found by judging again and is over needs no alert.
        if episode.id not in self._opened_now or self.is_first_seen(row, episode):
            over = msgspec.structs.replace(
                episode, closed_at=moment, closed_because=cause, ending=ending
            )
            self.closed.append(over)
        self.is_frozen[row] = False
        self.calm[row] = 0

    def note(self, row: int, signal: DriftSignal, policy_digest: str, column: int) -> None:
        """Open an episode for an alarm in a column, or extend the open one."""
        window, known = signal.window, self.episodes.get(row)
        if window is None:
            return
        if known is None:
            self.episodes[row] = self._open(row, signal, window, policy_digest, column)
            return
        grew = rank_level(signal.level) > rank_level(known.level)
        is_first_breach = signal.level == "BREACH" and known.breached is None
        level: Level = signal.level if grew else known.level
        self.episodes[row] = msgspec.structs.replace(
            known,
            level=level,
            latest=max(known.latest, window, key=lambda window: window.end),
            breached=window if is_first_breach else known.breached,
            signal=msgspec.structs.replace(signal, episode=known.id) if grew else known.signal,
        )

    def _open(
        self, row: int, signal: DriftSignal, window: Window, policy_digest: str, column: int
    ) -> Episode:
        if self.is_frozen[row]:
            number, revision, items, parts = self._frozen[row]
            used = Baseline(number[None], revision[None], items[None], parts[None])
        else:
            used = self._cohort.trailing(column, self.since, slice(row, row + 1))
        windows = tuple(_list_windows(self._cohort, row, used))
        names = (signal.asset, signal.metric, signal.detector, window.id)
        identity = digest([*names, policy_digest])
        while identity in self._over:
            # Drift that is found again after its episode is over is another episode.
            identity = digest([identity, "again"])
        self._opened_now.add(identity)
        self.baselines[identity] = windows if self.freezes else ()
        return Episode(
            id=identity,
            asset=signal.asset,
            metric=signal.metric,
            detector=signal.detector,
            level=signal.level,
            opened=window,
            latest=window,
            breached=window if signal.level == "BREACH" else None,
            signal=msgspec.structs.replace(signal, episode=identity),
            policy_digest=policy_digest,
            baseline_ids=tuple(name for name, _, _ in windows),
            baseline_digest=digest(windows),
            version=signal.version,
        )

    def recorded(self) -> Iterator[RecordedEpisode]:
        """Yield the episodes to record: those that are over, then those that are open."""
        for episode in (*self.closed, *self.episodes.values()):
            yield RecordedEpisode(episode, self.baselines[episode.id])


def _merge(before: Episode, now: Episode) -> Episode:
    """Return a recorded episode with what a tick found in the same windows."""
    grew = rank_level(now.level) > rank_level(before.level)
    return msgspec.structs.replace(
        before,
        level=now.level if grew else before.level,
        latest=max(before.latest, now.latest, key=lambda window: window.end),
        breached=before.breached or now.breached,
        signal=msgspec.structs.replace(now.signal, episode=before.id) if grew else before.signal,
    )


def _list_windows(cohort: Cohort, row: int, baseline: Baseline) -> Iterator[BaselineWindow]:
    """Yield the windows of a row's baseline, with their content."""
    for number, revision, items, parts in zip(
        *(part[0].tolist() for part in baseline), strict=True
    ):
        if items > 0:
            own = tuple(None if np.isnan(part) else part for part in parts)
            yield f"{cohort.window_id(row, number)}#{revision}", items, own


def _start_of(window_id: str) -> datetime:
    """Return the start of a window from its id."""
    start, _, _ = window_id.partition("/")
    return datetime.strptime(start, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
