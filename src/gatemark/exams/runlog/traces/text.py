"""What a trace says: the whole of it, and the part inside a window.

Deltas are joined as they came within a turn, and turns by a newline; only the content plane
counts. ``source`` joins all deltas that are not blank by spaces, control plane included, which
splits words wherever a delta ends in one.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Final

from gatemark.exams.runlog.records.run import Compat
from gatemark.exams.runlog.records.trace import StreamDelta
from gatemark.exams.runlog.traces.trace import Trace

SILENT_AGENTS: Final = frozenset({"orchestrator", "_system", "system", "meta"})
"""Agents whose deltas are no part of what was said."""


class TraceText:
    """The text of one trace; ready to be asked for many windows."""

    def __init__(self, trace: Trace, compat: Compat = "gatemark") -> None:
        self._compat: Compat = compat
        said = [delta for delta in trace.deltas if delta.agent_id not in SILENT_AGENTS]
        if compat == "source":
            said = [delta for delta in said if delta.delta_text.strip()]
        else:
            content = trace.content_turns
            said = [delta for delta in said if delta.turn_id in content]
        self._said = said
        self._seqs = [delta.seq for delta in said]

    @property
    def whole(self) -> str:
        """The canonical text of the trace."""
        return self._joined(self._said)

    def window(self, start_seq: int, end_seq: int) -> str:
        """The text of the deltas from one ``seq`` to another, both included."""
        first = bisect_left(self._seqs, start_seq)
        return self._joined(self._said[first : bisect_right(self._seqs, end_seq)])

    def _joined(self, deltas: Sequence[StreamDelta]) -> str:
        if self._compat == "source":
            return " ".join(delta.delta_text for delta in deltas)
        turns: dict[int, list[str]] = {}
        for delta in deltas:
            turns.setdefault(delta.turn_id, []).append(delta.delta_text)
        return "\n".join("".join(texts) for texts in turns.values())


def canonical_text(trace: Trace, compat: Compat = "gatemark") -> str:
    """Everything that a trace says."""
    return TraceText(trace, compat).whole
