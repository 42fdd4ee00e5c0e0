"""The rules across the records of a trace. Those of each record are rows in ``trace_rules``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Final, Literal

from msgspec import UNSET

from gatemark.core.record import FileRules, Grade, Remark
from gatemark.evidence.exam_options import option
from gatemark.plugins.runlog.records.names import hash_text
from gatemark.plugins.runlog.records.trace import (
    StreamDelta,
    TextSpan,
    TraceMeta,
    TraceRecord,
    TurnBoundary,
    join_span,
    split_spans,
)

Mode = Literal["strict", "inspect"]
ReadingMode = Annotated[
    Mode,
    option(
        "Whether odd order, times and turns of a trace are errors or warnings.",
        "--mode",
        "--strictness",
    ),
]

TOLERANCE_MS: Final = 2
"""Tolerance for a boundary on the wrong side of its turn's deltas, in milliseconds."""
TRACE_RULES: Final[Mapping[str, str]] = {
    "trace_meta_first": "trace_meta is the first record",
    "one_trace_meta": "a file has one trace_meta",
    "same_case": "the case is that of trace_meta",
    "seq": "seq counts from 0 without gaps",
    "time_order": "deltas do not go back in time",
    "t_rel": "relative time is the time since t0",
    "turn_boundaries": "a turn has one start and one end",
    "turn_times": "a turn starts before its first delta and ends after its last",
    "content_hash": "the hash of a turn is that of its text",
    "text": "the trace has text, unless it is a stub",
    "totals": "trace_meta counts the deltas and turns (a warning)",
}
"""Every rule, in the order in which reports list them."""
_FATAL: Final = frozenset({"trace_meta_first", "one_trace_meta", "same_case"})


class TurnNotes:
    """Data about one turn, collected while its trace is read."""

    __slots__ = (
        "agent_id",
        "end",
        "end_line",
        "first",
        "last",
        "line",
        "start",
        "start_line",
        "texts",
        "turn_id",
    )

    def __init__(self, turn_id: int, agent_id: str, line: int) -> None:
        self.turn_id = turn_id
        self.agent_id = agent_id
        self.line = line
        self.start: TurnBoundary | None = None
        self.end: TurnBoundary | None = None
        self.start_line = self.end_line = line
        self.first: StreamDelta | None = None
        self.last: StreamDelta | None = None
        self.texts: list[str] = []

    @property
    def text(self) -> str:
        """Return the text of the turn."""
        return "".join(self.texts)


