"""A trace as a stream of events in virtual time: nothing waits, and gaps keep their length."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from msgspec import UNSET, Struct

from gatemark.exams.runlog.records.trace import StreamDelta
from gatemark.exams.runlog.traces.trace import Trace

Stream = Literal["full", "content_plane"]


class ReplayEvent(Struct, frozen=True, gc=False):
    """Something that happens at a virtual time: a delta, or the start or end of a turn."""

    kind: Literal["delta", "turn_start", "turn_end"]
    virtual_time_ms: int
    seq: int
    turn_id: int
    agent_id: str
    delta_text: str | None = None
    content_hash: str | None = None


def replay(
    trace: Trace, stream: Stream = "full", *, shift_to_zero: bool = False
) -> Iterator[ReplayEvent]:
    """Every event in the order of ``seq``; without the control plane when so asked.

    ``shift_to_zero`` moves the earliest record of the whole trace to 0, whichever stream is
    replayed, so that both streams stay on one clock.
    """
    records = trace.records
    shift = min((record.t_rel_ms for record in records), default=0) if shift_to_zero else 0
    content = trace.content_turns if stream == "content_plane" else None
    for record in records:
        if content is not None and record.turn_id not in content:
            continue
        moment = record.t_rel_ms - shift
        if isinstance(record, StreamDelta):
            yield ReplayEvent(
                "delta", moment, record.seq, record.turn_id, record.agent_id, record.delta_text
            )
            continue
        given = record.content_hash
        yield ReplayEvent(
            "turn_start" if record.boundary == "start" else "turn_end",
            moment,
            record.seq,
            record.turn_id,
            record.agent_id,
            content_hash=None if given is UNSET else given,
        )
