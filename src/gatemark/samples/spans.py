"""Spans of agent traces in a common form, from GenAI conventions or OpenInference.

Both have had several dialects: one attribute with everything, attributes with an index in their
names, or one event per message.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal

import msgspec

NANOS_PER_MS: Final = 1_000_000
SpanKind = Literal["plan", "model", "retrieval", "tool", "verifier", "output"]

_OPERATIONS: Final[dict[str, SpanKind]] = {
    "chat": "model",
    "text_completion": "model",
    "generate_content": "model",
    "embeddings": "model",
    "retrieval": "retrieval",
    "execute_tool": "tool",
    "invoke_agent": "plan",
    "invoke_workflow": "plan",
    "create_agent": "plan",
}
_SPAN_KINDS: Final[dict[str, SpanKind]] = {
    "LLM": "model",
    "EMBEDDING": "model",
    "PROMPT": "model",
    "RETRIEVER": "retrieval",
    "RERANKER": "retrieval",
    "TOOL": "tool",
    "AGENT": "plan",
    "CHAIN": "plan",
    "GUARDRAIL": "verifier",
    "EVALUATOR": "verifier",
}
_INPUTS: Final = (
    "input.value",
    "gen_ai.input.messages",
    "gen_ai.tool.call.arguments",
    "gen_ai.prompt",
)
_OUTPUTS: Final = (
    "output.value",
    "gen_ai.output.messages",
    "gen_ai.tool.call.result",
    "gen_ai.completion",
)
_INDEXED_INPUTS: Final = ("llm.input_messages.", "gen_ai.prompt.")
_INDEXED_OUTPUTS: Final = ("llm.output_messages.", "gen_ai.completion.", "retrieval.documents.")
_WRAPPERS: Final = ("message.", "document.")
_MESSAGES: Final = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
}
_CHOICE: Final = "gen_ai.choice"
_CARRIERS: Final = frozenset(
    {
        "gen_ai.client.inference.operation.details",
        "gen_ai.content.prompt",
        "gen_ai.content.completion",
    }
)
"""Events with the content that newer dialects put on the span."""
_MODELS: Final = ("gen_ai.response.model", "gen_ai.request.model", "llm.model_name")
_TOOLS: Final = ("gen_ai.tool.name", "tool.name")
_SOURCES: Final = ("gen_ai.data_source.id", "retrieval.source")
MAX_TAGS: Final = 40
TAG_CHARS: Final = 200
_AROUND: Final = {
    "service.name": "service",
    "service.version": "service.version",
    "deployment.environment": "environment",
    "deployment.environment.name": "environment",
}
"""Resource attributes that become tags, and the names of the tags."""
_SPOKEN: Final = (
    *("gen_ai.", "llm.", "input.", "output.", "retrieval.", "tool.", "embedding."),
    *("evaluation.", "document.", "exception.", "openinference."),
)
"""Prefixes of attributes that do not become tags: content, counts and scores."""
_SAID: Final = (".content", ".messages", ".arguments", ".value", ".prompt", ".completion")


Told = Sequence[tuple[str, Mapping[str, object]]]
"""The events of a span: their names and attributes."""


class TraceScore(msgspec.Struct, frozen=True):
    """A score that the trace itself carries; ``passed`` where its label is a verdict.

    Neither is known where the evaluation failed, or where its label says something else.
    """

    name: str
    value: float | None
    passed: bool | None = None

    @property
    def number(self) -> float | None:
        """The score as a number; a verdict without one is 1 or 0."""
        return self.value if self.value is not None or self.passed is None else float(self.passed)


class TraceEvaluation(msgspec.Struct, frozen=True):
    """A score that came apart from its span, and what it says about where it belongs."""

    score: TraceScore
    trace: str | None = None
    span: str | None = None
    response: str | None = None


class UnreadRecords(msgspec.Struct, frozen=True):
    """Log records about something else than scores."""

    count: int


class TraceSpan(msgspec.Struct, frozen=True):
    """One span: its place in the trace, its times, its input and output.

    ``target`` is the right output, if the log has it. ``is_timed`` is false if the times only give
    the order.
    """

    trace: str
    id: str
    parent: str | None
    name: str
    start_ns: int
    end_ns: int
    kind: SpanKind | None = None
    input: object = None
    output: object = None
    error: str | None = None
    model: str | None = None
    prompt: tuple[str, str] | None = None
    retrieval: str | None = None
    tool: str | None = None
    evaluations: tuple[TraceScore, ...] = ()
    tags: dict[str, str] = {}
    target: object = None
    is_timed: bool = True
    response: str | None = None
    """The id that the model's provider gave to the answer."""

    @property
    def latency_ms(self) -> float | None:
        """The duration, if times were recorded."""
        return (self.end_ns - self.start_ns) / NANOS_PER_MS if self.is_timed else None


def find_span_kind(attributes: Mapping[str, object]) -> SpanKind | None:
    """Return the kind of a span by either convention, or None."""
    operation = attributes.get("gen_ai.operation.name")
    if isinstance(operation, str) and operation in _OPERATIONS:
        return _OPERATIONS[operation]
    span_kind = attributes.get("openinference.span.kind")
    return _SPAN_KINDS.get(str(span_kind).upper()) if span_kind is not None else None


