"""Convert turns with their times to the records of a trace."""

from __future__ import annotations

from typing import NamedTuple

from msgspec import UNSET, Struct

from gatemark.exams.runlog.records.names import moment_text, text_hash
from gatemark.exams.runlog.records.trace import (
    TRACE_VERSION,
    Decoding,
    StreamDelta,
    TraceMeta,
    TraceRecord,
    TurnBoundary,
)

_START, _DELTA, _END = range(3)


class ScriptTurn(Struct, frozen=True):
    """One turn before it is placed in a trace: pieces of text, each with its time."""

    agent_id: str
    start_ms: int
    pieces: tuple[tuple[int, str], ...]
    end_ms: int


class Origin(Struct, frozen=True):
    """Where a trace comes from; the same for all traces of a campaign."""

    mas_run_id: str
    mac_commit: str
    exaid_commit: str
    model: str
    decoding: Decoding


class _Event(NamedTuple):
    """An event with its time; events sort by time, then starts before deltas before ends."""

    at_ms: int
    priority: int
    turn_id: int
    place: int
    text: str


def trace_records(
    case_id: str, turns: list[ScriptTurn], origin: Origin, *, stub: bool = False
) -> list[TraceRecord]:
    """Return a whole trace: meta first, then boundaries and deltas with a running ``seq``."""
    events: list[_Event] = []
    for turn_id, turn in enumerate(turns, start=1):
        events.append(_Event(turn.start_ms, _START, turn_id, 0, ""))
        events += [
            _Event(at_ms, _DELTA, turn_id, place, text)
            for place, (at_ms, text) in enumerate(turn.pieces)
        ]
        events.append(_Event(turn.end_ms, _END, turn_id, 0, ""))
    events.sort(key=lambda event: event[:4])
    said = [event for event in events if event.priority == _DELTA]
    t0 = said[0].at_ms if said else min((turn.start_ms for turn in turns), default=0)
    meta = TraceMeta(
        schema_version=TRACE_VERSION,
        case_id=case_id,
        mas_run_id=origin.mas_run_id,
        mac_commit=origin.mac_commit,
        exaid_commit=origin.exaid_commit,
        model=origin.model,
        decoding=origin.decoding,
        created_at=moment_text(events[0].at_ms if events else t0),
        t0_emitted_ms=t0,
        stub_mode=True if stub else UNSET,
        total_turns=len(turns),
        total_deltas=len(said),
    )
    records: list[TraceRecord] = [meta]
    for seq, event in enumerate(events):
        turn = turns[event.turn_id - 1]
        records.append(_record(case_id, seq, event, turn, t0))
    return records


def _record(case_id: str, seq: int, event: _Event, turn: ScriptTurn, t0: int) -> TraceRecord:
    if event.priority == _DELTA:
        return StreamDelta(
            case_id=case_id,
            seq=seq,
            turn_id=event.turn_id,
            agent_id=turn.agent_id,
            delta_text=event.text,
            t_emitted_ms=event.at_ms,
            t_rel_ms=event.at_ms - t0,
        )
    is_end = event.priority == _END
    return TurnBoundary(
        case_id=case_id,
        seq=seq,
        turn_id=event.turn_id,
        agent_id=turn.agent_id,
        boundary="end" if is_end else "start",
        t_ms=event.at_ms,
        t_rel_ms=event.at_ms - t0,
        content_hash=text_hash("".join(text for _, text in turn.pieces)) if is_end else UNSET,
    )