class TraceRules(FileRules):
    """The rules of a trace. ``inspect`` turns problems of order and time into warnings.

    Afterwards it has ``meta``, the other records in file order with deltas as columns, whether
    ``seq`` always increased, and data about every turn.
    """

    def __init__(self, mode: Mode = "strict") -> None:
        self._grade: Grade = "error" if mode == "strict" else "warning"
        self.meta: TraceMeta | None = None
        self.parts: list[TextSpan | TurnBoundary] = []
        self.turns: dict[int, TurnNotes] = {}
        self.delta_count = 0
        self.in_order = True
        self._first: TraceRecord | None = None
        self._t0 = 0
        self._case_id: str | None = None
        self._last_line = 1
        self._next_seq = 0
        self._last_ms = 0
        self._excused = False

    def see(self, lines: Sequence[int], records: Sequence[Any]) -> Iterator[Remark]:
        if self._first is None and records:
            self._first = records[0]
        others = [place for place, one in enumerate(records) if type(one) is not StreamDelta]
        start = 0
        for place in (*others, len(records)):
            if start < place:
                yield from self._see_deltas(lines[start:place], records[start:place])
            if place < len(records):
                record = records[place]
                is_boundary = type(record) is TurnBoundary
                check = self._see_boundary if is_boundary else self._see_meta
                yield from check(lines[place], record)
            start = place + 1
        if lines:
            self._last_line = lines[-1]

    def _see_deltas(self, lines: Sequence[int], deltas: Sequence[StreamDelta]) -> Iterator[Remark]:
        """Check consecutive deltas; store them as columns if they have no remarks."""
        span = join_span(deltas)
        if span is None or not self._is_expected(span):
            for line, delta in zip(lines, deltas, strict=True):
                yield from self._check_delta_order(line, delta)
                self._next_seq, self._last_ms = delta.seq + 1, delta.t_emitted_ms
        last = deltas[-1]
        self._next_seq, self._last_ms = last.seq + 1, last.t_emitted_ms
        self.delta_count += len(deltas)
        if span is None:
            self.parts.extend(split_spans(deltas))
        else:
            self.parts.append(span)
            if span.turn_ids.count(last.turn_id) == len(deltas):
                self._note(lines[0], deltas[0], last, span.texts)
                return
        for line, delta in zip(lines, deltas, strict=True):
            self._note(line, delta, delta, (delta.delta_text,))

    def _is_expected(self, span: TextSpan) -> bool:
        """Return whether a span has no remarks."""
        times = span.t_rel_ms
        return (
            span.first_seq == self._next_seq
            and span.case_id == self._case_id
            and span.t0_ms == self._t0
            and times[0] + self._t0 >= self._last_ms
            and sorted(times) == times
        )

    def _note(self, line: int, first: StreamDelta, last: StreamDelta, texts: Sequence[str]) -> None:
        turn = self._find_turn(line, first)
        if turn.first is None:
            turn.first = first
        turn.last = last
        turn.texts += texts

    def lost(self) -> None:
        self._excused = True

    def end(self) -> Iterator[Remark]:
        if self.meta is None:
            if not self._excused:
                yield Remark(1, "one_trace_meta", "$", "the file has no trace_meta record")
            return
        if self._excused:
            return
        for turn in self.turns.values():
            yield from self._check_turn(turn)
        stub = self.meta.stub_mode is True
        if not stub and not any(
            text.strip() for turn in self.turns.values() for text in turn.texts
        ):
            yield self._make_remark(self._last_line, "text", "$", "the trace has no text")
        for field, found in (("total_deltas", self.delta_count), ("total_turns", len(self.turns))):
            stated = getattr(self.meta, field)
            if stated is not UNSET and stated != found:
                message = f"says {stated}, the file has {found}"
                yield Remark(1, "totals", f"$.{field}", message, "warning")

    def _make_remark(self, line: int, rule: str, path: str, message: str) -> Remark:
        return Remark(line, rule, path, message, "error" if rule in _FATAL else self._grade)

    def _see_meta(self, line: int, meta: TraceMeta) -> Iterator[Remark]:
        if self.meta is not None:
            yield self._make_remark(
                line, "one_trace_meta", "$.record_type", "a file has one trace_meta"
            )
            return
        if self._first is not meta and not self._excused:
            message = "trace_meta must be the first record of its file"
            yield self._make_remark(line, "trace_meta_first", "$.record_type", message)
        self.meta, self._t0, self._case_id = meta, meta.t0_emitted_ms, meta.case_id

    def _check_delta_order(self, line: int, delta: StreamDelta) -> Iterator[Remark]:
        yield from self._check_place(line, delta, delta.t_emitted_ms)
        if delta.t_emitted_ms < self._last_ms:
            message = f"must not go back, got {delta.t_emitted_ms} after {self._last_ms}"
            yield self._make_remark(line, "time_order", "$.t_emitted_ms", message)

    def _check_place(
        self, line: int, record: StreamDelta | TurnBoundary, moment_ms: int
    ) -> Iterator[Remark]:
        if self.meta is None:
            if record is self._first and not self._excused:
                message = "trace_meta must be the first record of its file"
                yield self._make_remark(line, "trace_meta_first", "$.record_type", message)
        else:
            if record.case_id != self._case_id:
                message = f"must be trace_meta's {self._case_id!r}, got {record.case_id!r}"
                yield self._make_remark(line, "same_case", "$.case_id", message)
            if record.t_rel_ms != moment_ms - self._t0:
                message = f"must be {moment_ms - self._t0} (time - t0), got {record.t_rel_ms}"
                yield self._make_remark(line, "t_rel", "$.t_rel_ms", message)
        if record.seq != self._next_seq and not (self._excused and record.seq > self._next_seq):
            message = f"must be {self._next_seq}: seq counts from 0 without gaps, got {record.seq}"
            yield self._make_remark(line, "seq", "$.seq", message)
        self.in_order = self.in_order and record.seq >= self._next_seq

    def _find_turn(self, line: int, record: StreamDelta | TurnBoundary) -> TurnNotes:
        turn = self.turns.get(record.turn_id)
        if turn is None:
            turn = self.turns[record.turn_id] = TurnNotes(record.turn_id, record.agent_id, line)
        return turn

    def _see_boundary(self, line: int, boundary: TurnBoundary) -> Iterator[Remark]:
        yield from self._check_place(line, boundary, boundary.t_ms)
        self._next_seq = boundary.seq + 1
        self.parts.append(boundary)
        turn = self._find_turn(line, boundary)
        word = boundary.boundary
        if (turn.start if word == "start" else turn.end) is not None:
            message = f"turn {boundary.turn_id} has two {word}s"
            yield self._make_remark(line, "turn_boundaries", "$.boundary", message)
        elif word == "start":
            turn.start, turn.start_line, turn.agent_id = boundary, line, boundary.agent_id
        else:
            turn.end, turn.end_line = boundary, line

    def _check_turn(self, turn: TurnNotes) -> Iterator[Remark]:
        name = f"turn {turn.turn_id}"
        if turn.start is None and turn.end is None:
            message = f"{name} has deltas and no boundaries"
            yield self._make_remark(turn.line, "turn_boundaries", "$.turn_id", message)
            return
        for word, boundary in (("start", turn.start), ("end", turn.end)):
            if boundary is None:
                message = f"{name} has no {word}"
                yield self._make_remark(turn.line, "turn_boundaries", "$.turn_id", message)
        if turn.texts:
            yield from self._check_turn_times(turn)
        given = UNSET if turn.end is None else turn.end.content_hash
        if given is not UNSET and given != hash_text(turn.text):
            message = f"is not the hash of the text of {name}"
            yield self._make_remark(turn.end_line, "content_hash", "$.content_hash", message)

    def _check_turn_times(self, turn: TurnNotes) -> Iterator[Remark]:
        """Check that a turn starts before its first delta and ends after its last one."""
        found: list[tuple[int, int, str]] = []
        if turn.start is not None and turn.first is not None:
            late_ms = turn.start.t_ms - turn.first.t_emitted_ms
            found.append((late_ms, turn.start_line, f"starts {late_ms} ms after its first delta"))
        if turn.end is not None and turn.last is not None:
            early_ms = turn.last.t_emitted_ms - turn.end.t_ms
            found.append((early_ms, turn.end_line, f"ends {early_ms} ms before its last delta"))
        for off_ms, line, words in found:
            message = f"turn {turn.turn_id} {words}"
            if off_ms > TOLERANCE_MS:
                yield self._make_remark(line, "turn_times", "$.t_ms", message)
            elif off_ms > 0:
                yield Remark(line, "turn_times", "$.t_ms", message, "warning")
