"""The memory of a cohort between ticks: trails, frozen baselines and open episodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from gatemark.core.canonical import digest
from gatemark.core.levels import Level
from gatemark.drift.judging.cohort import (
    MISSING,
    NEVER,
    Baseline,
    Cohort,
    Rows,
    baseline_width,
)
from gatemark.drift.judging.levels import Trail
from gatemark.drift.signal import DriftSignal, Episode, rank_level

Indices = NDArray[np.int64]
Bytes = NDArray[np.uint8]


def count_written(cohort: Cohort, rows: Indices, judged: Indices) -> Bytes:
    """Return how often each of the latest windows up to a judged one was written, oldest first.

    Every point and every correction counts as one write, modulo 256: enough to notice a change.
    There is one column for each window that a baseline may reach back to.
    """
    return _find_revisions(cohort, rows, judged)[0]


def find_first_changed(cohort: Cohort, rows: Indices, judged: Indices, seen: Bytes) -> Indices:
    """Return the number of the first window written since it was seen, or NEVER."""
    times, inside = _find_revisions(cohort, rows, judged)
    changed = (times != seen) & inside
    first = judged - (seen.shape[1] - 1) + np.argmax(changed, axis=1)
    return np.where(changed.any(axis=1), first, NEVER)


def _find_revisions(
    cohort: Cohort, rows: Indices, judged: Indices
) -> tuple[Bytes, NDArray[np.bool_]]:
    """Return how often the latest windows up to a judged one were written, and which exist."""
    span, ends = cohort.watch.span, cohort.columns - (cohort.last[rows] - judged)
    high = int(ends[0]) if rows.size else 0
    if span <= high <= cohort.columns and bool((ends == high).all()):
        # Most series were judged together; looking up each window of each is slower.
        times = cohort.written[rows, high - span : high]
        return times.astype(np.uint8), np.ones((1, 1), dtype=bool)
    places = ends[:, None] - np.arange(span, 0, -1)
    inside = (places >= 0) & (places < cohort.columns) & (judged > NEVER)[:, None]
    times = cohort.written[rows[:, None], np.where(inside, places, 0)]
    return np.where(inside, times, 0).astype(np.uint8), inside


Flags = NDArray[np.bool_]
_SCORE = np.dtype("<f8")


class FrozenBaseline(msgspec.Struct, frozen=True):
    """A stored baseline: number, revision, items and parts of its windows."""

    number: tuple[int, ...]
    revision: tuple[int, ...]
    items: tuple[float, ...]
    parts: tuple[tuple[float, ...], ...]


class SeriesMemory(msgspec.Struct, frozen=True):
    """The stored state of one series between ticks; window numbers count windows of ``window_s``.

    Trails are packed scores; an empty trail has none. ``settled`` is the last window that is never
    judged again. ``seen`` has one byte for each of the latest windows up to ``judged``: how often
    it had been written then. ``is_anew`` asks to judge the windows after ``judged`` again and to
    merge the outcome into the episode; ``looked`` is the last window that had been judged before.
    ``version`` is the version that was judged last.
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
    settled: int = NEVER
    seen: bytes = b""
    is_anew: bool = False
    looked: int = NEVER
    version: str | None = None


