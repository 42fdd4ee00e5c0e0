"""Spans of agent traces in neutral words, by the GenAI conventions or by OpenInference."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from gatemark.core.decision import StepKind

NANOS_PER_MS: Final = 1_000_000

_OPERATIONS: Final[dict[str, StepKind]] = {
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
_SPAN_KINDS: Final[dict[str, StepKind]] = {
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
_MODELS: Final = ("gen_ai.response.model", "gen_ai.request.model", "llm.model_name")
_TOOLS: Final = ("gen_ai.tool.name", "tool.name")
_SOURCES: Final = ("gen_ai.data_source.id", "retrieval.source")


class Evaluation(msgspec.Struct, frozen=True):
    """A score that the trace itself carries."""

    name: str
    value: float


class Span(msgspec.Struct, frozen=True):
    """One span: where it belongs, when it ran, and what went in and out."""

    trace: str
    id: str
    parent: str | None
    name: str
    start_ns: int
    end_ns: int
    kind: StepKind | None
    input: Any
    output: Any
    error: str | None
    model: str | None
    prompt: tuple[str, str] | None
    retrieval: str | None
    tool: str | None
    evaluations: tuple[Evaluation, ...] = ()
    tags: dict[str, str] = {}

    @property
    def latency_ms(self) -> float:
        """How long it ran."""
        return (self.end_ns - self.start_ns) / NANOS_PER_MS


def kind_of(attributes: Mapping[str, Any]) -> StepKind | None:
    """What a span does, by either convention; None when neither says."""
    operation = attributes.get("gen_ai.operation.name")
    if isinstance(operation, str) and operation in _OPERATIONS:
        return _OPERATIONS[operation]
    span_kind = attributes.get("openinference.span.kind")
    return _SPAN_KINDS.get(str(span_kind).upper()) if span_kind is not None else None


def input_of(attributes: Mapping[str, Any]) -> Any:
    """What went in."""
    return _first(attributes, _INPUTS)


def output_of(attributes: Mapping[str, Any]) -> Any:
    """What came out."""
    return _first(attributes, _OUTPUTS)


def model_of(attributes: Mapping[str, Any]) -> str | None:
    """The model that answered; the one that was asked for where the answer does not say."""
    return _text(_first(attributes, _MODELS))


def tool_of(attributes: Mapping[str, Any]) -> str | None:
    """The tool that ran."""
    return _text(_first(attributes, _TOOLS))


def retrieval_of(attributes: Mapping[str, Any]) -> str | None:
    """Where documents came from."""
    return _text(_first(attributes, _SOURCES))


def prompt_of(attributes: Mapping[str, Any]) -> tuple[str, str] | None:
    """A prompt's name and revision, when both are told."""
    name = _text(_first(attributes, ("gen_ai.prompt.name", "prompt.id", "prompt_name")))
    version = _text(_first(attributes, ("gen_ai.prompt.version", "prompt.version")))
    return (name, version) if name and version else None


def _first(attributes: Mapping[str, Any], names: Sequence[str]) -> Any:
    return next((attributes[name] for name in names if attributes.get(name) is not None), None)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value.strip() else None


def opened(value: Any) -> Any:
    """A value that is JSON inside a text, as what it says."""
    if isinstance(value, str) and value[:1] in "[{":
        try:
            return msgspec.json.decode(value)
        except msgspec.DecodeError:
            return value
    return value


def by_trace(spans: Iterable[Span]) -> dict[str, list[Span]]:
    """Spans gathered under their trace, each in the order of its start."""
    found: dict[str, list[Span]] = {}
    for span in spans:
        found.setdefault(span.trace, []).append(span)
    return {
        trace: sorted(found[trace], key=lambda span: (span.start_ns, span.id))
        for trace in sorted(found)
    }


def root_of(spans: Sequence[Span]) -> Span | None:
    """The one span that no other span of the trace holds; None when there is not just one."""
    ids = {span.id for span in spans}
    roots = [span for span in spans if span.parent is None or span.parent not in ids]
    return roots[0] if len(roots) == 1 else None
