"""Run one case through one variant: replayed deltas in, records of a run log out.

V0, V2 and V4 start with a token gate; V3 cuts fixed chunks; V1 waits for the end of each turn. V0,
V3 and V4 ask a buffer agent whether a piece is worth a summary. Text that is left when the trace
ends is summarised by V2 and parked by the others: it never reaches a summary there. Timestamps
come from the trace, never from a clock.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import accumulate
from typing import Final, TypeVar

from msgspec import UNSET, Struct, UnsetType

from gatemark.plugins.runlog.records.names import (
    count_ctu,
    format_moment,
    hash_text,
    name_decision,
    name_event,
)
from gatemark.plugins.runlog.records.run import (
    FALLBACK_STEP_MS,
    PARTS,
    BufferDecision,
    Compat,
    SummaryEvent,
    TimestampDerivation,
    TokengateFlush,
    TriggerType,
)
from gatemark.plugins.runlog.records.trace import TextSpan, TurnBoundary
from gatemark.plugins.runlog.replay.buffer_agent import BufferAgent
from gatemark.plugins.runlog.replay.config import VariantConfig
from gatemark.plugins.runlog.replay.model import LanguageModel, TextSegment
from gatemark.plugins.runlog.replay.summarizer import Summarizer, Summary
from gatemark.plugins.runlog.replay.token_gate import Flushed, TokenGate
from gatemark.plugins.runlog.traces.trace import Trace

MANY_FALLBACKS: Final = 10
"""Number of fallback timestamps above which there is a warning."""


class CaptureMoments:
    """When the record of each ``seq`` was captured, and how often a fallback was used.

    Boundaries have their own time. Mode ``source`` knows only the times of deltas, so a window that
    ends with a boundary gets a fallback: the first delta's time plus a second per seq.
    """

    def __init__(self, trace: Trace, compat: Compat = "gatemark") -> None:
        self._parts = trace.parts
        spans = [
            (part.first_seq, part.last_seq) if isinstance(part, TextSpan) else (part.seq, part.seq)
            for part in trace.parts
        ]
        self._firsts = [first for first, _ in spans]
        self._lasts = [last for _, last in spans]
        self._places = list(accumulate((last - first + 1 for first, last in spans), initial=0))
        self._only_deltas = compat == "source"
        first = next((part for part in trace.parts if isinstance(part, TextSpan)), None)
        self._start_ms = (
            trace.meta.t0_emitted_ms if first is None else first.t0_ms + first.t_rel_ms[0]
        )
        self._found = 0
        self._made_up = 0

    @property
    def made_up(self) -> int:
        """How many timestamps are not in the trace."""
        return self._made_up

    def at(self, seq: int) -> str:
        """Return the timestamp of a window that ends with this ``seq``."""
        known_ms = self._find_known_ms(seq)
        if known_ms is None:
            self._made_up += 1
            return format_moment(self._start_ms + seq * FALLBACK_STEP_MS)
        self._found += 1
        return format_moment(known_ms)

    def _find_known_ms(self, seq: int) -> int | None:
        part = self._find_part(seq)
        if isinstance(part, TextSpan):
            return part.t0_ms + part.t_rel_ms[seq - part.first_seq]
        return None if part is None or self._only_deltas else part.t_ms

    def _find_part(self, seq: int) -> TextSpan | TurnBoundary | None:
        """Return the record with a ``seq``; usually its position is its number."""
        found = bisect_right(self._places, seq) - 1
        if found == len(self._parts) or self._firsts[found] != self._places[found]:
            found = bisect_left(self._lasts, seq)
        if found == len(self._parts) or self._firsts[found] > seq:
            return None
        return self._parts[found]

    def derivation(self) -> TimestampDerivation:
        """Return what ``run_meta`` says about all timestamps given so far."""
        return TimestampDerivation(
            method="trace_t_emitted_ms",
            fallback_method="run_start_time_plus_seq",
            missing_t_emitted_ms_count=self._made_up,
            derived_from_t_emitted=self._found,
            derived_from_fallback=self._made_up,
        )


T = TypeVar("T")

FIXED_CHUNK: Final = "fixed_ctu"
"""The reason that V3 passes to its buffer agent."""


class Models(Struct, frozen=True):
    """The models of the buffer agent and of the summarizer."""

    buffer: LanguageModel
    summarizer: LanguageModel


class CaseRecorder:
    """Records what a variant does in one case, and passes summaries on to later ones.

    ``model_failures`` counts questions without a reply, ``unparsable`` replies without an answer.
    """

    def __init__(
        self,
        trace: Trace,
        config: VariantConfig,
        models: Models,
        compat: Compat,
        *,
        keep_inputs: bool = False,
    ) -> None:
        self._case_id = trace.meta.case_id
        self._variant = config.variant_id
        self._history_k = config.summarizer.history_k
        self._summarizer = Summarizer(models.summarizer, compat)
        self._keep_inputs = keep_inputs
        self.moments = CaptureMoments(trace, compat)
        self.buffer = BufferAgent(
            models.buffer, novelty=PARTS[config.trigger_policy].novelty, history_k=self._history_k
        )
        self._merge_windows = compat != "source"
        self._window = (0, 0)
        self._summaries: list[Summary] = []
        self.flushes: list[TokengateFlush] = []
        self.decisions: list[BufferDecision] = []
        self.events: list[SummaryEvent] = []
        self.model_failures = 0
        self.unparsable = 0

    def flush(self, flushed: Flushed) -> None:
        """Handle a flush of the token gate."""
        self.flushes.append(
            TokengateFlush(
                flush_index=len(self.flushes),
                case_id=self._case_id,
                variant_id=self._variant,
                timestamp=self.moments.at(flushed.end_seq),
                start_seq=flushed.start_seq,
                end_seq=flushed.end_seq,
                accumulated_ctu=count_ctu(flushed.text),
                trigger_reason=flushed.reason,
                text_hash=hash_text(flushed.text),
            )
        )

    def evaluate(
        self, segments: list[TextSegment], start_seq: int, end_seq: int, reason: str
    ) -> None:
        """Ask the buffer agent about the last of some segments, and summarise if it says so."""
        self._widen(start_seq, end_seq)
        for segment in segments[:-1]:
            self.buffer.hold(segment)
        history = [summary.for_history for summary in self._summaries[-self._history_k :]]
        look = self.buffer.evaluate(segments[-1], history, reason)
        index = len(self.decisions)
        self.decisions.append(
            BufferDecision(
                decision_index=index,
                decision_id=name_decision(self._case_id, self._variant, index),
                case_id=self._case_id,
                variant_id=self._variant,
                timestamp=self.moments.at(self._window[1]),
                start_seq=self._window[0],
                end_seq=self._window[1],
                input_ctu=look.input_ctu,
                decision="summarize" if look.trigger else "buffer",
                filter_results=look.filters(),
                llm_usage=look.usage,
                latency_ms=_convert_none(look.latency_ms),
                failure_mode=_convert_none(look.failure),
            )
        )
        self.model_failures += look.unanswered
        self.unparsable += look.failure is not None and not look.unanswered
        if look.trigger:
            self.summarise(self.buffer.take(), *self._window, "buffer_agent")

    def _widen(self, start_seq: int, end_seq: int) -> None:
        """Extend the window to everything that is held.

        An agent's silence is noticed late, so a piece may be older than those before it. Then the
        window reaches back to it; mode ``source`` runs from the first piece to the last one that
        came.
        """
        if self.buffer.is_empty:
            self._window = (start_seq, end_seq)
        elif self._merge_windows:
            self._window = (min(self._window[0], start_seq), max(self._window[1], end_seq))
        else:
            self._window = (self._window[0], end_seq)

    def park(self, flushed: Flushed) -> None:
        """Keep text that came too late for the buffer agent."""
        self.buffer.park(TextSegment(flushed.agent_id, flushed.text))

    def summarise(
        self, segments: tuple[TextSegment, ...], start_seq: int, end_seq: int, trigger: TriggerType
    ) -> None:
        """Ask for a summary and record the outcome; a failed one becomes the latest too."""
        index = len(self.events)
        earlier = self._summaries[:-1][-self._history_k :]
        latest = self._summaries[-1] if self._summaries else None
        summary = self._summarizer.summarize(
            segments,
            [before.for_history for before in earlier],
            None if latest is None else latest.for_history,
        )
        self._summaries.append(summary)
        self.model_failures += summary.failure_mode == "unexpected_error"
        self.unparsable += summary.failure_mode == "schema_validation_error"
        self.events.append(
            SummaryEvent(
                event_index=index,
                event_id=self._name_event(index),
                case_id=self._case_id,
                variant_id=self._variant,
                timestamp=self.moments.at(end_seq),
                start_seq=start_seq,
                end_seq=end_seq,
                schema_ok=summary.schema_ok,
                schema_error=summary.schema_error,
                summary_semantics_text=summary.semantics,
                summary_ctu=count_ctu(summary.semantics),
                summary_content=summary.content,
                trigger_type=trigger,
                summary_history_event_ids=[
                    self._name_event(place) for place in range(index - 1 - len(earlier), index - 1)
                ],
                latest_summary_event_id=None if latest is None else self._name_event(index - 1),
                summarizer_input_hash=summary.input_hash,
                summarizer_input_text=summary.prompt if self._keep_inputs else UNSET,
                new_buffer_text_hash=summary.block_hash,
                limits_ok=summary.limits_ok,
                failure_mode=summary.failure_mode,
                truncated_fields=list(summary.truncated) or UNSET,
                llm_usage=summary.usage,
                latency_ms=_convert_none(summary.latency_ms),
            )
        )

    def _name_event(self, index: int) -> str:
        return name_event(self._case_id, self._variant, index)


def run_variant(
    trace: Trace,
    config: VariantConfig,
    models: Models,
    *,
    compat: Compat = "gatemark",
    chunk_size_ctu: int | None = None,
    keep_inputs: bool = False,
) -> CaseRecorder:
    """Run one case through one variant, and return what it did."""
    recorder = CaseRecorder(trace, config, models, compat, keep_inputs=keep_inputs)
    parts = PARTS[config.trigger_policy]
    if parts.gate:
        gate = TokenGate(config.components.token_gate.settings(), compat)
        _run_gate(trace, gate, recorder, with_buffer=parts.buffer)
    elif parts.buffer:
        size = chunk_size_ctu or config.fixed_trigger.chunk_size_ctu
        assert size is not None  # noqa: S101 - the run reads it from a report beforehand
        _run_chunks(trace, size, recorder, compat)
    else:
        _run_turns(trace, recorder, compat)
    return recorder


def _run_gate(trace: Trace, gate: TokenGate, recorder: CaseRecorder, *, with_buffer: bool) -> None:
    def pass_on(flushed: Flushed) -> None:
        recorder.flush(flushed)
        segment = TextSegment(flushed.agent_id, flushed.text)
        start, end = flushed.start_seq, flushed.end_seq
        if with_buffer:
            recorder.evaluate([segment], start, end, flushed.reason)
        else:
            recorder.summarise((segment,), start, end, "tokengate_flush")

    for flushed in gate.add_all(trace.list_content()):
        pass_on(flushed)
    for rest in gate.flush_all("end_of_trace"):
        if with_buffer:
            recorder.flush(rest)
            recorder.park(rest)
        else:
            pass_on(rest)


def _run_chunks(trace: Trace, size: int, recorder: CaseRecorder, compat: Compat) -> None:
    """Cut fixed chunks over all agents; the last segment of a chunk is evaluated."""
    per_delta = compat == "source"
    parts: list[tuple[str, list[str]]] = []
    length = counted = start = 0
    for agent_id, text, _, seq in trace.list_content():
        if not parts:
            start, length, counted = seq, 0, 0
        if parts and parts[-1][0] == agent_id:
            parts[-1][1].append(text)
        else:
            parts.append((agent_id, [text]))
        length += len(text)
        counted = counted + count_ctu(text) if per_delta else (length + 3) // 4
        if counted >= size:
            segments = [TextSegment(speaker, "".join(texts)) for speaker, texts in parts]
            recorder.evaluate(segments, start, seq, FIXED_CHUNK)
            parts = []


def _run_turns(trace: Trace, recorder: CaseRecorder, compat: Compat) -> None:
    """Summarise each turn, over everything between its boundaries.

    Mode ``source`` knows one turn at a time: one that starts inside another discards its text.
    """
    content = trace.content_turns
    one_at_a_time = compat == "source"
    turns: dict[int, _OpenTurn] = {}

    def summarise(turn: _OpenTurn, end_seq: int) -> None:
        if turn.texts:
            segment = TextSegment(turn.agent_id, "".join(turn.texts))
            recorder.summarise((segment,), turn.start_seq, end_seq, "turn_end")

    for part in trace.parts:
        if isinstance(part, TextSpan):
            for turn_id, (agent_id, text, _, seq) in zip(part.turn_ids, part.pieces(), strict=True):
                if text and turn_id in content:
                    key = 0 if one_at_a_time else turn_id
                    turn = turns.get(key) or turns.setdefault(key, _OpenTurn(agent_id, seq))
                    turn.texts.append(text)
                    turn.agent_id, turn.last_seq = agent_id, seq
        elif part.turn_id in content:
            key = 0 if one_at_a_time else part.turn_id
            if part.boundary == "start":
                turns[key] = _OpenTurn(part.agent_id, part.seq)
            elif key in turns:
                summarise(turns.pop(key), part.seq)
    for turn in turns.values():
        summarise(turn, turn.last_seq)


class _OpenTurn:
    """The text of a turn that has not ended yet."""

    __slots__ = ("agent_id", "last_seq", "start_seq", "texts")

    def __init__(self, agent_id: str, start_seq: int) -> None:
        self.agent_id = agent_id
        self.start_seq = start_seq
        self.last_seq = start_seq
        self.texts: list[str] = []


def _convert_none(value: T | None) -> T | UnsetType:
    return UNSET if value is None else value