class Memory:
    """The memory of a whole cohort, as arrays.

    ``judged`` is the latest judged window, ``since`` the first that may be in a baseline, ``calm``
    the number of quiet windows of an episode, ``settled`` the latest window that is never judged
    again. ``is_touched`` marks the rows that a tick changed. ``over`` are the ids of closed
    episodes: drift that is found again gets a new id.
    """

    def __init__(
        self,
        cohort: Cohort,
        kept: Mapping[int, SeriesMemory],
        over: frozenset[str] = frozenset(),
    ) -> None:
        count = len(cohort.series)
        self._cohort = cohort
        self.over = over
        self._window_s = cohort.window_s
        self.settled: Indices = np.full(count, NEVER, dtype=np.int64)
        self._looked: Indices = np.full(count, NEVER, dtype=np.int64)
        self._opened_now: set[str] = set()
        self.judged: Indices = np.full(count, NEVER, dtype=np.int64)
        self.since: Indices = np.full(count, NEVER, dtype=np.int64)
        self.calm: Indices = np.zeros(count, dtype=np.int64)
        never = np.full((count, cohort.watch.sustained + 1), np.nan)
        self.trail = Trail(never, never.copy())
        self.is_frozen: Flags = np.zeros(count, dtype=bool)
        # Few series are frozen at a time, so a dictionary is smaller than an array.
        self._frozen: dict[int, Baseline] = {}
        self.episodes: dict[int, Episode] = {}
        self.carried: dict[int, Episode] = {}
        self.closed: list[Episode] = []
        self.is_touched: Flags = np.zeros(count, dtype=bool)
        self.signals: dict[int, DriftSignal] = {}
        held: dict[int, SeriesMemory] = {}
        for row, (series, window_s) in enumerate(
            zip(cohort.series, cohort.window_s.tolist(), strict=True)
        ):
            known = kept.get(series.id)
            if known is None:
                continue
            if known.window_s == window_s:
                held[row] = self._recall(row, known)
            elif known.episode is not None:
                # The window length changed, so window numbers are void; only the episode is kept.
                self.carried[row] = known.episode
        self._recall_numbers(held)

    def _recall_numbers(self, held: Mapping[int, SeriesMemory]) -> None:
        """Fill whole columns at once; one number at a time is slower."""
        rows = np.fromiter(held, dtype=np.int64, count=len(held))
        self.judged[rows] = [one.judged for one in held.values()]
        self.since[rows] = [one.since for one in held.values()]
        self.calm[rows] = [one.calm for one in held.values()]
        self.settled[rows] = [one.settled for one in held.values()]
        self._looked[rows] = [one.looked for one in held.values()]
        for trail, all_stored in (
            (self.trail.warn, [one.warn_trail for one in held.values()]),
            (self.trail.breach, [one.breach_trail for one in held.values()]),
        ):
            size = _SCORE.itemsize * trail.shape[1]
            is_stored = np.fromiter((len(stored) == size for stored in all_stored), dtype=bool)
            scores = b"".join(stored for stored in all_stored if len(stored) == size)
            trail[rows[is_stored]] = np.frombuffer(scores, dtype=_SCORE).reshape(-1, trail.shape[1])

    def _recall(self, row: int, kept: SeriesMemory) -> SeriesMemory:
        """Recall signal, episode and baseline of a row, and return what else applies."""
        if kept.episode is None and kept.version not in (None, self._cohort.series[row].version):
            # Another version serves now: suspicions about its predecessor do not apply.
            kept = msgspec.structs.replace(kept, warn_trail=b"", breach_trail=b"", frozen=None)
        if kept.signal is not None:
            self.signals[row] = kept.signal
        if kept.episode is not None:
            # Windows are judged again first; then the episode is merged with the outcome.
            is_waiting = kept.is_anew or kept.judged == NEVER
            kept_in = self.carried if is_waiting else self.episodes
            kept_in[row] = kept.episode
        frozen = kept.frozen
        if frozen is not None and len(frozen.number) <= self._cohort.watch.baseline:
            width = len(frozen.parts[0]) if frozen.parts else 0
            parts = np.zeros((len(frozen.number), self._cohort.parts.shape[2]))
            parts[:, :width] = np.reshape(frozen.parts, (len(frozen.number), width))
            self.is_frozen[row] = True
            self._frozen[row] = Baseline(
                number=np.asarray(frozen.number, dtype=np.int64),
                revision=np.asarray(frozen.revision, dtype=np.int64),
                items=np.asarray(frozen.items, dtype=np.float64),
                parts=parts,
            )
        return kept

    def baseline(self, trailing: Baseline, rows: Rows) -> Baseline:
        """Return the trailing baseline of some rows, or the frozen one where there is one."""
        is_frozen = self.is_frozen[rows]
        if not is_frozen.any():
            return trailing
        numbers = np.arange(self.is_frozen.size)[rows]
        # A frozen baseline may be longer than the trailing one, as after a reset.
        count = max(self._frozen[row].items.size for row in numbers[is_frozen].tolist())
        used = trailing.widen(baseline_width(self._cohort.watch.baseline, count))
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
        self.close(row, moment, cause)
        if not is_takeover:
            self.since[row] = first
        self.settled[row] = max(int(self.settled[row]), first - 1)
        for trail in self.trail:
            trail[row] = np.nan

    def is_first_seen(self, row: int, episode: Episode) -> bool:
        """Return whether this tick was the first to judge the window that opened an episode."""
        opened = self._cohort.index_at(row, episode.opened.start)
        return episode.id in self._opened_now and opened > int(self._looked[row])

    def close(self, row: int, moment: datetime, cause: str) -> None:
        """Close the episode of a row."""
        self.is_touched[row] = True
        episode = self.episodes.pop(row, None) or self.carried.pop(row)
        # A past episode that was found by judging again and is over needs no alert.
        if episode.id not in self._opened_now or self.is_first_seen(row, episode):
            over = msgspec.structs.replace(episode, closed_at=moment, closed_because=cause)
            self.closed.append(over)
        self.is_frozen[row] = False
        self.calm[row] = 0

    def note(
        self, cohort: Cohort, row: int, signal: DriftSignal, policy_digest: str, column: int
    ) -> None:
        """Open an episode for an alarm in a column, or extend the open one."""
        if signal.window is None:
            return
        known = self.episodes.get(row)
        if known is None:
            if self.is_frozen[row]:
                number, revision, items, parts = self._frozen[row]
                used = Baseline(number[None], revision[None], items[None], parts[None])
            else:
                used = cohort.trailing(column, self.since, slice(row, row + 1))
            ids, content = describe_baseline(cohort, row, used)
            names = (signal.asset, signal.metric, signal.detector, signal.window.id)
            identity = digest([*names, policy_digest])
            self._opened_now.add(identity)
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
                version=signal.version,
            )
            return
        grew = rank_level(signal.level) > rank_level(known.level)
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
        """Merge earlier episodes with the outcome of judging the same windows again."""
        for row, before in self.carried.items():
            now = self.episodes.get(row)
            if now is None:
                self.episodes[row] = before
                continue
            grew = rank_level(now.level) > rank_level(before.level)
            self.episodes[row] = msgspec.structs.replace(
                before,
                level=now.level if grew else before.level,
                latest=max(before.latest, now.latest, key=lambda window: window.end),
                breached=before.breached or now.breached,
                signal=msgspec.structs.replace(now.signal, episode=before.id)
                if grew
                else before.signal,
            )
        self.carried.clear()
        for row, episode in self.episodes.items():
            identity = episode.id
            while identity in self.over:
                identity = digest([identity, "again"])
            if identity != episode.id:
                signal = msgspec.structs.replace(episode.signal, episode=identity)
                self.episodes[row] = msgspec.structs.replace(episode, id=identity, signal=signal)

    def remembered(self, rows: Indices) -> Iterator[SeriesMemory]:
        """Yield the state to store for some rows."""
        numbers = (self._window_s, self.judged, self.since, self.calm, self.settled)
        # Convert whole columns at once; one value at a time is slower than the database write.
        columns = [part[rows].tolist() for part in numbers]
        warn, breach = (_split_rows(trail[rows].astype(_SCORE)) for trail in self.trail)
        seen = count_written(self._cohort, rows, self.judged[rows])
        is_frozen = self.is_frozen[rows].tolist()
        kept = zip(rows.tolist(), *columns, warn, breach, is_frozen, _split_rows(seen), strict=True)
        for row, window_s, judged, since, calm, settled, warned, breached, frozen, times in kept:
            yield SeriesMemory(
                window_s=window_s,
                judged=judged,
                since=since,
                calm=calm,
                warn_trail=warned,
                breach_trail=breached,
                frozen=self._copy_frozen(row) if frozen else None,
                episode=self.episodes.get(row),
                signal=self.signals.get(row),
                settled=settled,
                seen=times,
                version=self._cohort.series[row].version,
            )

    def _copy_frozen(self, row: int) -> FrozenBaseline:
        frozen = self._frozen[row]
        here = frozen.items > 0
        return FrozenBaseline(
            number=tuple(frozen.number[here].tolist()),
            revision=tuple(frozen.revision[here].tolist()),
            items=tuple(frozen.items[here].tolist()),
            parts=tuple(tuple(parts) for parts in frozen.parts[here].tolist()),
        )


