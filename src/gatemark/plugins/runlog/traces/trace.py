"""A complete trace with its turns, divided into content and control plane.

Turns in which an orchestrator only names the next agent, or says that the talk is over, are the
control plane; everything else is content.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain
from operator import attrgetter
from typing import Annotated, Final, Literal

from msgspec import UNSET, Struct

from gatemark.core.errors import BadInputError
from gatemark.evidence.exam_options import option
from gatemark.plugins.runlog.records.run import Compat, RunLog
from gatemark.plugins.runlog.records.run_file_rules import find_covering_windows
from gatemark.plugins.runlog.records.trace import (
    Piece,
    StreamDelta,
    TextSpan,
    TraceMeta,
    TurnBoundary,
    split_spans,
)
from gatemark.plugins.runlog.records.trace_file_rules import TraceRules, TurnNotes

TracesFolder = Annotated[str, option("Folder of traces.", metavar="DIR")]
TextCompat = Annotated[
    Compat,
    option(
        "Compatibility mode: join deltas as they came, or by spaces as the source does (and read "
        "its logs).",
        "--compat",
        "--compat-mode",
    ),
]
Plane = Literal["control_plane", "content_plane"]

NO_LABELS: Final = frozenset({"unknown", "null", "none", ""})
"""Agent ids that do not name an agent."""
TERMINATE: Final = "TERMINATE"
LABEL_LIKE: Final = "suspicious_label_like_unmatched"
_ONE_WORD: Final = re.compile(r"(?=.*[A-Za-z])[A-Za-z0-9_]+\Z")


class Turn(Struct, frozen=True, gc=False):
    """One agent's turn: its text, its bounds, its plane, and the reason for that plane."""

    turn_id: int
    agent_id: str
    text: str
    delta_count: int
    start_seq: int
    end_seq: int
    plane: Plane
    reason: str
    flag: str | None = None


class Trace(Struct, frozen=True, dict=True):
    """One case's trace: meta, everything else in the order of ``seq``, and the turns.

    ``parts`` have the deltas as columns. ``end_ms`` is the time of the last record, in milliseconds
    since 1970.
    """

    meta: TraceMeta
    parts: tuple[TextSpan | TurnBoundary, ...]
    turns: tuple[Turn, ...]
    labels: frozenset[str]
    end_ms: int

    @cached_property
    def records(self) -> tuple[StreamDelta | TurnBoundary, ...]:
        """Return all records but ``trace_meta``."""
        return tuple(_list_records(self.parts))

    @property
    def is_stub(self) -> bool:
        """Whether the trace is a placeholder for one that could not be made."""
        return self.meta.stub_mode is True

    @property
    def deltas(self) -> tuple[StreamDelta, ...]:
        """The deltas alone."""
        return tuple(record for record in self.records if isinstance(record, StreamDelta))

    @property
    def content_turns(self) -> frozenset[int]:
        """The ids of the turns on the content plane."""
        return frozenset(turn.turn_id for turn in self.turns if turn.plane == "content_plane")

    @property
    def last_seq(self) -> int:
        """The highest ``seq`` of the trace, or -1 if it has no records."""
        if not self.parts:
            return -1
        last = self.parts[-1]
        return last.last_seq if isinstance(last, TextSpan) else last.seq

    def list_content(self) -> Iterator[Piece]:
        """Yield the non-empty pieces of text of the content plane, in order."""
        content = self.content_turns
        found = (part for part in self.parts if isinstance(part, TextSpan))
        return chain.from_iterable(_pick_content(span, content) for span in found)

    def find_uncovered(self, windows: Iterable[tuple[int, int]]) -> list[int]:
        """Return the ``seq`` of every piece of content that no window has; blanks do not count."""
        starts: list[int] = []
        ends: list[int] = []
        for start, end in sorted(windows):
            if ends and start <= ends[-1] + 1:
                ends[-1] = max(ends[-1], end)
            else:
                starts.append(start)
                ends.append(end)

        def reach(seq: int) -> int:
            """Return the last ``seq`` up to which windows have everything from this one on."""
            place = bisect_right(starts, seq)
            return ends[place - 1] if place else -1

        content = self.content_turns
        found = []
        for part in self.parts:
            if isinstance(part, TextSpan) and reach(part.first_seq) < part.last_seq:
                said = _pick_content(part, content)
                found += [seq for _, text, _, seq in said if text.strip() and reach(seq) < seq]
        return found


def _list_records(parts: Iterable[TextSpan | TurnBoundary]) -> Iterator[StreamDelta | TurnBoundary]:
    for part in parts:
        if isinstance(part, TextSpan):
            yield from part.deltas()
        else:
            yield part


def _pick_content(span: TextSpan, content: frozenset[int]) -> Iterable[Piece]:
    if content.issuperset(span.turn_ids) and all(span.texts):
        return span.pieces()
    return [
        piece
        for turn_id, piece in zip(span.turn_ids, span.pieces(), strict=True)
        if turn_id in content and piece[1]
    ]


def find_lost_text(log: RunLog, trace: Trace) -> str | None:
    """Return what a log lacks of its trace; None if its windows have all content."""
    windows = find_covering_windows(log)
    lost = [] if windows is None else trace.find_uncovered(windows)
    if not lost:
        return None
    kind = "flush" if log.flushes else "summary"
    return (
        f"the log is incomplete: {len(lost)} pieces of text, from seq {lost[0]} to {lost[-1]}, "
        f"are in no {kind}"
    )


