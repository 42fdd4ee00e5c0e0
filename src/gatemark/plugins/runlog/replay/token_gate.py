"""The token gate: collects each agent's text and passes it on in pieces worth evaluating.

Timers are lazy: an agent's silence is noticed when that agent speaks again. The caller supplies the
time, in milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from msgspec import Struct

from gatemark.core.errors import InvalidValueError
from gatemark.plugins.runlog.records.run import Compat, TriggerReason
from gatemark.plugins.runlog.records.trace import Piece

SENTENCE_ENDS: Final = (".", "?", "!")
CLOSERS: Final = ")]}'\""


class GateSettings(Struct, frozen=True):
    """When the gate opens: word counts, and times in milliseconds."""

    min_words: int = 60
    max_words: int = 100
    silence_ms: int = 1000
    max_wait_ms: int = 4000

    def __post_init__(self) -> None:
        for name in ("min_words", "max_words", "silence_ms", "max_wait_ms"):
            if getattr(self, name) < 1:
                raise InvalidValueError(f"{name} must be >= 1, got {getattr(self, name)}")
        if self.max_words < self.min_words:
            raise InvalidValueError(
                f"max_words must be >= min_words={self.min_words}, got {self.max_words}"
            )


class Flushed(Struct, frozen=True, gc=False):
    """Text of one agent that was passed on, why, and the window of deltas it came from."""

    agent_id: str
    text: str
    reason: TriggerReason
    start_seq: int
    end_seq: int
    words: int


def has_boundary_cue(text: str) -> bool:
    """Return whether a text ends a line or a sentence, ignoring spaces and closing marks."""
    end = text.rstrip(" \t")
    return end.endswith("\n") or end.rstrip(CLOSERS).endswith(SENTENCE_ENDS)


_NEVER: Final = 1 << 62
_MOST_KNOWN: Final = 65_536
_KNOWN_LENGTH: Final = 32
_known: dict[str, tuple[int, bool, bool, bool]] = {}


def _look_at(text: str) -> tuple[int, bool, bool, bool]:
    """Return the words of a piece, whether it starts or ends inside a word, and may end a sentence.

    Cached, because streams repeat the same short pieces.
    """
    tells = text.rstrip(" \t").rstrip(CLOSERS)
    may_end = not tells or has_boundary_cue(text)
    found = (len(text.split()), not text[0].isspace(), not text[-1].isspace(), may_end)
    if len(text) <= _KNOWN_LENGTH and len(_known) < _MOST_KNOWN:
        _known[text] = found
    return found


class _Buffer:
    """What one agent has said since the gate last opened for it."""

    __slots__ = ("in_word", "last_ms", "last_seq", "parts", "start_ms", "start_seq", "words")

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.words = 0
        self.in_word = False
        self.start_ms: int | None = None
        self.last_ms = 0
        self.start_seq = 0
        self.last_seq = 0


class TokenGate:
    """One buffer per agent. In mode ``source`` only the first one has the longest wait."""

    def __init__(self, settings: GateSettings, compat: Compat = "gatemark") -> None:
        self._min_words = settings.min_words
        self._max_words = settings.max_words
        self._silence_ms = settings.silence_ms
        self._max_wait_ms = settings.max_wait_ms
        self._rearm = compat != "source"
        self._buffers: dict[str, _Buffer] = {}

    def add(self, agent_id: str, text: str, now_ms: int, seq: int) -> Flushed | None:
        """Add the next piece of an agent's text; return what it makes the gate pass on."""
        buffer = self._buffers.get(agent_id)
        flushed = None
        if buffer is None:
            buffer = self._buffers[agent_id] = _Buffer()
            buffer.start_ms = now_ms
        elif buffer.parts and now_ms - buffer.last_ms >= self._silence_ms:
            flushed = self._open(agent_id, buffer, "silence_timer")
        if not buffer.parts:
            buffer.start_seq = seq
            if self._rearm:
                buffer.start_ms = now_ms
        count, goes_on, stops_inside, may_end = _known.get(text) or _look_at(text)
        # A piece that continues a word adds one word less.
        if goes_on and buffer.in_word:
            count -= 1
        words = buffer.words = buffer.words + count
        buffer.in_word = stops_inside
        buffer.parts.append(text)
        buffer.last_ms = now_ms
        buffer.last_seq = seq
        if flushed is not None:
            return flushed
        if buffer.start_ms is not None and now_ms - buffer.start_ms >= self._max_wait_ms:
            return self._open(agent_id, buffer, "max_wait_timeout")
        if words >= self._min_words:
            if words >= self._max_words:
                return self._open(agent_id, buffer, "max_words")
            if may_end and has_boundary_cue("".join(buffer.parts)):
                return self._open(agent_id, buffer, "boundary_cue")
        return None

    def add_all(self, pieces: Iterable[Piece]) -> Iterator[Flushed]:
        """Yield what ``add`` returns for one piece after the other; none of them is empty.

        Most pieces only extend one agent's buffer. Those are handled here, without a call.
        """
        known, min_words, max_words = _known.get, self._min_words, self._max_words
        silence_ms, max_wait_ms = self._silence_ms, self._max_wait_ms
        buffer, speaker = _Buffer(), None
        words, in_word, last_ms, last_seq, deadline_ms = 0, False, 0, 0, 0
        append = buffer.parts.append
        for agent_id, text, now_ms, seq in pieces:
            if agent_id == speaker and now_ms - last_ms < silence_ms and now_ms < deadline_ms:
                count, goes_on, stops_inside, may_end = known(text) or _look_at(text)
                if goes_on and in_word:
                    count -= 1
                count += words
                if count < min_words or (count < max_words and not may_end):
                    words, in_word, last_ms, last_seq = count, stops_inside, now_ms, seq
                    append(text)
                    continue
            buffer.words, buffer.in_word = words, in_word
            buffer.last_ms, buffer.last_seq = last_ms, last_seq
            flushed = self.add(agent_id, text, now_ms, seq)
            buffer = self._buffers[agent_id]
            speaker = agent_id if buffer.parts else None
            words, in_word = buffer.words, buffer.in_word
            last_ms, last_seq = buffer.last_ms, buffer.last_seq
            deadline_ms = _NEVER if buffer.start_ms is None else buffer.start_ms + max_wait_ms
            append = buffer.parts.append
            if flushed is not None:
                yield flushed
        buffer.words, buffer.in_word = words, in_word
        buffer.last_ms, buffer.last_seq = last_ms, last_seq

    def flush(self, agent_id: str, reason: TriggerReason) -> Flushed | None:
        """Return and clear an agent's buffer; None if it is empty."""
        buffer = self._buffers.get(agent_id)
        return self._open(agent_id, buffer, reason) if buffer and buffer.parts else None

    def flush_all(self, reason: TriggerReason) -> Iterator[Flushed]:
        """Yield the buffer of every agent, in the order in which they first spoke."""
        for agent_id, buffer in self._buffers.items():
            if buffer.parts:
                yield self._open(agent_id, buffer, reason)

    def _open(self, agent_id: str, buffer: _Buffer, reason: TriggerReason) -> Flushed:
        flushed = Flushed(
            agent_id=agent_id,
            text="".join(buffer.parts),
            reason=reason,
            start_seq=buffer.start_seq,
            end_seq=buffer.last_seq,
            words=buffer.words,
        )
        buffer.parts = []
        buffer.words = 0
        buffer.in_word = False
        buffer.start_ms = None
        return flushed