def _split_rows(table: NDArray[Any]) -> list[bytes]:
    """Return the bytes of each row."""
    size = table.shape[1] * table.dtype.itemsize
    joined = table.tobytes()
    return [joined[at : at + size] for at in range(0, len(joined), size)]


def describe_baseline(cohort: Cohort, row: int, baseline: Baseline) -> tuple[tuple[str, ...], str]:
    """Return ids and revisions of a row's baseline windows, and the digest of their content."""
    windows = [
        (
            f"{cohort.window_id(row, number)}#{revision}",
            items,
            [None if np.isnan(part) else part for part in parts],
        )
        for number, revision, items, parts in zip(
            *(part[0].tolist() for part in baseline), strict=True
        )
        if items > 0
    ]
    return tuple(name for name, _, _ in windows), digest(windows)


def carry_to_new_policy(kept: SeriesMemory) -> SeriesMemory:
    """Return the state that still applies under another policy: episode, resets, settled windows.

    All other windows within reach are judged again, and the outcome is merged into the episode.
    """
    return msgspec.structs.replace(
        kept,
        judged=kept.settled,
        calm=0,
        warn_trail=b"",
        breach_trail=b"",
        frozen=None,
        signal=None,
        seen=b"",
        is_anew=True,
        looked=kept.judged,
    )


def carry_after_change(
    kept: SeriesMemory, first: int, opened: int | None, sustained: int
) -> SeriesMemory:
    """Return the state that still applies after the judged window ``first`` was written again.

    It and all later windows are judged again, starting ``sustained`` windows before it. ``opened``
    is the window that opened the episode. An earlier episode keeps its baseline; one that the
    change may affect is merged at the end.
    """
    judged = max(first - 2 - sustained, kept.settled)
    again = msgspec.structs.replace(
        kept,
        judged=judged,
        calm=0,
        warn_trail=b"",
        breach_trail=b"",
        signal=None,
        seen=b"",
        looked=kept.judged,
    )
    used = kept.frozen.number if kept.frozen is not None else ()
    if opened is not None and opened < first and all(number < first for number in used):
        return msgspec.structs.replace(again, judged=max(judged, opened - 1))
    return msgspec.structs.replace(again, frozen=None, is_anew=True)
