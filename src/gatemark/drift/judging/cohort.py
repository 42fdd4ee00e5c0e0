"""Series that one watch judges together, as arrays over their closed windows."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from gatemark.drift.judging.detector import Detector, SeriesSample
from gatemark.drift.judging.parts import FormName, Series, part_count
from gatemark.drift.judging.policy import DriftPolicy, Watch
from gatemark.drift.signal import Mode, Window

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
Flags = NDArray[np.bool_]
Rows = Indices | slice
"""A selection of cohort rows, in order."""

NEVER = -(2**62)


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

    def widened(self, width: int) -> Baseline:
        """Return a copy with room for at least ``width`` windows."""
        return Baseline(*(_widened(*pair, width) for pair in zip(self, MISSING, strict=True)))

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


def _widened(part: NDArray[Any], missing: float, width: int) -> NDArray[Any]:
    room = max(width, part.shape[1])
    wide = np.full((part.shape[0], room, *part.shape[2:]), missing, dtype=part.dtype)
    wide[:, : part.shape[1]] = part
    return wide


class Cohort:
    """The windows of some series under one watch, with the latest closed window in the last column.

    ``rounds`` is how many of the latest windows may have to be judged. Column ``c`` of a series is
    its window number ``last - (columns - 1 - c)``, counted from the phase of its grid.
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
    ) -> None:
        self.watch = watch
        self.detector = detector
        self.options = _options(detector, watch, policy.mode)
        self.series = tuple(series)
        self.mode: Mode = policy.mode
        self.form: FormName = series[0].form
        self.recent = int(detector.recent(self.options))
        self.least_lag = self.recent - 1
        self.lag = max(self.least_lag, 0 if policy.mode == "literal" else watch.sustained - 1)
        self.rounds = policy.catch_up if rounds is None else min(rounds, policy.catch_up)
        self.columns = self.rounds + max(self.recent, watch.sustained) + watch.span
        self.window_s = np.asarray([s.window_s(watch) for s in series], dtype=np.int64)
        lengths = np.asarray([s.length_s for s in series], dtype=np.int64)
        phases = np.asarray([s.phase_s for s in series], dtype=np.int64)
        # Merged windows start at midnight UTC; other windows keep the phase they were pushed with.
        self.phase_s = np.where(self.window_s == lengths, phases, 0)
        moment = int(now.timestamp()) - policy.lateness_s
        self.last: Indices = (moment - self.phase_s) // self.window_s - 1
        parts = max(part_count(s.form, s.layout) for s in series)
        shape = (len(series), self.columns)
        self.raw_items: Floats = np.zeros(shape)
        self.items = self.raw_items
        self.revision: NDArray[np.int32] = np.zeros(shape, dtype=np.int32)
        self.parts: Floats = np.zeros((*shape, parts))
        self.written = self.revision
        self.is_foreign: Flags = np.zeros(shape, dtype=bool)
        self.is_seed: Flags = np.zeros(shape, dtype=bool)
        self.enough = 0 if detector.needs_reference else watch.enough
        self.reference: Floats = np.full((len(series), 2), np.nan)
        self._rows = np.arange(len(series))
        self._present: NDArray[np.int32] = np.zeros((0, 0), dtype=np.int32)
        self._windows: dict[tuple[int, int, int], Window] = {}
        self._window_ids: dict[tuple[int, int, int], str] = {}

    def add(
        self, rows: Indices, starts: Indices, items: Floats, revision: Indices, parts: Floats
    ) -> None:
        """Add some points: row, start, items, revision and parts of each."""
        index = (starts - self.phase_s[rows]) // self.window_s[rows]
        column = self.columns - 1 - (self.last[rows] - index)
        inside = (column >= 0) & (column < self.columns)
        cells = (rows * self.columns + column)[inside]
        width = parts.shape[1]
        told = (
            (self.raw_items.reshape(-1), items),
            (self.revision.reshape(-1), revision),
            (self.parts.reshape(-1, self.parts.shape[2])[:, :width], parts),
        )
        # Rows are sorted, so a window repeats only if several senders share it.
        is_once = bool((np.diff(cells) > 0).all())
        for target, source in told:
            if is_once:
                target[cells] += source[inside]
            else:
                np.add.at(target, cells, source[inside])

    def leave_out(self, row: int, is_foreign: Flags) -> None:
        """Exclude the windows of a row that its version did not serve; call before ``close``."""
        self.is_foreign[row] = is_foreign

    def seed(self, row: int, other: int, is_seed: Flags) -> None:
        """Begin the baseline of a row with windows of another row; call before ``close``.

        Those windows are never judged as windows of this row.
        """
        if self.written is self.revision:
            # Only writes to the row itself decide whether it must be judged again.
            self.revision = self.revision.copy()
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
        self._present = np.cumsum(self.items > 0, axis=1, dtype=np.int32)
        self.form, self.parts = self.detector.reduce(self.form, self.items, self.parts)

    def windows_before(self, column: int) -> NDArray[np.int32]:
        """Return the maximum number of windows that each series has before a column."""
        if column == 0:
            return np.zeros(len(self.series), dtype=np.int32)
        return np.asarray(self._present[:, column - 1])

    def index_of(self, column: int) -> Indices:
        """Return the window number in a column, for each series."""
        return self.last - (self.columns - 1 - column)

    def window(self, row: int, index: int) -> Window:
        """Return a window of one series."""
        return self._window(int(self.phase_s[row]), int(self.window_s[row]), index)

    def window_id(self, row: int, index: int) -> str:
        """Return the id of a window of one series."""
        key = (int(self.phase_s[row]), int(self.window_s[row]), index)
        if key not in self._window_ids:
            self._window_ids[key] = self._window(*key).id
        return self._window_ids[key]

    def windows(self, rows: Indices, column: int) -> list[Window]:
        """Return the windows of some rows in a column."""
        grids = (self.phase_s[rows], self.window_s[rows], self.index_of(column)[rows])
        return list(map(self._window, *(grid.tolist() for grid in grids)))

    def _window(self, phase_s: int, window_s: int, index: int) -> Window:
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
        first window of each series that may be in a baseline. If all windows are usable, items and
        parts are views.
        """
        found = self._ending(column - self.lag, since, rows)
        if self.lag == self.least_lag:
            return found
        short = found.windows < self.watch.enough
        if not short.any():
            return found
        longer = self._ending(column - self.least_lag, since, rows)
        pairs = zip(found, longer, strict=True)
        return Baseline(*(np.where(short.reshape(-1, *[1] * (f.ndim - 1)), g, f) for f, g in pairs))

    def _ending(self, end: int, since: Indices, rows: Rows) -> Baseline:
        """Return the latest usable windows before a column, up to the baseline length."""
        high = max(end, 0)
        low = max(high - self.watch.span, 0)
        wanted = self.watch.baseline
        if high - low >= wanted:
            cut = slice(high - wanted, high)
            index = self._numbers(high - wanted, high, rows)
            items = self.items[rows, cut]
            # Window numbers rise along a row, so that its first one tells whether all may be used.
            if bool((items > 0).all()) and bool((index[:, 0] >= since[rows]).all()):
                return Baseline(
                    number=index,
                    revision=self.revision[rows, cut].astype(np.int64),
                    items=items,
                    parts=self.parts[rows, cut],
                )
        index = self._numbers(low, high, rows)
        usable = (self.items[rows, low:high] > 0) & (index >= since[rows, None])
        late = np.cumsum(usable[:, ::-1], axis=1)[:, ::-1] <= wanted
        kept = usable & late
        order = np.argsort(~kept, axis=1, kind="stable")[:, :wanted]
        chosen = np.take_along_axis(kept, order, axis=1)
        places = (self._rows[rows, None], low + order)
        return Baseline(
            number=np.where(chosen, np.take_along_axis(index, order, axis=1), NEVER),
            revision=np.where(chosen, self.revision[places].astype(np.int64), 0),
            items=np.where(chosen, self.items[places], 0.0),
            parts=np.where(chosen[..., None], self.parts[places], 0.0),
        )

    def _numbers(self, low: int, high: int, rows: Rows) -> Indices:
        """Return the window numbers of some columns."""
        return self.last[rows, None] - (self.columns - 1 - np.arange(low, high))

    def sample(self, column: int, rows: Rows, baseline: Baseline) -> SeriesSample:
        """Return the detector's input for some rows in a column, with their baselines."""
        low = column - self.recent + 1
        return SeriesSample(
            form=self.form,
            baseline_items=baseline.items,
            baseline=baseline.parts,
            recent_items=self.items[rows, low : column + 1],
            recent=self.parts[rows, low : column + 1],
            is_rate=self.watch.scale == "rate",
            min_sd=self.watch.min_sd,
            baseline_number=baseline.number,
            number=self.index_of(column)[rows],
            reference=self.reference[rows] if self.detector.needs_reference else None,
        )


def _options(detector: Detector, watch: Watch, mode: Mode) -> Any:
    """Return the options of a watch; literal mode applies no correction of the spread."""
    options = detector.build(watch.options)
    corrections = {"floor", "correlation"} & set(options.__struct_fields__)
    if mode == "literal" and corrections:
        return msgspec.structs.replace(options, **dict.fromkeys(corrections, False))
    return options
