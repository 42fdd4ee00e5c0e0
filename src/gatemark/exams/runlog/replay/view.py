"""Inspect one trace: its events, its turns, and its problems."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import msgspec

from gatemark.evidence.whole_file import remark_words
from gatemark.exams.runlog.records.trace_rules import Mode
from gatemark.exams.runlog.traces.files import ReadTrace, read_trace
from gatemark.exams.runlog.traces.trace import ReplayEvent, Stream, Turn, replay


class TurnLine(msgspec.Struct, frozen=True):
    """A turn as a row of a list."""

    turn_id: int
    agent_id: str
    plane: str
    reason: str
    deltas: int
    start_seq: int
    end_seq: int
    flag: str | None
    opening: str


class TraceView(msgspec.Struct, frozen=True):
    """A trace and the findings about it."""

    case_id: str
    mas_run_id: str
    model: str
    stub: bool
    labels: tuple[str, ...]
    event_count: int
    deltas: int
    duration_ms: int
    turns: tuple[TurnLine, ...]
    events: tuple[ReplayEvent, ...]
    warnings: tuple[str, ...]


def view_trace(
    path: str,
    *,
    stream: Stream = "full",
    shift_to_zero: bool = False,
    mode: Mode = "strict",
    allow_stub: bool = False,
    limit: int | None = None,
) -> TraceView:
    """Replay a trace and keep its first events."""
    read = read_trace(path, mode=mode, allow_stub=allow_stub)
    trace = read.trace
    whole = list(replay(trace, stream, shift_to_zero=shift_to_zero))
    times = [event.virtual_time_ms for event in whole]
    return TraceView(
        case_id=trace.meta.case_id,
        mas_run_id=trace.meta.mas_run_id,
        model=trace.meta.model,
        stub=trace.is_stub,
        labels=tuple(sorted(trace.labels)),
        event_count=len(whole),
        deltas=sum(event.kind == "delta" for event in whole),
        duration_ms=max(times, default=0) - min(times, default=0),
        turns=tuple(map(_turn_line, trace.turns)),
        events=tuple(islice(whole, limit)),
        warnings=tuple(_warnings(path, read)),
    )


def _turn_line(turn: Turn) -> TurnLine:
    return TurnLine(
        turn_id=turn.turn_id,
        agent_id=turn.agent_id,
        plane=turn.plane,
        reason=turn.reason,
        deltas=turn.delta_count,
        start_seq=turn.start_seq,
        end_seq=turn.end_seq,
        flag=turn.flag,
        opening=" ".join(turn.text.split())[:60],
    )


def _warnings(path: str, read: ReadTrace) -> Iterator[str]:
    for remark in read.remarks:
        yield remark_words(path, remark)