def get_moment_ms(record: StreamDelta | TurnBoundary) -> int:
    """Return when a record was captured, in milliseconds since 1970."""
    return record.t_emitted_ms if isinstance(record, StreamDelta) else record.t_ms


def build_trace(rules: TraceRules) -> Trace:
    """Return the trace after the rules have checked all its records."""
    meta = rules.meta
    if meta is None:
        raise BadInputError("a trace needs a trace_meta record")
    labels = find_agent_labels(rules.turns.values())
    return Trace(
        meta=meta,
        parts=tuple(rules.parts if rules.in_order else _sort_records(rules.parts)),
        turns=tuple(_build_turn(notes, labels) for notes in rules.turns.values()),
        labels=labels,
        end_ms=max(
            (
                get_moment_ms(record)
                for notes in rules.turns.values()
                for record in _list_edges(notes)
            ),
            default=meta.t0_emitted_ms,
        ),
    )


def _sort_records(parts: Sequence[TextSpan | TurnBoundary]) -> Iterator[TextSpan | TurnBoundary]:
    """Yield the same records in the order of ``seq``."""
    deltas: list[StreamDelta] = []
    for record in sorted(_list_records(parts), key=attrgetter("seq")):
        if isinstance(record, StreamDelta):
            deltas.append(record)
            continue
        yield from split_spans(deltas)
        deltas = []
        yield record
    yield from split_spans(deltas)


def find_agent_labels(turns: Iterable[TurnNotes]) -> frozenset[str]:
    """Return the names by which an orchestrator may call agents, from the boundaries."""
    boundaries = (boundary for turn in turns for boundary in (turn.start, turn.end))
    found = {boundary.agent_id.strip().lower() for boundary in boundaries if boundary is not None}
    return frozenset(found - NO_LABELS)


def _list_edges(notes: TurnNotes) -> Iterator[StreamDelta | TurnBoundary]:
    """Yield the records that include the first and the last of a turn."""
    for record in (notes.start, notes.first, notes.last, notes.end):
        if record is not None:
            yield record


def classify(text: str, labels: frozenset[str]) -> tuple[Plane, str, str | None]:
    """Return a turn's plane, the reason for it, and a flag for human review."""
    said = text.strip()
    if said.lower() in labels:
        return "control_plane", f"exact_label_match:{said.lower()}", None
    if said.upper() == TERMINATE:
        return "control_plane", "terminate_sentinel", None
    if not said:
        return "control_plane", "empty_turn", None
    flag = LABEL_LIKE if _ONE_WORD.match(said) else None
    return "content_plane", "default_content", flag


def _build_turn(notes: TurnNotes, labels: frozenset[str]) -> Turn:
    text = notes.text
    plane, reason, flag = classify(text, labels)
    seqs = [record.seq for record in _list_edges(notes)]
    return Turn(
        turn_id=notes.turn_id,
        agent_id=notes.agent_id,
        text=text,
        delta_count=len(notes.texts),
        start_seq=notes.start.seq if notes.start is not None else min(seqs),
        end_seq=notes.end.seq if notes.end is not None else max(seqs),
        plane=plane,
        reason=reason,
        flag=flag,
    )


Stream = Literal["full", "content_plane"]


class ReplayEvent(Struct, frozen=True, gc=False):
    """An event at a virtual time: a delta, or the start or end of a turn."""

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
    """Yield every event in the order of ``seq``, optionally without the control plane.

    ``shift_to_zero`` moves the earliest record of the whole trace to 0, whichever stream is
    replayed, so that both streams share one clock.
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


SILENT_AGENTS: Final = frozenset({"orchestrator", "_system", "system", "meta"})
"""Agents whose deltas are not part of the text."""


class TraceText:
    """The text of one trace, prepared for many windows."""

    def __init__(self, trace: Trace, compat: Compat = "gatemark") -> None:
        self._compat: Compat = compat
        self.is_stub = trace.is_stub
        deltas = trace.deltas
        moments = [delta.t_rel_ms for delta in deltas]
        self.duration_ms = max(moments, default=0) - min(moments, default=0)
        said = [delta for delta in deltas if delta.agent_id not in SILENT_AGENTS]
        if compat == "source":
            said = [delta for delta in said if delta.delta_text.strip()]
        else:
            content = trace.content_turns
            said = [delta for delta in said if delta.turn_id in content]
        self._said = said
        self._seqs = [delta.seq for delta in said]

    @cached_property
    def whole(self) -> str:
        """The canonical text of the trace."""
        return self._join_texts(self._said)

    def window(self, start_seq: int, end_seq: int) -> str:
        """Return the text of the deltas from one ``seq`` to another, both included."""
        first = bisect_left(self._seqs, start_seq)
        return self._join_texts(self._said[first : bisect_right(self._seqs, end_seq)])

    def _join_texts(self, deltas: Sequence[StreamDelta]) -> str:
        if self._compat == "source":
            return " ".join(delta.delta_text for delta in deltas)
        turns: dict[int, list[str]] = {}
        for delta in deltas:
            turns.setdefault(delta.turn_id, []).append(delta.delta_text)
        return "\n".join("".join(texts) for texts in turns.values())


def join_canonical_text(trace: Trace, compat: Compat = "gatemark") -> str:
    """Return everything that a trace says."""
    return TraceText(trace, compat).whole
