"""The records of a trace: what several agents said, delta by delta, as it was captured.

Traces contain no derived units. Times are milliseconds: ``t_emitted_ms`` and ``t_ms`` since 1970,
``t_rel_ms`` since the first delta, so an earlier boundary has a negative one. Deltas that were read
are stored by column, because most reads need one column.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count, repeat
from typing import Annotated, Final, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from gatemark.plugins.runlog.records.fields import CaseId, Count, Hash, MasRunId, Moment

TRACE_VERSION: Final = "2.0.0"


class Decoding(Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """Sampling settings of the model, as far as recorded."""

    temperature: float | UnsetType | None = UNSET
    top_p: float | UnsetType | None = UNSET
    max_tokens: int | UnsetType | None = UNSET
    seed: int | UnsetType | None = UNSET


class _TracePart(
    Struct, frozen=True, gc=False, forbid_unknown_fields=True, tag_field="record_type"
):
    """What all records of a trace share."""


class TraceMeta(_TracePart, frozen=True, tag="trace_meta"):
    """What the trace is about and how it was made; the first record of its file."""

    schema_version: Literal["2.0.0"]
    case_id: CaseId
    mas_run_id: MasRunId
    mac_commit: Annotated[str, Meta(min_length=7)]
    model: str
    created_at: Moment
    t0_emitted_ms: Count
    exaid_commit: str | UnsetType = UNSET
    decoding: Decoding | UnsetType = UNSET
    t0_definition: str | UnsetType = UNSET
    stub_mode: bool | UnsetType = UNSET
    total_turns: Count | UnsetType = UNSET
    total_deltas: Count | UnsetType = UNSET


class StreamDelta(_TracePart, frozen=True, tag="stream_delta"):
    """A piece of what one agent said; it may end in the middle of a word."""

    case_id: CaseId
    seq: Count
    turn_id: Annotated[int, Meta(ge=1)]
    agent_id: str
    delta_text: str
    t_emitted_ms: Count
    t_rel_ms: Count


class TurnBoundary(_TracePart, frozen=True, tag="turn_boundary"):
    """The start or the end of one agent's turn; an end may have the hash of the turn's text."""

    case_id: CaseId
    seq: Count
    turn_id: Annotated[int, Meta(ge=1)]
    agent_id: str
    boundary: Literal["start", "end"]
    t_ms: Count
    t_rel_ms: int
    content_hash: Hash | UnsetType = UNSET
    content_hash_input: str | UnsetType = UNSET


TraceRecord = TraceMeta | StreamDelta | TurnBoundary

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


def join_span(deltas: Sequence[StreamDelta]) -> TextSpan | None:
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


def split_spans(deltas: Sequence[StreamDelta]) -> Iterator[TextSpan]:
    """Yield deltas as spans of consecutive deltas."""
    start = 0
    for place in range(1, len(deltas) + 1):
        if place == len(deltas) or not _follows(deltas[place - 1], deltas[place]):
            found = join_span(deltas[start:place])
            if found is not None:
                yield found
            start = place


def _follows(before: StreamDelta, after: StreamDelta) -> bool:
    return (
        after.seq == before.seq + 1
        and after.case_id == before.case_id
        and after.t_emitted_ms - after.t_rel_ms == before.t_emitted_ms - before.t_rel_ms
    )