def find_input(attributes: Mapping[str, object], events: Told = ()) -> object:
    """Return the input of a span."""
    asked = [
        {"role": _MESSAGES[name], **values} for name, values in events if name in _MESSAGES
    ] or None
    return _read_content(attributes, events, _INPUTS, _INDEXED_INPUTS, asked)


def find_output(attributes: Mapping[str, object], events: Told = ()) -> object:
    """Return the output of a span."""
    chosen = [dict(values) for name, values in events if name == _CHOICE] or None
    return _read_content(attributes, events, _OUTPUTS, _INDEXED_OUTPUTS, chosen)


def _read_content(
    attributes: Mapping[str, object],
    events: Told,
    names: Sequence[str],
    prefixes: Sequence[str],
    messages: list[dict[str, object]] | None,
) -> object:
    """Return content from whichever dialect has it."""
    carried = [values for name, values in events if name in _CARRIERS]
    for source in (attributes, *carried):
        found = _read_first(source, names)
        if found is not None:
            return decode_value(found)
    for prefix in prefixes:
        indexed = _collect_indexed(attributes, prefix)
        if indexed:
            return indexed
    return messages


def _collect_indexed(attributes: Mapping[str, object], prefix: str) -> list[dict[str, object]]:
    """Return attributes such as ``llm.input_messages.0.message.role`` as a list of objects."""
    found: dict[int, dict[str, object]] = {}
    for name in attributes:
        index, _, rest = name.removeprefix(prefix).partition(".")
        if name.startswith(prefix) and rest and index.isascii() and index.isdigit():
            for wrapper in _WRAPPERS:
                rest = rest.removeprefix(wrapper)
            found.setdefault(int(index[:9]), {})[rest] = decode_value(attributes[name])
    return [found[index] for index in sorted(found)]


def find_model(attributes: Mapping[str, object]) -> str | None:
    """Return the model that answered, or else the one that was requested."""
    return _to_text(_read_first(attributes, _MODELS))


def find_response(attributes: Mapping[str, object]) -> str | None:
    """The id of the answer, which evaluations name where they do not know the span."""
    return _to_text(attributes.get("gen_ai.response.id"))


def find_tool(attributes: Mapping[str, object]) -> str | None:
    """Return the tool that ran."""
    return _to_text(_read_first(attributes, _TOOLS))


def find_retrieval(attributes: Mapping[str, object]) -> str | None:
    """Return the source of retrieved documents."""
    return _to_text(_read_first(attributes, _SOURCES))


def find_prompt(attributes: Mapping[str, object]) -> tuple[str, str] | None:
    """Return a prompt's name and revision, if both are known."""
    name = _to_text(_read_first(attributes, ("gen_ai.prompt.name", "prompt.id", "prompt_name")))
    version = _to_text(_read_first(attributes, ("gen_ai.prompt.version", "prompt.version")))
    return (name, version) if name and version else None


def _read_first(attributes: Mapping[str, object], names: Sequence[str]) -> object:
    return next((attributes[name] for name in names if attributes.get(name) is not None), None)


def _to_text(value: object) -> str | None:
    return value if isinstance(value, str) and value.strip() else None


def decode_value(value: object) -> object:
    """Decode a value that is JSON inside a text."""
    if isinstance(value, str) and value[:1] in "[{":
        try:
            return msgspec.json.decode(value)
        except (msgspec.DecodeError, RecursionError):
            return value
    return value


def make_span_tags(
    attributes: Mapping[str, object], around: Mapping[str, object]
) -> dict[str, str]:
    """Return attributes of a span and its resource as tags: short plain values, no content."""
    tags = {}
    for key, name in _AROUND.items():
        value = around.get(key)
        if isinstance(value, str) and value:
            tags[name] = value
    for key in sorted(attributes):
        value = attributes[key]
        if key.startswith(_SPOKEN) or key.endswith(_SAID) or len(tags) >= MAX_TAGS:
            continue
        if isinstance(value, str) and 0 < len(value) <= TAG_CHARS:
            tags.setdefault(key, value)
        elif isinstance(value, bool | int):
            tags.setdefault(key, msgspec.json.encode(value).decode())
    return tags


def group_by_trace(spans: Iterable[TraceSpan]) -> dict[str, list[TraceSpan]]:
    """Group spans by trace, sorted by start."""
    found: dict[str, list[TraceSpan]] = {}
    for span in spans:
        found.setdefault(span.trace, []).append(span)
    return {
        trace: sorted(found[trace], key=lambda span: (span.start_ns, span.id))
        for trace in sorted(found)
    }


def find_root(spans: Sequence[TraceSpan]) -> TraceSpan | None:
    """Return the span that contains all others, or None if there is not exactly one.

    A parent that is not in the trace belongs to another trace, as behind a gateway.
    """
    parents = {span.id: span.parent for span in spans}
    roots = [span for span in spans if span.parent is None or span.parent not in parents]
    if len(roots) != 1:
        return None
    held = {roots[0].id}
    for span in spans:
        path: set[str] = set()
        here: str | None = span.id
        while here is not None and here not in held and here not in path:
            path.add(here)
            here = parents.get(here)
        if here not in held:
            return None
        held.update(path)
    return roots[0]
