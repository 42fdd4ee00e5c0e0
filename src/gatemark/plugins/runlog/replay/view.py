"""Inspect one trace: its events, its turns, and its problems."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from gatemark.evidence.exam_options import option
from gatemark.evidence.whole_file import remark_words
from gatemark.plugins.runlog.records.trace_file_rules import Mode
from gatemark.plugins.runlog.traces.files import read_trace
from gatemark.plugins.runlog.traces.trace import ReplayEvent, Stream, Turn, replay


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


class ViewRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Which events of a trace to show, and how strictly to read it."""

    stream: Annotated[
        Stream,
        option("Events to show: all, or without turns that only name the next speaker."),
    ] = "full"
    limit: Annotated[int, Meta(ge=1, description="Maximum number of events to show.")] = 40
    shift_to_zero: Annotated[
        bool, option("Shift times so that the earliest record is at 0 ms.")
    ] = False
    allow_stub: Annotated[bool, option("Replay a stub trace too.")] = False
    mode: Annotated[
        Mode,
        option(
            "Whether odd order, times and turns are errors or warnings.", "--mode", "--strictness"
        ),
    ] = "strict"


def view_trace(path: str, request: ViewRequest) -> TraceView:
    """Replay a trace and keep its first events."""
    read = read_trace(path, mode=request.mode, allow_stub=request.allow_stub)
    trace = read.trace
    whole = list(replay(trace, request.stream, shift_to_zero=request.shift_to_zero))
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
        turns=tuple(map(_describe_turn, trace.turns)),
        events=tuple(whole[: request.limit]),
        warnings=tuple(remark_words(path, remark) for remark in read.remarks),
    )


def _describe_turn(turn: Turn) -> TurnLine:
    fields = msgspec.structs.asdict(turn)
    opening = " ".join(fields.pop("text").split())[:60]
    return TurnLine(deltas=fields.pop("delta_count"), opening=opening, **fields)
