"""Series that one watch judges together, as arrays over their closed windows."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from gatemark.release.drift.judging.detector import Detector, SeriesSample
from gatemark.release.drift.judging.parts import FormName, Series, part_count
from gatemark.release.drift.judging.policy import DriftPolicy, Watch
from gatemark.release.drift.signal import Mode, Window

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
Flags = NDArray[np.bool_]
Rows = Indices | slice
"""A selection of cohort rows, in order."""

NEVER = -(2**62)
LANES = 8
PAIRED = 128
"""Up to this many numbers, NumPy sums them in eight lanes: each adds every eighth number."""


def baseline_width(baseline: int, count: int) -> int:
    """Return a width that holds ``count`` windows of a baseline, with the sums of the whole width.

    Most fleets have fewer windows than a long baseline has room for, and empty windows cost as much
    as others. A width that is smaller by a multiple of eight puts every number into the same lane
    of a sum, so that not a bit of a reading depends on it (bench/drift shows the gain).
    """
    if baseline >= PAIRED:
        return baseline
    # One window less and one window more are summed, too.
    spare = ((baseline - 1) // LANES * LANES - max(count, LANES)) // LANES
    return baseline - LANES * max(spare, 0)


class Baseline(NamedTuple):
    """The baseline windows of some series: number, revision, items and parts of each.

    Zero items mark a missing window.
    """

    number: Indices
    revision: Indices
    items: Floats
    parts: Floats

    @property
    def windows(self) -> Floats:
        """Return the number of windows in each baseline."""
        return np.asarray(np.count_nonzero(self.items, axis=1), dtype=np.float64)

    def widen(self, width: int) -> Baseline:
        """Return a copy with room for at least ``width`` windows."""
        return _pad_baseline(self, max(width, self.items.shape[1]))

    def only(self, chosen: Flags) -> Baseline:
        """Return the baselines of the chosen series."""
        return Baseline(
            number=self.number[chosen],
            revision=self.revision[chosen],
            items=self.items[chosen],
            parts=self.parts[chosen],
        )


MISSING = (NEVER, 0, 0.0, 0.0)
"""The fill value of each baseline array for a missing window."""


_KINDS = (np.int64, np.int64, np.float64, np.float64)


def _pad_baseline(parts: Sequence[NDArray[Any]], width: int) -> Baseline:
    """Return a baseline of some width, with the windows of a series side by side."""
    return Baseline(
        *(
            _widen_part(part, missing, width, kind)
            for part, missing, kind in zip(parts, MISSING, _KINDS, strict=True)
        )
    )


def _widen_part(part: NDArray[Any], missing: float, width: int, kind: type) -> NDArray[Any]:
    wide = np.empty((part.shape[0], width, *part.shape[2:]), dtype=kind)
    wide[:, : part.shape[1]] = part
    wide[:, part.shape[1] :] = missing
    return wide


class Cohort:
    """The windows of some series under one watch, with the latest closed window in the last column.

    ``rounds`` is how many of the latest windows may have to be read. Column ``c`` of a series is
    its window number ``last - (columns - 1 - c)``, counted from the phase of its grid.

    ``first_new`` is the first window of each series that this tick is to judge, ``looked`` the last
    one that a tick before it judged; ``is_changed`` marks the series in which a window up to that
    one is new or has changed. ``last_point`` is the window of the last point of a series that has
    none in the columns; ``checked`` is how many windows of a series without any point are named.
    """

    def __init__(
        self,
        watch: Watch,
        detector: Detector,
        series: Sequence[Series],
        *,
        policy: DriftPolicy,
        now: datetime,
        rounds: int | None = None,
        judged_at: datetime | None = None,
    ) -> None:
        self.watch = watch
        self.detector = detector
        self.options = _choose_options(detector, watch, policy.mode)
        self.series = tuple(series)
        self.mode: Mode = policy.mode
        self.form: FormName = series[0].form
        self.recent = int(detector.recent(self.options))
        self.least_lag = self.recent - 1
        self.lag = max(self.least_lag, 0 if policy.mode == "literal" else watch.sustained - 1)
        self.rounds = policy.catch_up if rounds is None else rounds
        around = max(self.recent, watch.sustained) + watch.span
        self.columns = self.rounds + around
        self.checked = min(self.columns, policy.catch_up + around)
        self.window_s = np.asarray([s.window_s(watch) for s in series], dtype=np.int64)
        lengths = np.asarray([s.length_s for s in series], dtype=np.int64)
        phases = np.asarray([s.phase_s for s in series], dtype=np.int64)
        # Merged windows start at midnight UTC; other windows keep the phase they were pushed with.
        self.phase_s = np.where(self.window_s == lengths, phases, 0)
        moment = int(now.timestamp()) - policy.lateness_s
        self.last: Indices = (moment - self.phase_s) // self.window_s - 1
        self._judged_to: Indices | None = None
        if judged_at is not None:
            before = int(judged_at.timestamp()) - policy.lateness_s
            self._judged_to = (before - self.phase_s) // self.window_s - 1
        self._earliest = self.last - policy.catch_up + 1
        self.first_new = self._earliest
        self.looked: Indices = np.full(len(series), NEVER, dtype=np.int64)
        self.is_changed: Flags = np.zeros(len(series), dtype=bool)
        self.last_point: Indices = np.full(len(series), NEVER, dtype=np.int64)
        parts = max(part_count(s.form, s.layout) for s in series)
        # One window of all series after the other, so that windows without points take no memory:
        # zeros that nobody writes to are not there.
        shape = (self.columns, len(series))
        self.raw_items: Floats = np.zeros(shape).T
        self.items = self.raw_items
        self.revision: NDArray[np.int32] = np.zeros(shape, dtype=np.int32).T
        self.parts: Floats = np.zeros((*shape, parts)).transpose(1, 0, 2)
        self.is_written: Flags = np.zeros(shape, dtype=bool).T
        self._added: Floats = np.zeros(shape).T
        self.is_foreign: Flags = np.zeros(shape, dtype=bool).T
        self.is_seed: Flags = np.zeros(shape, dtype=bool).T
        self.enough = 0 if detector.needs_reference else watch.enough
        self.reference: Floats = np.full((len(series), 2), np.nan)
        self._rows = np.arange(len(series))
        self._is_shared = False
        self._first = 0
        self._present: NDArray[np.int16] = np.zeros((0, 0), dtype=np.int16)
        self._windows: dict[tuple[int, int, int], Window] = {}
        self._window_ids: dict[tuple[int, int, int], str] = {}

    def add(
        self,
        rows: Indices,
        starts: Indices,
        items: Floats,
        revision: Indices,
        parts: Floats,
        *,
        is_written: Flags | None = None,
        is_corrected: Flags | None = None,
    ) -> None:
        """Add some points: row, start, items, revision and parts of each.

        ``is_written`` marks those that were written since the last tick, ``is_corrected`` those of
        them that an earlier revision preceded in it.
        """
        index = (starts - self.phase_s[rows]) // self.window_s[rows]
        column = self.columns - 1 - (self.last[rows] - index)
        inside = (column >= 0) & (column < self.columns)
        in_order = (rows * self.columns + column)[inside]
        cells = (column * len(self.series) + rows)[inside]
        width = parts.shape[1]
        given = (
            (self.raw_items.T.reshape(-1), items),
            (self.revision.T.reshape(-1), revision),
            (self.parts.swapaxes(0, 1).reshape(-1, self.parts.shape[2])[:, :width], parts),
        )
        # Rows are sorted, so a window repeats only if several senders share it.
        is_once = bool((np.diff(in_order) > 0).all())
        for target, source in given:
            if is_once:
                target[cells] += source[inside]
            else:
                np.add.at(target, cells, source[inside])
        if is_written is not None and is_written.any():
            news = is_written[inside]
            self.is_written.T.reshape(-1)[cells[news]] = True
            if is_corrected is not None:
                news = news & ~is_corrected[inside]
            np.add.at(self._added.T.reshape(-1), cells[news], items[inside][news])

    def share(self, other: Cohort) -> None:
        """Use the windows of another cohort of the same series that is at least as long."""
        self.raw_items = self.items = other.raw_items[:, -self.columns :]
        self.revision = other.revision[:, -self.columns :]
        self.parts = other.parts[:, -self.columns :]
        self.is_written = other.is_written[:, -self.columns :]
        self._added = other._added[:, -self.columns :]
        self._is_shared = other._is_shared = True

    def leave_out(self, row: int, is_foreign: Flags) -> None:
        """Exclude the windows of a row that its version did not serve; call before ``close``."""
        self.is_foreign[row] = is_foreign

    def seed(self, row: int, other: int, is_seed: Flags) -> None:
        """Begin the baseline of a row with windows of another row; call before ``close``.

        Those windows are never judged as windows of this row.
        """
        if self._is_shared:
            self.raw_items = self.items = self.raw_items.copy(order="K")
            self.revision = self.revision.copy(order="K")
            self.parts = self.parts.copy(order="K")
            self._is_shared = False
        for part in (self.raw_items, self.revision, self.parts):
            part[row, is_seed] = part[other, is_seed]
        self.is_foreign[row, is_seed] = False
        self.is_seed[row] = is_seed

    def starts_of(self, row: int) -> Indices:
        """Return the start of each window of a row, in seconds since 1970."""
        index = self.last[row] - np.arange(self.columns - 1, -1, -1)
        return np.asarray(self.phase_s[row] + index * self.window_s[row])

    def close(self) -> None:
        """Exclude thin and foreign windows, then run the detector's reduction.

        Nothing can be added afterwards.
        """
        thin = (self.raw_items > 0) & (self.raw_items < self.watch.min_items)
        left_out = thin | self.is_foreign
        if left_out.any():
            self.items = np.where(left_out, 0.0, self.raw_items)
        is_used = (self.items > 0).any(axis=0)
        self._first = int(np.argmax(is_used)) if is_used.any() else self.columns
        self._present = np.cumsum(self.items[:, self._first :] > 0, axis=1, dtype=np.int16)
        if self._judged_to is not None:
            self._find_new(self._judged_to)
        self.form, self.parts = self.detector.reduce(self.form, self.items, self.parts)

    def _find_new(self, judged_to: Indices) -> None:
        """Find what is new since the last tick, which judged windows up to a number."""
        is_own = (self.raw_items > 0) & ~self.is_foreign & ~self.is_seed
        number = self._number_windows(0, self.columns, slice(None))
        was_over = number <= judged_to[:, None]
        was_there = self.raw_items - self._added >= max(self.watch.min_items, 1)
        was_judged = is_own & was_over & was_there
        latest = self.columns - 1 - np.argmax(was_judged[:, ::-1], axis=1)
        self.looked = np.where(was_judged.any(axis=1), number[self._rows, latest], NEVER)
        is_new = is_own & (self.is_written | ~was_over)
        earliest = number[self._rows, np.argmax(is_new, axis=1)]
        first = np.where(is_new.any(axis=1), earliest, self.last + 1)
        self.is_changed = first <= self.looked
        self.first_new = np.maximum(first, self._earliest)

    def judge_anew(self, rows: Flags, *, were_judged: bool) -> None:
        """Judge all windows of some rows that a tick reaches; call after ``close``."""
        self.first_new = np.where(rows, self._earliest, self.first_new)
        self.is_changed = self.is_changed & ~rows
        if not were_judged:
            self.looked = np.where(rows, NEVER, self.looked)

    def windows_before(self, column: int) -> NDArray[np.int16]:
        """Return the maximum number of windows that each series has before a column."""
        if column <= self._first:
            return np.zeros(len(self.series), dtype=np.int16)
        return np.asarray(self._present[:, column - 1 - self._first])

    def index_of(self, column: int) -> Indices:
        """Return the window number in a column, for each series."""
        return self.last - (self.columns - 1 - column)

    def window(self, row: int, index: int) -> Window:
        """Return a window of one series."""
        return self._make_window(int(self.phase_s[row]), int(self.window_s[row]), index)

    def window_id(self, row: int, index: int) -> str:
        """Return the id of a window of one series."""
        key = (int(self.phase_s[row]), int(self.window_s[row]), index)
        if key not in self._window_ids:
            self._window_ids[key] = self._make_window(*key).id
        return self._window_ids[key]

    def windows(self, rows: Indices, column: int) -> list[Window]:
        """Return the windows of some rows in a column."""
        grids = (self.phase_s[rows], self.window_s[rows], self.index_of(column)[rows])
        return list(map(self._make_window, *(grid.tolist() for grid in grids)))

    def _make_window(self, phase_s: int, window_s: int, index: int) -> Window:
        key = (phase_s, window_s, index)
        known = self._windows.get(key)
        if known is None:
            start = phase_s + index * window_s
            ends = (start, start + window_s)
            known = self._windows[key] = Window(*(datetime.fromtimestamp(e, UTC) for e in ends))
        return known

    def index_at(self, row: int, moment: datetime) -> int:
        """Return the number of the window that contains a moment."""
        return (int(moment.timestamp()) - int(self.phase_s[row])) // int(self.window_s[row])

    def first_index_from(self, row: int, moment: datetime) -> int:
        """Return the number of the first window that starts at or after a moment."""
        seconds = int(moment.timestamp()) - int(self.phase_s[row])
        return -(-seconds // int(self.window_s[row]))

    def trailing(self, column: int, since: Indices, rows: Rows) -> Baseline:
        """Return the baseline of the window in a column: the latest usable windows before it.

        It ends some windows earlier, so that the start of a change is not in the baseline of what
        follows; if that leaves too few windows, it ends right before the window. ``since`` is the
        first window of each series that may be in a baseline.
        """
        width = self.width_before(column)
        found = self._select_ending(column - self.lag, since, rows, width)
        if self.lag == self.least_lag:
            return found
        short = found.windows < self.watch.enough
        if not short.any():
            return found
        longer = self._select_ending(column - self.least_lag, since, rows, width)
        pairs = zip(found, longer, strict=True)
        return Baseline(*(np.where(short.reshape(-1, *[1] * (f.ndim - 1)), g, f) for f, g in pairs))

    def width_before(self, column: int) -> int:
        """Return the width of the baselines of a column: room for all windows that have points."""
        count = min(max(column - self.least_lag - self._first, 0), self.watch.baseline)
        return baseline_width(self.watch.baseline, count)

    def _select_ending(self, end: int, since: Indices, rows: Rows, width: int) -> Baseline:
        """Return the latest usable windows before a column, up to the baseline length."""
        high = max(end, 0)
        low = min(max(high - self.watch.span, self._first), high)
        wanted = self.watch.baseline
        start = max(low, high - wanted)
        items = self.items[rows, start:high]
        # Window numbers rise along a row, so that its first one tells whether all may be used.
        if bool((items > 0).all()) and bool((self.index_of(start)[rows] >= since[rows]).all()):
            cut = slice(start, high)
            index = self._number_windows(start, high, rows)
            found = (index, self.revision[rows, cut], items, self.parts[rows, cut])
            return _pad_baseline(found, width)
        index = self._number_windows(low, high, rows)
        usable = (self.items[rows, low:high] > 0) & (index >= since[rows, None])
        late = np.cumsum(usable[:, ::-1], axis=1)[:, ::-1] <= wanted
        kept = usable & late
        order = np.argsort(~kept, axis=1, kind="stable")[:, :wanted]
        chosen = np.take_along_axis(kept, order, axis=1)
        places = (self._rows[rows, None], low + order)
        return _pad_baseline(
            (
                np.where(chosen, np.take_along_axis(index, order, axis=1), NEVER),
                np.where(chosen, self.revision[places], 0),
                np.where(chosen, self.items[places], 0.0),
                np.where(chosen[..., None], self.parts[places], 0.0),
            ),
            width,
        )

    def _number_windows(self, low: int, high: int, rows: Rows) -> Indices:
        """Return the window numbers of some columns."""
        return self.last[rows, None] - (self.columns - 1 - np.arange(low, high))

    def sample(self, column: int, rows: Rows, baseline: Baseline) -> SeriesSample:
        """Return the detector's input for some rows in a column, with their baselines."""
        low = column - self.recent + 1
        return SeriesSample(
            form=self.form,
            baseline_items=baseline.items,
            baseline=baseline.parts,
            recent_items=np.ascontiguousarray(self.items[rows, low : column + 1]),
            recent=np.ascontiguousarray(self.parts[rows, low : column + 1]),
            is_rate=self.watch.scale == "rate",
            min_sd=self.watch.min_sd,
            baseline_number=baseline.number,
            number=self.index_of(column)[rows],
            reference=self.reference[rows] if self.detector.needs_reference else None,
        )


def _choose_options(detector: Detector, watch: Watch, mode: Mode) -> Any:
    """Return the options of a watch; literal mode applies no correction of the spread."""
    options = detector.build(watch.options)
    corrections = {"floor", "correlation"} & set(options.__struct_fields__)
    if mode == "literal" and corrections:
        return msgspec.structs.replace(options, **dict.fromkeys(corrections, False))
    return options
