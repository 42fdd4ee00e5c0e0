"""Read conversations of agents from exports of other tools: who said what, and when.

Reads spans (OTLP with GenAI or OpenInference attributes, Langfuse), the states of LangGraph, the
messages of AutoGen and the outputs and logs of CrewAI. Tool results and system prompts are left
out; only what agents said is kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from gatemark.core.errors import BadInputError
from gatemark.samples.foreign_json import decode, read_json_lines
from gatemark.samples.importer import ForeignFile, Refusal
from gatemark.samples.importers import langfuse, otlp
from gatemark.samples.spans import NANOS_PER_MS, TraceSpan
from gatemark.samples.trace_samples import read_all

SPANS: Final = {"otlp": otlp.read_spans, "langfuse": langfuse.read_spans}
LANGGRAPH, AUTOGEN, CREWAI = "langgraph", "autogen", "crewai"
TOOLS: Final = (*SPANS, LANGGRAPH, AUTOGEN, CREWAI)
STEP_MS: Final = 1000
"""The time between messages without times, in milliseconds."""
BASE_MS: Final = 1_700_000_000_000
_LAST_MS: Final = 253_402_300_800_000
"""The first millisecond of the year 10000, in UTC."""
_SILENT: Final = frozenset({"system", "tool", "function", "SystemMessage", "ToolMessage"})
_SAID: Final = frozenset(
    {"TextMessage", "MultiModalMessage", "StopMessage", "HandoffMessage", "ToolCallSummaryMessage"}
)
"""The messages of AutoGen that agents send to each other."""
_ROLES: Final = {
    "ai": "assistant",
    "AIMessage": "assistant",
    "AIMessageChunk": "assistant",
    "human": "user",
    "HumanMessage": "user",
}
_TEXT_KEYS: Final = ("content", "text", "raw", "output", "parts", "value", "message", "messages")


class SpokenTurn(msgspec.Struct, frozen=True):
    """What one agent said; ``at_ms`` is None if the export has no times."""

    agent: str
    text: str
    at_ms: int | None = None
    start_ms: int | None = None


class Conversation(msgspec.Struct, frozen=True):
    """One conversation of an export: its name, its turns in order, and its models."""

    name: str
    turns: tuple[SpokenTurn, ...]
    models: tuple[str, ...] = ()


class Conversations(msgspec.Struct, frozen=True):
    """The conversations of some files, and what could not be read."""

    tool: str
    found: tuple[Conversation, ...]
    refused: tuple[Refusal, ...]


def read_conversations(files: Sequence[ForeignFile], tool: str) -> Conversations:
    """Return the conversations of some exports of one tool; ``auto`` recognises the tool."""
    name = recognise_tool(files[0]) if tool == "auto" else tool
    if name in SPANS:
        traces = read_all(files, SPANS[name])
        found = tuple(_read_spans(trace, spans) for trace, spans in traces.found.items())
        return Conversations(name, found, tuple(traces.refused))
    conversations: list[Conversation] = []
    refused: list[Refusal] = []
    for file in files:
        for place, document in _read_documents(file):
            if isinstance(document, Refusal):
                refused.append(document)
                continue
            made = list(_READERS[name](document, _name_conversation(place)))
            if not made:
                reason = f"holds no messages in a shape that {name} exports"
                refused.append(Refusal(place, reason))
            conversations.extend(made)
    return Conversations(name, tuple(conversations), tuple(refused))


def recognise_tool(file: ForeignFile) -> str:
    """Return the tool that wrote an export, by its keys."""
    for name, sniff in (("otlp", otlp.sniff), ("langfuse", langfuse.sniff)):
        if sniff(file.head, file.name):
            return name
    for _, document in _read_documents(file):
        if isinstance(document, Refusal):
            raise BadInputError(f"{document.place}: {document.reason}")
        for name, reader in _READERS.items():
            if any(True for _ in reader(document, "x")):
                return name
        break
    raise BadInputError(
        f"{file.name}: is not an export with conversations that is known "
        f"(known: {', '.join(TOOLS)}); name one with --from"
    )


def _read_documents(file: ForeignFile) -> Iterator[tuple[str, object | Refusal]]:
    """Yield the JSON documents of a file: one, or one per line."""
    try:
        yield file.name, decode(file.data, object, file.name)
    except BadInputError:
        if b"\n" not in file.data.strip():
            raise
        yield from read_json_lines(file, object)


def _name_conversation(place: str) -> str:
    """Return a name for a conversation from its place: the file, and its line if it has one."""
    path, colon, line = place.rpartition(":")
    if colon and line.isdigit():
        return f"{Path(path).name.split('.')[0]}-{line}"
    return Path(place).name.split(".")[0]


def _read_spans(trace: str, spans: Sequence[TraceSpan]) -> Conversation:
    """Return what the model calls of a trace said; the agent is the span around them."""
    by_id = {span.id: span for span in spans}
    called = [span for span in spans if span.kind == "model"]
    # Without model calls, the innermost agents and chains have the text.
    parents = {span.parent for span in spans}
    called = called or [s for s in spans if s.kind in ("plan", None) and s.id not in parents]
    turns = [
        SpokenTurn(
            _find_agent(span, by_id),
            text,
            span.end_ns // NANOS_PER_MS or None,
            span.start_ns // NANOS_PER_MS or None,
        )
        for span in called
        if (text := find_text(span.output)).strip()
    ]
    turns.sort(key=lambda turn: (turn.at_ms or 0, turn.start_ms or 0))
    models = tuple(sorted({span.model for span in called if span.model}))
    return Conversation(trace, tuple(turns), models)


def _find_agent(span: TraceSpan, by_id: Mapping[str, TraceSpan]) -> str:
    seen: set[str] = set()
    here = by_id.get(span.parent or "")
    while here is not None and here.id not in seen:
        if here.kind == "plan":
            return here.name
        seen.add(here.id)
        here = by_id.get(here.parent or "")
    return span.name


def find_text(value: object) -> str:
    """Return the text of a message, whichever way it is wrapped; empty if it has none."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "\n".join(text for one in value if (text := find_text(one)).strip())
    if isinstance(value, dict) and value.get("role") not in _SILENT:
        return next((text for key in _TEXT_KEYS if (text := find_text(value.get(key)))), "")
    return ""


