"""``exaid.trace``: the rules of a trace, for each record and across records, and its schema."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Final, Literal

from msgspec import UNSET

from gatemark.core.canonical import is_digest
from gatemark.core.record import BadFile, FileRules, Grade, Problem, RecordSchema, Remark
from gatemark.evidence.exam_options import option
from gatemark.exams.runlog.records.examples import (
    Example,
    change_record,
    drop_keys,
    make_bad,
    make_tagged_form,
)
from gatemark.exams.runlog.records.fields import CASE_PATTERN, check_texts, matches_pattern
from gatemark.exams.runlog.records.names import hash_text
from gatemark.exams.runlog.records.trace import (
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
TRACE_RULES: Final = (
    "trace_meta_first",
    "one_trace_meta",
    "same_case",
    "seq",
    "time_order",
    "t_rel",
    "turn_boundaries",
    "turn_times",
    "content_hash",
    "text",
    "totals",
)
"""Every rule, in the order in which reports list them."""
_FATAL: Final = frozenset({"trace_meta_first", "one_trace_meta", "same_case"})


def check_trace_meta(meta: TraceMeta) -> Sequence[Problem]:
    """Return the problems of a ``trace_meta`` record."""
    return list(check_texts(meta, TraceMeta))


def check_delta(delta: StreamDelta) -> Sequence[Problem]:
    """Return the problems of a delta."""
    if matches_pattern(CASE_PATTERN, delta.case_id):
        return ()
    return list(check_texts(delta, StreamDelta))


def are_deltas_valid(deltas: Sequence[StreamDelta]) -> bool:
    """Return whether none of many deltas has a problem."""
    names = [delta.case_id for delta in deltas]
    return names.count(names[0]) == len(names) and matches_pattern(CASE_PATTERN, names[0])


def check_boundary(boundary: TurnBoundary) -> Sequence[Problem]:
    """Return the problems of a boundary."""
    hash_given = boundary.content_hash
    if (hash_given is UNSET or is_digest(hash_given)) and matches_pattern(
        CASE_PATTERN, boundary.case_id
    ):
        if hash_given is UNSET or boundary.boundary == "end":
            return ()
        return [Problem("$.content_hash", "only the end of a turn may have one")]
    return list(check_texts(boundary, TurnBoundary))


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
        if span is None or not self._as_expected(span):
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

    def _as_expected(self, span: TextSpan) -> bool:
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
        turn = self._turn(line, first)
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
            yield from self._turn_remarks(turn)
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

    def _turn(self, line: int, record: StreamDelta | TurnBoundary) -> TurnNotes:
        turn = self.turns.get(record.turn_id)
        if turn is None:
            turn = self.turns[record.turn_id] = TurnNotes(record.turn_id, record.agent_id, line)
        return turn

    def _see_boundary(self, line: int, boundary: TurnBoundary) -> Iterator[Remark]:
        yield from self._check_place(line, boundary, boundary.t_ms)
        self._next_seq = boundary.seq + 1
        self.parts.append(boundary)
        turn = self._turn(line, boundary)
        word = boundary.boundary
        if (turn.start if word == "start" else turn.end) is not None:
            message = f"turn {boundary.turn_id} has two {word}s"
            yield self._make_remark(line, "turn_boundaries", "$.boundary", message)
        elif word == "start":
            turn.start, turn.start_line, turn.agent_id = boundary, line, boundary.agent_id
        else:
            turn.end, turn.end_line = boundary, line

    def _turn_remarks(self, turn: TurnNotes) -> Iterator[Remark]:
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
            yield from self._time_remarks(turn)
        given = UNSET if turn.end is None else turn.end.content_hash
        if given is not UNSET and given != hash_text(turn.text):
            message = f"is not the hash of the text of {name}"
            yield self._make_remark(turn.end_line, "content_hash", "$.content_hash", message)

    def _time_remarks(self, turn: TurnNotes) -> Iterator[Remark]:
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


_T0: Final = 1_700_000_000_000

_META: Final[Example] = {
    "record_type": "trace_meta",
    "schema_version": "2.0.0",
    "case_id": "case-synth-000",
    "mas_run_id": "mas_0a1b2c3d_synthetic1_0ad5f2b4_d22060bf",
    "mac_commit": "0a1b2c3d" * 5,
    "exaid_commit": "unknown",
    "model": "synthetic-1",
    "decoding": {"temperature": 1.0, "top_p": None, "max_tokens": 4096, "seed": None},
    "created_at": "2023-11-14T22:13:20.000Z",
    "t0_emitted_ms": _T0,
    "total_turns": 1,
    "total_deltas": 2,
}


def _place_in_time(rel_ms: int) -> dict[str, int]:
    return {"t_ms": _T0 + rel_ms, "t_rel_ms": rel_ms}


_START: Final[Example] = {
    "record_type": "turn_boundary",
    "case_id": "case-synth-000",
    "turn_id": 1,
    "agent_id": "doctor0",
    "boundary": "start",
    "seq": 0,
    **_place_in_time(-50),
}
_FIRST: Final[Example] = {
    "record_type": "stream_delta",
    "case_id": "case-synth-000",
    "seq": 1,
    "turn_id": 1,
    "agent_id": "doctor0",
    "delta_text": "Fever for three",
    "t_emitted_ms": _T0,
    "t_rel_ms": 0,
}
_SECOND: Final[Example] = _FIRST | {
    "seq": 2,
    "delta_text": " days.",
    "t_emitted_ms": _T0 + 40,
    "t_rel_ms": 40,
}
_END: Final[Example] = _START | {
    "boundary": "end",
    "seq": 3,
    "content_hash": hash_text("Fever for three days."),
    **_place_in_time(90),
}
_FILE: Final = (_META, _START, _FIRST, _SECOND, _END)


SCHEMA: Final = RecordSchema(
    name="exaid.trace",
    summary="What several agents said about one case, delta by delta, with the bounds of turns.",
    tag="record_type",
    across=TraceRules,
    forms=(
        make_tagged_form(
            TraceMeta,
            check_trace_meta,
            (_META, drop_keys(_META, "decoding") | {"stub_mode": True}),
            (
                make_bad(_META, "another version", "schema_version", "1"),
                make_bad(_META, "a suffix", "case_id", "case-1.trace"),
                make_bad(_META, "a commit too short", "mac_commit", "0a1b2c"),
                make_bad(_META, "no start", "t0_emitted_ms"),
                make_bad(_META, "a start before 1970", "t0_emitted_ms", -1),
                make_bad(_META, "a time in words", "created_at", "today"),
                make_bad(_META, "derived units", "ctu", 9, "$"),
            ),
        ),
        make_tagged_form(
            StreamDelta,
            check_delta,
            (_FIRST, _SECOND, _FIRST | {"delta_text": ""}),
            (
                make_bad(_FIRST, "a negative seq", "seq", -1),
                make_bad(_FIRST, "turn 0", "turn_id", 0),
                make_bad(_FIRST, "a negative time", "t_emitted_ms", -4),
                make_bad(_FIRST, "before the first delta", "t_rel_ms", -4),
                make_bad(_FIRST, "no text", "delta_text"),
                make_bad(_FIRST, "a subtype", "event_subtype", "message", "$"),
                make_bad(_FIRST, "a suffix", "case_id", "case-1.trace"),
            ),
            identity="agent_id",
            proof=are_deltas_valid,
        ),
        make_tagged_form(
            TurnBoundary,
            check_boundary,
            (_START, _END, drop_keys(_END, "content_hash")),
            (
                make_bad(_START, "a boundary in the middle", "boundary", "mid"),
                make_bad(_START, "a negative time", "t_ms", -1),
                make_bad(_END, "a hash cut short", "content_hash", "sha256:1"),
                make_bad(_START, "a hash at the start", "content_hash", hash_text("")),
                make_bad(_END, "no agent", "agent_id"),
            ),
            identity="agent_id",
        ),
    ),
    good_files=(_FILE, (_META | {"total_turns": 0, "total_deltas": 0, "stub_mode": True},)),
    bad_files=(
        BadFile("no meta first", (_START, _META, *_FILE[2:]), 1, "trace_meta_first"),
        BadFile("two metas", (_META, *_FILE), 2, "one_trace_meta"),
        BadFile("no meta", _FILE[1:], 1, "one_trace_meta"),
        BadFile(
            "a record of another case",
            change_record(_FILE, 2, {"case_id": "case-2"}),
            3,
            "same_case",
        ),
        BadFile("a gap in seq", (*_FILE[:3], _END), 4, "seq"),
        BadFile("a seq twice", change_record(_FILE, 3, {"seq": 1}), 4, "seq"),
        BadFile(
            "time that goes back",
            change_record(_FILE, 2, {"t_emitted_ms": _T0 + 60, "t_rel_ms": 60}),
            4,
            "time_order",
        ),
        BadFile("relative time that is off", change_record(_FILE, 3, {"t_rel_ms": 41}), 4, "t_rel"),
        BadFile("a turn without an end", _FILE[:-1], 2, "turn_boundaries"),
        BadFile(
            "a turn without a start",
            (_META, _FIRST | {"seq": 0}, _SECOND | {"seq": 1}, _END | {"seq": 2}),
            2,
            "turn_boundaries",
        ),
        BadFile(
            "deltas without boundaries",
            (_META, _FIRST | {"seq": 0}, _SECOND | {"seq": 1}),
            2,
            "turn_boundaries",
        ),
        BadFile("a turn that ends twice", (*_FILE, _END | {"seq": 4}), 6, "turn_boundaries"),
        BadFile(
            "an end before the last delta",
            change_record(_FILE, 4, _place_in_time(37)),
            5,
            "turn_times",
        ),
        BadFile(
            "a start after the first delta",
            change_record(_FILE, 1, _place_in_time(3)),
            2,
            "turn_times",
        ),
        BadFile(
            "the hash of another text",
            change_record(_FILE, 4, {"content_hash": hash_text("Fever.")}),
            5,
            "content_hash",
        ),
        BadFile(
            "no text at all",
            (_META, _START, drop_keys(_END, "content_hash") | {"seq": 1}),
            3,
            "text",
        ),
    ),
)
