"""What a cohort remembers from tick to tick: trails, frozen baselines and open episodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime

import msgspec
import numpy as np
from numpy.typing import NDArray

from gatemark.core.canonical import digest
from gatemark.core.drift import DriftSignal, Episode, Level, severity
from gatemark.watch.cohort import NEVER, Baseline, Cohort, Rows
from gatemark.watch.levels import Trail, empty_trail

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
Flags = NDArray[np.bool_]
_SCORE = np.dtype("<f8")


class FrozenBaseline(msgspec.Struct, frozen=True):
    """A baseline that is kept as it was: number, revision, items and parts of its windows."""

    number: tuple[int, ...]
    revision: tuple[int, ...]
    items: tuple[float, ...]
    parts: tuple[tuple[float, ...], ...]


class SeriesMemory(msgspec.Struct, frozen=True):
    """What is kept of one series between ticks; numbers of windows are of this length.

    Trails are packed scores; an empty one is that of a series without any.
    """

    window_s: int
    judged: int
    since: int
    calm: int
    warn_trail: bytes
    breach_trail: bytes
    frozen: FrozenBaseline | None
    episode: Episode | None
    signal: DriftSignal | None


class Memory:
    """The memory of a whole cohort, as arrays.

    ``judged`` is the latest window that was looked at, ``since`` the first that may be in a
    baseline, ``calm`` how many quiet windows an episode has had. ``is_touched`` marks the rows
    that a tick changed.
    """

    def __init__(self, cohort: Cohort, kept: Mapping[int, SeriesMemory]) -> None:
        count, wanted = len(cohort.series), cohort.watch.baseline
        self._window_s = cohort.window_s
        self.judged: Indices = np.full(count, NEVER, dtype=np.int64)
        self.since: Indices = np.full(count, NEVER, dtype=np.int64)
        self.calm: Indices = np.zeros(count, dtype=np.int64)
        self.trail = empty_trail(count, cohort.watch)
        self.is_frozen: Flags = np.zeros(count, dtype=bool)
        self.frozen = Baseline(
            number=np.full((count, wanted), NEVER, dtype=np.int64),
            revision=np.zeros((count, wanted), dtype=np.int64),
            items=np.zeros((count, wanted)),
            parts=np.zeros((count, wanted, cohort.parts.shape[2])),
        )
        self.episodes: dict[int, Episode] = {}
        self.carried: dict[int, Episode] = {}
        self.closed: list[Episode] = []
        self.is_touched: Flags = np.zeros(count, dtype=bool)
        self.signals: dict[int, DriftSignal] = {}
        for row, series in enumerate(cohort.series):
            if series.id in kept:
                self._recall(row, kept[series.id])

    def _recall(self, row: int, kept: SeriesMemory) -> None:
        if kept.window_s != self._window_s[row]:
            # Windows are counted otherwise now; only the trouble itself is remembered.
            if kept.episode is not None:
                self.carried[row] = kept.episode
            return
        self.judged[row], self.since[row], self.calm[row] = kept.judged, kept.since, kept.calm
        for trail, told in zip(self.trail, (kept.warn_trail, kept.breach_trail), strict=True):
            if len(told) == _SCORE.itemsize * trail.shape[1]:
                trail[row] = np.frombuffer(told, dtype=_SCORE)
        if kept.signal is not None:
            self.signals[row] = kept.signal
        if kept.episode is not None:
            # What was never judged is judged from the start; the episode waits for the end.
            kept_in = self.carried if kept.judged == NEVER else self.episodes
            kept_in[row] = kept.episode
        frozen = kept.frozen
        if frozen is not None and len(frozen.number) <= self.frozen.number.shape[1]:
            cut = len(frozen.number)
            width = len(frozen.parts[0]) if frozen.parts else 0
            self.is_frozen[row] = True
            self.frozen.number[row, :cut] = frozen.number
            self.frozen.revision[row, :cut] = frozen.revision
            self.frozen.items[row, :cut] = frozen.items
            self.frozen.parts[row, :cut, :width] = frozen.parts

    def baseline(self, trailing: Baseline, rows: Rows) -> Baseline:
        """The trailing baseline of some rows, or the frozen one where there is one."""
        is_frozen = self.is_frozen[rows]
        if not is_frozen.any():
            return trailing
        used = trailing.copied()
        for target, source in zip(used, self.frozen, strict=True):
            target[is_frozen] = source[rows][is_frozen]
        return used

    def freeze(self, rows: Indices, baseline: Baseline) -> None:
        """Keep the baseline of some rows that have none kept yet."""
        for target, source in zip(self.frozen, baseline, strict=True):
            target[rows] = source
        self.is_frozen[rows] = True

    def thaw(self, rows: Indices) -> None:
        """Let the baseline of some rows trail again."""
        self.is_frozen[rows] = False

    def rearm(self, row: int, since: int, moment: datetime, cause: str) -> None:
        """Close the episode of a row because its asset was examined anew; its past is forgotten."""
        self.close(row, moment, cause)
        self.since[row] = since
        for trail in self.trail:
            trail[row] = np.nan

    def close(self, row: int, moment: datetime, cause: str) -> None:
        """Close the episode of a row."""
        self.is_touched[row] = True
        episode = self.episodes.pop(row, None) or self.carried.pop(row)
        self.closed.append(msgspec.structs.replace(episode, closed_at=moment, closed_because=cause))
        self.is_frozen[row] = False
        self.calm[row] = 0

    def note(
        self, cohort: Cohort, row: int, signal: DriftSignal, policy_digest: str, column: int
    ) -> None:
        """Open an episode for an alarm in a column, or carry the open one on."""
        if signal.window is None:
            return
        known = self.episodes.get(row)
        if known is None:
            rows = slice(row, row + 1)
            used = self.baseline(cohort.trailing(column, self.since, rows), rows)
            ids, content = baseline_account(cohort, row, used)
            names = (signal.asset, signal.metric, signal.detector, signal.window.id)
            identity = digest([*names, policy_digest])
            self.episodes[row] = Episode(
                id=identity,
                asset=signal.asset,
                metric=signal.metric,
                detector=signal.detector,
                level=signal.level,
                opened=signal.window,
                latest=signal.window,
                breached=signal.window if signal.level == "BREACH" else None,
                signal=msgspec.structs.replace(signal, episode=identity),
                policy_digest=policy_digest,
                baseline_ids=ids,
                baseline_digest=content,
            )
            return
        grew = severity(signal.level) > severity(known.level)
        is_first_breach = signal.level == "BREACH" and known.breached is None
        level: Level = signal.level if grew else known.level
        self.episodes[row] = msgspec.structs.replace(
            known,
            level=level,
            latest=signal.window,
            breached=signal.window if is_first_breach else known.breached,
            signal=msgspec.structs.replace(signal, episode=known.id) if grew else known.signal,
        )

    def carry(self) -> None:
        """Join episodes from before with what the same windows came to when judged anew."""
        for row, before in self.carried.items():
            now = self.episodes.get(row)
            if now is None:
                self.episodes[row] = before
                continue
            grew = severity(now.level) > severity(before.level)
            self.episodes[row] = msgspec.structs.replace(
                before,
                level=now.level if grew else before.level,
                latest=max(before.latest, now.latest),
                breached=before.breached or now.breached,
                signal=msgspec.structs.replace(now.signal, episode=before.id)
                if grew
                else before.signal,
            )
        self.carried.clear()

    def told(self, rows: Indices) -> Iterator[SeriesMemory]:
        """What to keep of some rows, one after the other."""
        numbers = (self._window_s, self.judged, self.since, self.calm)
        # Whole columns become Python's values at once; one by one would take longer than writing.
        columns = [part[rows].tolist() for part in numbers]
        warn, breach = (_packed(trail[rows]) for trail in self.trail)
        kept = zip(
            rows.tolist(), *columns, warn, breach, self.is_frozen[rows].tolist(), strict=True
        )
        for row, window_s, judged, since, calm, warned, breached, is_frozen in kept:
            yield SeriesMemory(
                window_s=window_s,
                judged=judged,
                since=since,
                calm=calm,
                warn_trail=warned,
                breach_trail=breached,
                frozen=self._frozen(row) if is_frozen else None,
                episode=self.episodes.get(row),
                signal=self.signals.get(row),
            )

    def _frozen(self, row: int) -> FrozenBaseline:
        here = self.frozen.items[row] > 0
        return FrozenBaseline(
            number=tuple(self.frozen.number[row, here].tolist()),
            revision=tuple(self.frozen.revision[row, here].tolist()),
            items=tuple(self.frozen.items[row, here].tolist()),
            parts=tuple(tuple(parts) for parts in self.frozen.parts[row, here].tolist()),
        )


def _packed(trails: Floats) -> list[bytes]:
    """The scores of each row as bytes."""
    size = trails.shape[1] * _SCORE.itemsize
    joined = trails.astype(_SCORE).tobytes()
    return [joined[at : at + size] for at in range(0, len(joined), size)]


def under_new_policy(kept: SeriesMemory) -> SeriesMemory:
    """What is still worth remembering when other lines are drawn: open trouble and fresh starts.

    All windows within reach are judged again; what they come to joins the episode.
    """
    return msgspec.structs.replace(
        kept,
        judged=NEVER,
        calm=0,
        warn_trail=b"",
        breach_trail=b"",
        frozen=None,
        signal=None,
    )


def baseline_account(cohort: Cohort, row: int, baseline: Baseline) -> tuple[tuple[str, ...], str]:
    """The names of a row's baseline windows with their revisions, the digest of what they hold."""
    windows = [
        (
            f"{cohort.window(row, int(number)).id}#{revision}",
            items,
            [None if np.isnan(part) else part for part in parts],
        )
        for number, revision, items, parts in zip(
            *(part[0].tolist() for part in baseline), strict=True
        )
        if items > 0
    ]
    return tuple(name for name, _, _ in windows), digest(windows)


def followed(memory: Memory, trail: Trail, rows: Indices) -> None:
    """Put the trails of some rows in the place of what was there."""
    memory.trail.warn[rows] = trail.warn
    memory.trail.breach[rows] = trail.breach