def _read_langgraph(document: object, name: str) -> Iterator[Conversation]:
    """Read a state, a history of states (newest first), the result of a graph, or messages."""
    if isinstance(document, list) and document and all(map(_unwrap_langchain, document)):
        document = {"messages": document}
    states = [one for one in _get_list(document) if isinstance(one, dict)]
    times = [parse_moment(state.get("created_at", state.get("createdAt"))) for state in states]
    timed = list(zip(times, states, strict=True))[::-1]
    if None not in times:
        timed.sort(key=lambda one: one[0] or 0)
    threads: dict[str, dict[tuple[str, str], tuple[Mapping[str, object], int | None]]] = {}
    for at_ms, state in timed:
        values = state.get("values", state)
        messages = values.get("messages") if isinstance(values, dict) else None
        if not isinstance(messages, list) or not any(_unwrap_langchain(one) for one in messages):
            continue
        known = threads.setdefault(_find_thread_name(state) or name, {})
        for place, message in enumerate(messages):
            converted = _unwrap_langchain(message)
            if converted is not None:
                # A message stays in later states; its first state has its time. Another text
                # under its id was said too.
                key = (str(converted.get("id") or place), find_text(converted.get("content")))
                known.setdefault(key, (converted, at_ms))
    for thread, found in threads.items():
        turns = [_read_message(message, at_ms) for message, at_ms in found.values()]
        yield Conversation(thread, tuple(turn for turn in turns if turn is not None))


def _find_thread_name(state: Mapping[str, object]) -> str | None:
    for key in ("config", "checkpoint"):
        inner = state.get(key)
        if isinstance(inner, dict):
            inner = inner.get("configurable", inner)
            if isinstance(inner, dict) and isinstance(inner.get("thread_id"), str | int):
                return str(inner["thread_id"])
    return None


