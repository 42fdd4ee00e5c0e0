"""One interface to language models: a question returns text, or raises an error.

A question has its rendered prompts, which is all that a real model sees, and the data they were
made from, so that a rule-based backend need not parse them.
"""

from __future__ import annotations

import copy
import json
from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from typing import Literal, Protocol

import msgspec
from msgspec import Struct

from gatemark.core.errors import GatemarkError
from gatemark.plugins.runlog.records.names import hash_text

Task = Literal["buffer", "summary", "rewrite"]


class TextSegment(Struct, frozen=True, gc=False):
    """Some text of one agent."""

    agent_id: str
    text: str


class ModelQuestion(Struct, frozen=True):
    """A question to a model.

    ``new`` are the segments that it is about, ``context`` those before, ``history`` the latest
    summaries as text, newest last. ``novelty`` is whether a buffer question asks for it. ``draft``
    is the text to rewrite.
    """

    task: Task
    system: str
    prompt: str
    new: tuple[TextSegment, ...] = ()
    context: tuple[TextSegment, ...] = ()
    history: tuple[str, ...] = ()
    novelty: bool = True
    draft: dict[str, str] = {}

    @property
    def input_hash(self) -> str:
        """The hash of the user's prompt."""
        return hash_text(self.prompt)

    @property
    def request_hash(self) -> str:
        """The hash of all that a model sees, under which replies are recorded."""
        return hash_text(json.dumps([self.system, self.prompt]))


class ModelReply(Struct, frozen=True):
    """The reply of a model. Counts that its provider did not report are None."""

    text: str
    model_id: str
    latency_ms: int | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class ModelError(GatemarkError):
    """The model gave no answer; the run continues and the record says so."""


class MissingReplyError(GatemarkError):
    """Nothing was recorded for a question; the case cannot be replayed."""


class LanguageModel(Protocol):
    """Answers questions."""

    @property
    def model_id(self) -> str:
        """The name of the model, if a reply does not say."""

    def ask(self, question: ModelQuestion) -> ModelReply:
        """Return an answer, or raise ModelError."""

    def identity(self) -> dict[str, object]:
        """Return what ``run_meta`` says about the backend; never a secret."""

    def close(self) -> None:
        """Close connections and processes."""


def render_segments(segments: tuple[TextSegment, ...] | list[TextSegment]) -> str:
    """Return segments as text: consecutive ones of an agent under its name, joined by spaces."""
    if not segments:
        return EMPTY_BLOCK
    groups = groupby(segments, key=lambda segment: segment.agent_id)
    return "\n".join(
        f"{agent_id}:\n{' '.join(segment.text for segment in said)}" for agent_id, said in groups
    )


EMPTY_BLOCK = "(nothing)"
"""Placeholder for no segments."""


MOST_STARTS = 100
"""Maximum number of opening braces of a reply that are tried."""


def find_json_object(text: str) -> bytes:
    """Return the last JSON object of a reply; models like to talk around it.

    A reply without one is returned as it is, for the error message.
    """
    decoder = json.JSONDecoder()
    found, start = "", text.find("{")
    for _ in range(MOST_STARTS):
        if start < 0:
            break
        try:
            _, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            end = start + 1
        else:
            found = text[start:end]
        start = text.find("{", end)
    return (found or text.strip()).encode("utf-8", "replace")


class RecordedReply(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One line of a recording: the reply to a question, or the error instead.

    ``scope`` names the case and the variant that asked, ``number`` counts equal requests in it.
    Recordings of 0.1.0 have neither, nor ``request_hash``.
    """

    task: Task
    input_hash: str
    reply: ModelReply | None = None
    error: str | None = None
    request_hash: str = ""
    scope: str = ""
    number: int = 0

    @property
    def key(self) -> RecordingKey:
        """The key that identifies a line of a recording."""
        return self.scope, self.task, self.request_hash or self.input_hash, self.number


RecordingKey = tuple[str, Task, str, int]


class RecordedModel:
    """Answers from a recording and calls nothing. ``digest`` is that of its bytes.

    Equal requests get their replies in the order in which they were recorded.
    """

    def __init__(self, lines: Sequence[RecordedReply], digest: str) -> None:
        self._replies = {line.key: line for line in lines}
        self._digest = digest
        self._scope = ""
        self._asked: Counter[tuple[Task, str]] = Counter()
        named = sorted({line.reply.model_id for line in lines if line.reply is not None})
        self.model_id = named[0] if len(named) == 1 else "recorded"

    def scoped(self, scope: str) -> RecordedModel:
        """Return the same recording, from the first question of a case and variant on."""
        again = copy.copy(self)
        again.begin(scope)
        return again

    def begin(self, scope: str) -> None:
        """Start answering for a case and variant, from its first question."""
        self._scope = scope
        self._asked = Counter()

    def ask(self, question: ModelQuestion) -> ModelReply:
        task, request = question.task, question.request_hash
        number = self._asked[task, request]
        self._asked[task, request] += 1
        found = self._replies.get((self._scope, task, request, number))
        if found is None:
            found = self._replies.get(("", task, question.input_hash, 0))
        if found is None:
            again = f" for the {number + 1}th time" if number else ""
            raise MissingReplyError(
                f"nothing was recorded for the {task} question {question.input_hash}{again}"
            )
        if found.reply is None:
            raise ModelError(found.error or "the recording holds no reply")
        return found.reply

    def identity(self) -> dict[str, object]:
        return {"kind": "recorded", "digest": self._digest}

    def close(self) -> None:
        """Do nothing: no connection is open."""


class RecordingModel:
    """Passes questions on and records every answer, so that the run can be replayed."""

    def __init__(self, inner: LanguageModel, scope: str = "") -> None:
        self._inner = inner
        self._scope = scope
        self._asked: Counter[tuple[Task, str]] = Counter()
        self.lines: dict[RecordingKey, RecordedReply] = {}

    @property
    def model_id(self) -> str:
        return self._inner.model_id

    def ask(self, question: ModelQuestion) -> ModelReply:
        task, request = question.task, question.request_hash
        line = RecordedReply(
            task,
            question.input_hash,
            request_hash=request,
            scope=self._scope,
            number=self._asked[task, request],
        )
        self._asked[task, request] += 1
        try:
            reply = self._inner.ask(question)
        except ModelError as error:
            self.lines[line.key] = msgspec.structs.replace(line, error=str(error))
            raise
        self.lines[line.key] = msgspec.structs.replace(line, reply=reply)
        return reply

    def identity(self) -> dict[str, object]:
        return self._inner.identity()

    def close(self) -> None:
        self._inner.close()


def render_recording(lines: dict[RecordingKey, RecordedReply]) -> bytes:
    """Return a recording as JSON Lines, in the order of its keys."""
    encoder = msgspec.json.Encoder(order="sorted")
    return b"".join(encoder.encode(lines[key]) + b"\n" for key in sorted(lines))
