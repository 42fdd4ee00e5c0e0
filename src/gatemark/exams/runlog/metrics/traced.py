"""A trace as the metrics read it: its text, whole and by window, and how long it lasted."""

from __future__ import annotations

from gatemark.exams.runlog.records.run import Compat
from gatemark.exams.runlog.traces.text import TraceText
from gatemark.exams.runlog.traces.trace import Trace


class TracedCase:
    """One case's trace under one way of joining its deltas."""

    def __init__(self, trace: Trace, compat: Compat = "gatemark") -> None:
        self._text = TraceText(trace, compat)
        self.whole = self._text.whole
        self.is_stub = trace.is_stub
        moments = [delta.t_rel_ms for delta in trace.deltas]
        self.duration_ms = max(moments) - min(moments) if moments else 0

    def window(self, start_seq: int, end_seq: int) -> str:
        """The text of the deltas from one seq to another, both included."""
        return self._text.window(start_seq, end_seq)
