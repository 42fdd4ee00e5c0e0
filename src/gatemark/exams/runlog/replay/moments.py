"""The timestamps of a run log: always from the trace, never from a clock."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import accumulate
from typing import Final

from gatemark.exams.runlog.records.names import moment_text
from gatemark.exams.runlog.records.run import Compat, TimestampDerivation
from gatemark.exams.runlog.records.trace import TextSpan, TurnBoundary
from gatemark.exams.runlog.traces.trace import Trace

FALLBACK_STEP_MS: Final = 1000
MANY_FALLBACKS: Final = 10
"""Number of fallback timestamps above which there is a warning."""


class CaptureMoments:
    """When the record of each ``seq`` was captured, and how often a fallback was used.

    Boundaries have their own time. Mode ``source`` knows only the times of deltas, so a window that
    ends with a boundary gets a fallback: the first delta's time plus a second per seq.
    """

    def __init__(self, trace: Trace, compat: Compat = "gatemark") -> None:
        self._parts = trace.parts
        spans = [
            (part.first_seq, part.last_seq) if isinstance(part, TextSpan) else (part.seq, part.seq)
            for part in trace.parts
        ]
        self._firsts = [first for first, _ in spans]
        self._lasts = [last for _, last in spans]
        self._places = list(accumulate((last - first + 1 for first, last in spans), initial=0))
        self._only_deltas = compat == "source"
        first = next((part for part in trace.parts if isinstance(part, TextSpan)), None)
        self._start_ms = (
            trace.meta.t0_emitted_ms if first is None else first.t0_ms + first.t_rel_ms[0]
        )
        self._found = 0
        self._made_up = 0

    @property
    def made_up(self) -> int:
        """How many timestamps are not in the trace."""
        return self._made_up

    def at(self, seq: int) -> str:
        """Return the timestamp of a window that ends with this ``seq``."""
        known_ms = self._known_ms(seq)
        if known_ms is None:
            self._made_up += 1
            return moment_text(self._start_ms + seq * FALLBACK_STEP_MS)
        self._found += 1
        return moment_text(known_ms)

    def _known_ms(self, seq: int) -> int | None:
        part = self._part(seq)
        if isinstance(part, TextSpan):
            return part.t0_ms + part.t_rel_ms[seq - part.first_seq]
        return None if part is None or self._only_deltas else part.t_ms

    def _part(self, seq: int) -> TextSpan | TurnBoundary | None:
        """Return the record with a ``seq``; usually its position is its number."""
        found = bisect_right(self._places, seq) - 1
        if found == len(self._parts) or self._firsts[found] != self._places[found]:
            found = bisect_left(self._lasts, seq)
        if found == len(self._parts) or self._firsts[found] > seq:
            return None
        return self._parts[found]

    def derivation(self) -> TimestampDerivation:
        """Return what ``run_meta`` says about all timestamps given so far."""
        return TimestampDerivation(
            method="trace_t_emitted_ms",
            fallback_method="run_start_time_plus_seq",
            missing_t_emitted_ms_count=self._made_up,
            derived_from_t_emitted=self._found,
            derived_from_fallback=self._made_up,
        )
