"""One case as a picture: who spoke when, what the gate let through, and what became of it."""

from __future__ import annotations

from collections.abc import Iterator

from gatemark.core.figure import Timeline, TimelineSpan
from gatemark.exams.runlog.records.run import RunLog
from gatemark.exams.runlog.traces.trace import Trace

AGENTS_MAX = 12
LABEL_MAX = 120
FLUSHES, DECISIONS, SUMMARIES = "gate", "decisions", "summaries"


def case_timeline(log: RunLog, trace: Trace) -> Timeline | None:
    """Turns per agent, then flushes, decisions and summary windows; None of an empty trace."""
    moments = {record.seq: record.t_rel_ms / 1000 for record in trace.records}
    if not moments:
        return None
    agents = list(dict.fromkeys(turn.agent_id for turn in trace.turns))[:AGENTS_MAX]
    spans = [
        *_turns(trace, moments, frozenset(agents)),
        *_flushes(log, moments),
        *_decisions(log, moments),
        *_summaries(log, moments),
    ]
    used = {span.lane for span in spans}
    lanes = tuple(lane for lane in (*agents, FLUSHES, DECISIONS, SUMMARIES) if lane in used)
    if not spans:
        return None
    return Timeline(
        title=f"{log.meta.case_id} under {log.meta.variant_id}",
        axis="seconds since the first delta",
        lanes=lanes,
        spans=tuple(spans),
    )


def _turns(
    trace: Trace, moments: dict[int, float], agents: frozenset[str]
) -> Iterator[TimelineSpan]:
    for turn in trace.turns:
        if turn.agent_id in agents:
            kind = "turn" if turn.plane == "content_plane" else "control turn"
            label = " ".join(turn.text.split())[:LABEL_MAX]
            start, end = moments[turn.start_seq], moments[turn.end_seq]
            yield TimelineSpan(turn.agent_id, kind, min(start, end), max(start, end), label)


def _flushes(log: RunLog, moments: dict[int, float]) -> Iterator[TimelineSpan]:
    for flush in log.flushes:
        at = _at(flush.end_seq, moments)
        reason = flush.trigger_reason if isinstance(flush.trigger_reason, str) else "unknown"
        yield TimelineSpan(FLUSHES, f"flush: {reason}", at, at, f"{flush.accumulated_ctu} CTU")


def _decisions(log: RunLog, moments: dict[int, float]) -> Iterator[TimelineSpan]:
    for decision in log.decisions:
        if isinstance(decision.end_seq, int):
            at = _at(decision.end_seq, moments)
            yield TimelineSpan(DECISIONS, f"decision: {decision.decision}", at, at)


def _summaries(log: RunLog, moments: dict[int, float]) -> Iterator[TimelineSpan]:
    for event in log.events:
        start, end = _at(event.start_seq, moments), _at(event.end_seq, moments)
        label = " ".join(event.summary_semantics_text.split())[:LABEL_MAX]
        kind = "summary" if event.schema_ok else "failed summary"
        yield TimelineSpan(SUMMARIES, kind, min(start, end), max(start, end), label)


def _at(seq: int, moments: dict[int, float]) -> float:
    """When a record was captured; a window that leaves the trace ends with it."""
    return moments.get(seq, max(moments.values()))
