"""Deltas stored by column, because most reads need one column."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count, repeat

from msgspec import Struct

from gatemark.exams.runlog.records.trace import StreamDelta

Piece = tuple[str, str, int, int]
"""Some text of an agent: agent, text, milliseconds since the start of the trace, and ``seq``."""


class TextSpan(Struct, frozen=True, gc=False):
    """Consecutive deltas of one case: ``seq`` counts up from ``first_seq``.

    ``t_emitted_ms`` of each is its ``t_rel_ms`` plus ``t0_ms``.
    """

    case_id: str
    first_seq: int
    t0_ms: int
    turn_ids: Sequence[int]
    agent_ids: Sequence[str]
    texts: Sequence[str]
    t_rel_ms: Sequence[int]

    @property
    def last_seq(self) -> int:
        """The ``seq`` of the last delta."""
        return self.first_seq + len(self.texts) - 1

    def pieces(self) -> Iterator[Piece]:
        """Return the texts of the deltas."""
        seqs = range(self.first_seq, self.first_seq + len(self.texts))
        return zip(self.agent_ids, self.texts, self.t_rel_ms, seqs, strict=True)

    def deltas(self) -> Iterator[StreamDelta]:
        """Return the deltas one by one."""
        seqs = count(self.first_seq)
        times = [moment + self.t0_ms for moment in self.t_rel_ms]
        columns = (seqs, self.turn_ids, self.agent_ids, self.texts, times, self.t_rel_ms)
        return map(StreamDelta, repeat(self.case_id), *columns)


def one_stretch(deltas: Sequence[StreamDelta]) -> TextSpan | None:
    """Return deltas as one span; None if they are not consecutive."""
    first, length = deltas[0], len(deltas)
    case_id, first_seq = first.case_id, first.seq
    t0_ms = first.t_emitted_ms - first.t_rel_ms
    if (
        [delta.seq for delta in deltas] != list(range(first_seq, first_seq + length))
        or [delta.case_id for delta in deltas].count(case_id) != length
        or [delta.t_emitted_ms - delta.t_rel_ms for delta in deltas].count(t0_ms) != length
    ):
        return None
    agent_ids = [delta.agent_id for delta in deltas]
    if agent_ids.count(agent_ids[0]) == length:
        agent_ids = agent_ids[:1] * length
    return TextSpan(
        case_id=case_id,
        first_seq=first_seq,
        t0_ms=t0_ms,
        turn_ids=[delta.turn_id for delta in deltas],
        agent_ids=agent_ids,
        texts=[delta.delta_text for delta in deltas],
        t_rel_ms=[delta.t_rel_ms for delta in deltas],
    )


def stretches(deltas: Sequence[StreamDelta]) -> Iterator[TextSpan]:
    """Yield deltas as spans of consecutive deltas."""
    start = 0
    for place in range(1, len(deltas) + 1):
        if place == len(deltas) or not _follows(deltas[place - 1], deltas[place]):
            found = one_stretch(deltas[start:place])
            if found is not None:
                yield found
            start = place


def _follows(before: StreamDelta, after: StreamDelta) -> bool:
    return (
        after.seq == before.seq + 1
        and after.case_id == before.case_id
        and after.t_emitted_ms - after.t_rel_ms == before.t_emitted_ms - before.t_rel_ms
    )