def _unwrap_langchain(message: object) -> Mapping[str, object] | None:
    """Return a message of LangChain without its wrapper; None for anything else."""
    if not isinstance(message, dict):
        return None
    for wrapper in ("data", "kwargs"):
        inner = message.get(wrapper)
        if isinstance(inner, dict) and "content" in inner:
            path = message.get("id")
            kind = path[-1] if isinstance(path, list) and path else message.get("type")
            return {"type": kind, **inner, **({"type": kind} if wrapper == "kwargs" else {})}
    is_message = isinstance(message.get("type"), str) and "content" in message
    return message if is_message and "source" not in message else None


def _read_message(message: Mapping[str, object], at_ms: int | None) -> SpokenTurn | None:
    kind = str(message.get("type") or message.get("role") or "")
    text = find_text(message.get("content"))
    if kind in _SILENT or not text.strip():
        return None
    agent = message.get("name") or message.get("source") or _ROLES.get(kind, kind)
    return SpokenTurn(str(agent), text, at_ms)


def _read_autogen(document: object, name: str) -> Iterator[Conversation]:
    """Read a task result, a list of messages, the state of a team, or an older chat history."""
    messages = _get_list(document)
    if isinstance(document, dict):
        messages = next(
            (
                found
                for key in ("messages", "message_thread", "chat_history")
                if isinstance(found := document.get(key), list)
            ),
            _find_thread(document),
        )
    turns = []
    for message in messages:
        if not isinstance(message, dict) or "content" not in message:
            continue
        is_new = isinstance(message.get("source"), str)
        is_old = isinstance(message.get("name"), str) and isinstance(message.get("role"), str)
        if is_new and message.get("type", "TextMessage") not in _SAID:
            continue
        if (is_new or is_old) and "data" not in message:
            converted = message if is_new else {**message, "type": message["role"]}
            turns.append(_read_message(converted, parse_moment(message.get("created_at"))))
    if turns:
        yield Conversation(name, tuple(turn for turn in turns if turn is not None))


def _find_thread(state: Mapping[str, object]) -> list[object]:
    """Return the thread of the manager of a saved team."""
    agents = state.get("agent_states")
    for inner in agents.values() if isinstance(agents, dict) else ():
        if isinstance(inner, dict) and isinstance(inner.get("message_thread"), list):
            return list(inner["message_thread"])
    return []


def _read_crewai(document: object, name: str) -> Iterator[Conversation]:
    """Read the output of a crew, or its log in JSON: a list of started and completed tasks."""
    tasks = document.get("tasks_output") if isinstance(document, dict) else None
    turns = [
        SpokenTurn(str(task.get("agent") or "crew").strip(), task["raw"])
        for task in (tasks if isinstance(tasks, list) else ())
        if isinstance(task, dict) and isinstance(task.get("raw"), str) and task["raw"].strip()
    ]
    started: dict[object, int | None] = {}
    for entry in _get_list(document):
        if not isinstance(entry, dict) or entry.get("status") not in ("started", "completed"):
            continue
        at_ms, task = parse_moment(entry.get("timestamp")), str(entry.get("task"))
        if entry["status"] == "started":
            started[task] = at_ms
            continue
        text = find_text(entry.get("output"))
        if text.strip():
            agent = str(entry.get("agent") or "crew")
            turns.append(SpokenTurn(agent, text, at_ms, started.get(task)))
    if turns:
        yield Conversation(name, tuple(turns))


_READERS: Final = {LANGGRAPH: _read_langgraph, CREWAI: _read_crewai, AUTOGEN: _read_autogen}


def _get_list(document: object) -> list[object]:
    return document if isinstance(document, list) else [document]


def parse_moment(value: object) -> int | None:
    """Return a time as milliseconds since 1970; one without a zone is taken as UTC.

    None for what is not a time after 1970 and before the year 10000.
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        found = round(value * 1000) if value < BASE_MS / 10 else round(value)
    else:
        try:
            moment = datetime.fromisoformat(str(value))
        except ValueError:
            return None
        found = round(moment.replace(tzinfo=moment.tzinfo or UTC).timestamp() * 1000)
    return found if 0 < found < _LAST_MS else None
