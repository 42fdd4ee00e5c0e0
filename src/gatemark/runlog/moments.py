"""The timestamps of a run log: always from the trace, never from a clock."""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

from gatemark.core.runlog.names import moment_text
from gatemark.core.runlog.run import Compat, TimestampDerivation
from gatemark.core.runlog.stretch import Stretch
from gatemark.runlog.trace import Trace

FALLBACK_STEP_MS: Final = 1000
MANY_FALLBACKS: Final = 10
"""More made-up timestamps than this deserve a warning."""


class Moments:
    """When the record of each ``seq`` was captured, and how often that had to be made up.

    Boundaries have a time of their own. ``source`` knows only the times of deltas, so that a
    window which ends with a boundary gets a made-up one: the first delta's plus a second per seq.
    """

    def __init__(self, trace: Trace, compat: Compat = "gatemark") -> None:
        self._parts = trace.parts
        self._last_seqs = [
            part.last_seq if isinstance(part, Stretch) else part.seq for part in trace.parts
        ]
        self._only_deltas = compat == "source"
        first = next((part for part in trace.parts if isinstance(part, Stretch)), None)
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
        """The timestamp of a window that ends with this ``seq``."""
        known_ms = self._known_ms(seq)
        if known_ms is None:
            self._made_up += 1
            return moment_text(self._start_ms + seq * FALLBACK_STEP_MS)
        self._found += 1
        return moment_text(known_ms)

    def _known_ms(self, seq: int) -> int | None:
        place = bisect_left(self._last_seqs, seq)
        if place == len(self._parts):
            return None
        part = self._parts[place]
        if isinstance(part, Stretch):
            index = seq - part.first_seq
            return part.t0_ms + part.t_rel_ms[index] if index >= 0 else None
        return None if part.seq != seq or self._only_deltas else part.t_ms

    def derivation(self) -> TimestampDerivation:
        """What ``run_meta`` says about all timestamps given so far."""
        return TimestampDerivation(
            method="trace_t_emitted_ms",
            fallback_method="run_start_time_plus_seq",
            missing_t_emitted_ms_count=self._made_up,
            derived_from_t_emitted=self._found,
            derived_from_fallback=self._made_up,
        )
