"""Chat logs of agents: one conversation per file or per line; its messages are the steps.

Two shapes are read. Group chats have a ``question`` and a ``history`` of messages with the name of
the agent that wrote each. Logs in the shape of chat APIs have ``messages`` with roles; the first
user message is the question.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePath
from typing import Final

import msgspec

from gatemark.samples.foreign_json import decode, find_key_paths, read_json_lines
from gatemark.samples.gathering import read_id
from gatemark.samples.importer import ForeignFile, Refusal
from gatemark.samples.spans import SpanKind, TraceScore, TraceSpan
from gatemark.samples.trace_samples import make_trace_importer

NAME: Final = "chat-log"
CORRECT: Final = "correct"
"""The score of a conversation whose log says whether the answer was correct."""
MAX_MESSAGES: Final = 10_000
_TOOL_ROLES: Final = frozenset({"tool", "function", "ipython", "environment"})
_EXECUTOR: Final = re.compile(r"terminal|executor|interpreter", re.IGNORECASE)
_RAN: Final = re.compile(r"\s*exitcode:\s*(-?\d+)")
_RAISED: Final = re.compile(r"\s*(?:error\b|traceback \(most recent call last\))", re.IGNORECASE)
_FAREWELL: Final = re.compile(r"\bTERMINATE\b|\s+")
"""Text to ignore when checking whether a message says anything."""
_MIN_ANSWER: Final = 20


class _ToolCall(msgspec.Struct, frozen=True):
    function: dict[str, object] = {}


class _Message(msgspec.Struct, frozen=True):
    role: str | None = None
    name: str | None = None
    content: object = None
    tool_calls: list[_ToolCall] | None = None
    is_error: bool = False


class _Chat(msgspec.Struct, frozen=True):
    history: list[_Message] | None = None
    messages: list[_Message] | None = None
    question: object = None
    id: object = None
    question_id: object = msgspec.field(default=None, name="question_ID")
    ground_truth: object = None
    expected: object = None
    is_correct: bool | None = None


def read_spans(file: ForeignFile) -> Iterator[tuple[str, TraceSpan | Refusal]]:
    """Yield every conversation of a file as a root span and one span per message."""
    for place, chat in _read_chats(file):
        if isinstance(chat, Refusal):
            yield place, chat
            continue
        try:
            yield from ((place, span) for span in _build_spans(chat, place))
        except _OddChatError as odd:
            yield place, Refusal(place, str(odd))


class _OddChatError(ValueError):
    """A conversation that cannot be read."""


def _read_chats(file: ForeignFile) -> Iterable[tuple[str, _Chat | Refusal]]:
    whole = file.data.strip()
    if whole.startswith(b"["):
        found = decode(file.data, list[_Chat], file.name)
        return [(f"{file.name}: [{number}]", chat) for number, chat in enumerate(found)]
    if b"\n" in whole and whole.split(b"\n", 1)[0].rstrip().endswith(b"}"):
        return read_json_lines(file, _Chat)
    return [(file.name, decode(file.data, _Chat, file.name))]


def _build_spans(chat: _Chat, place: str) -> list[TraceSpan]:
    messages = chat.history if chat.history is not None else chat.messages
    if not messages:
        raise _OddChatError("a chat log needs messages in 'history' or 'messages'")
    if len(messages) > MAX_MESSAGES:
        raise _OddChatError(f"has {len(messages)} messages, at most {MAX_MESSAGES} are allowed")
    asked = next((n for n, one in enumerate(messages) if one.role == "user"), None)
    question = chat.question
    # If there is a question, the first message is an ordinary step.
    skipped = None if question is not None else asked
    if question is None and asked is not None:
        question = _read_text(messages[asked])
    if question is None:
        raise _OddChatError("a chat log needs a 'question' or a message with the role user")
    trace = read_id(chat.id) or read_id(chat.question_id) or PurePath(place).name
    executors = _find_executors(messages)
    steps = [
        _make_span(trace, number, message, executors, is_group=chat.question is not None)
        for number, message in enumerate(messages)
        if number != skipped
    ]
    expected = chat.expected if chat.expected is not None else chat.ground_truth
    right = chat.is_correct
    scores = () if right is None else (TraceScore(CORRECT, float(right), right),)
    root = TraceSpan(
        trace=trace,
        id="chat",
        parent=None,
        name="chat",
        start_ns=0,
        end_ns=len(messages),
        kind="plan",
        input=question,
        output=_find_answer(steps),
        evaluations=scores,
        target=expected,
        is_timed=False,
    )
    return [root, *steps]


def _find_executors(messages: Sequence[_Message]) -> frozenset[str]:
    """Return agents that run code of others: by name, or because they report an exit code."""
    return frozenset(
        one.name
        for one in messages
        if one.name is not None and (_EXECUTOR.search(one.name) or _RAN.match(_read_text(one)))
    )


def _make_span(
    trace: str, number: int, message: _Message, executors: frozenset[str], *, is_group: bool
) -> TraceSpan:
    text = _read_text(message)
    is_tool = message.role in _TOOL_ROLES or message.name in executors
    kind: SpanKind | None = "tool" if is_tool else "model"
    if message.role == "system" or (message.role == "user" and not is_group and not is_tool):
        kind = None
    ran = _RAN.match(text)
    failed = message.is_error or (int(ran[1]) != 0 if ran else bool(_RAISED.match(text)))
    return TraceSpan(
        trace=trace,
        id=str(number),
        parent="chat",
        name=(message.name or message.role or "").strip() or "message",
        start_ns=number,
        end_ns=number,
        kind=kind,
        output=text,
        error=(text or "error") if is_tool and failed else None,
        tool=(message.name or None) if is_tool else None,
        is_timed=False,
    )


def _read_text(message: _Message) -> str:
    """Return the text of a message and the tools it calls."""
    content = message.content
    if isinstance(content, list):
        parts = [one.get("text") for one in content if isinstance(one, dict)]
        content = "\n".join(part for part in parts if isinstance(part, str))
    said = content if isinstance(content, str) else ""
    if content is not None and not isinstance(content, str):
        said = msgspec.json.encode(content).decode()
    calls = [
        f"{call.function.get('name')}({call.function.get('arguments')})"
        for call in message.tool_calls or ()
    ]
    return "\n".join([*([said] if said else []), *calls])


def _find_answer(steps: Sequence[TraceSpan]) -> object:
    """Return the last model message that is more than a goodbye."""
    models = [str(one.output) for one in steps if one.kind == "model"]
    said = [text for text in models if len(_FAREWELL.sub("", text)) >= _MIN_ANSWER]
    return next(reversed(said or models), None)


def sniff(head: bytes, _filename: str) -> bool:
    """Recognise a history, or messages with roles, that is not part of a run or report."""
    paths = {path.removeprefix("[].") for path in find_key_paths(head)}
    if {"history[].content", "question"} <= paths:
        return True
    return {"messages[].role", "messages[].content"} <= paths and "samples" not in paths


IMPORTER = make_trace_importer(
    NAME,
    "Conversations of agents as JSON, group chats or chat APIs: one per conversation.",
    sniff,
    read_spans,
)
