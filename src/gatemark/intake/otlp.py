"""OTLP traces as JSON, one ``TracesData`` per file or per line; GenAI or OpenInference inside."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from gatemark.intake import spans
from gatemark.intake.foreign import ForeignFile, Refusal
from gatemark.intake.foreign_json import decode, lines
from gatemark.intake.gathering import score_number, text_tags

_ERROR: Final = (2, "STATUS_CODE_ERROR")
_EVALUATION_EVENT: Final = "gen_ai.evaluation.result"
_MAX_DEPTH: Final = 32


class _Camel(msgspec.Struct, rename="camel", frozen=True):
    pass


class _Attribute(_Camel, frozen=True):
    key: str
    value: dict[str, Any] = {}


class _Event(_Camel, frozen=True):
    name: str = ""
    attributes: list[_Attribute] = []


class _Status(_Camel, frozen=True):
    code: int | str = 0
    message: str = ""


class _Span(_Camel, frozen=True):
    trace_id: str
    span_id: str
    name: str = ""
    parent_span_id: str = ""
    start_time_unix_nano: str | int = 0
    end_time_unix_nano: str | int = 0
    attributes: list[_Attribute] = []
    events: list[_Event] = []
    status: _Status = _Status()


class _Scope(_Camel, frozen=True):
    spans: list[_Span] = []


class _Resource(_Camel, frozen=True):
    attributes: list[_Attribute] = []


class _ResourceSpans(_Camel, frozen=True):
    resource: _Resource = _Resource()
    scope_spans: list[_Scope] = []


class TracesData(_Camel, frozen=True):
    """What one file or one line of it holds."""

    resource_spans: list[_ResourceSpans]


def read_spans(file: ForeignFile) -> Iterator[tuple[str, spans.Span | Refusal]]:
    """Every span of a file with its place, or why it cannot be read."""
    whole = file.data.strip()
    if b"\n" not in whole or not whole.split(b"\n", 1)[0].rstrip().endswith(b"}"):
        documents: Any = [(file.name, decode(file.data, TracesData, file.name))]
    else:
        documents = lines(file, TracesData)
    for place, document in documents:
        if isinstance(document, Refusal):
            yield place, document
            continue
        for group in document.resource_spans:
            tags = text_tags(_values(group.resource.attributes))
            for scope in group.scope_spans:
                for span in scope.spans:
                    yield place, _neutral(span, tags, place)


def _neutral(span: _Span, tags: dict[str, str], place: str) -> spans.Span | Refusal:
    try:
        start, end = int(span.start_time_unix_nano), int(span.end_time_unix_nano)
    except ValueError:
        return Refusal(place, f"span {span.span_id!r} has a time that is no number")
    if end < start:
        return Refusal(place, f"span {span.span_id!r} ends before it starts")
    attributes = _values(span.attributes)
    failed = span.status.code in _ERROR
    service = tags.get("service.name")
    return spans.Span(
        trace=span.trace_id,
        id=span.span_id,
        parent=span.parent_span_id or None,
        name=span.name or span.span_id,
        start_ns=start,
        end_ns=end,
        kind=spans.kind_of(attributes),
        input=spans.opened(spans.input_of(attributes)),
        output=spans.opened(spans.output_of(attributes)),
        error=(span.status.message or "error") if failed else None,
        model=spans.model_of(attributes),
        prompt=spans.prompt_of(attributes),
        retrieval=spans.retrieval_of(attributes),
        tool=spans.tool_of(attributes),
        evaluations=tuple(_evaluations(span, attributes)),
        tags={"service": service} if service else {},
    )


def _evaluations(span: _Span, attributes: dict[str, Any]) -> Iterator[spans.Evaluation]:
    """Scores as GenAI events, or as OpenInference attributes of the span itself."""
    found = [_values(event.attributes) for event in span.events if event.name == _EVALUATION_EVENT]
    for values in found:
        yield from _evaluation(
            values.get("gen_ai.evaluation.name"), values.get("gen_ai.evaluation.score.value")
        )
    yield from _evaluation(attributes.get("evaluation.name"), attributes.get("evaluation.score"))


def _evaluation(name: Any, value: Any) -> Iterator[spans.Evaluation]:
    number = score_number(value)
    if isinstance(name, str) and name and number is not None:
        yield spans.Evaluation(name, number)


def _values(attributes: list[_Attribute]) -> dict[str, Any]:
    return {attribute.key: _value(attribute.value) for attribute in attributes}


def _value(value: dict[str, Any], depth: int = 0) -> Any:
    """An OTLP value as plain JSON; 64-bit integers come as texts."""
    if depth > _MAX_DEPTH:
        return None
    for key, found in value.items():
        match key:
            case "intValue":
                return int(found) if str(found).lstrip("-").isdigit() else None
            case "stringValue" | "boolValue" | "doubleValue" | "bytesValue":
                return found
            case "arrayValue" if isinstance(found, dict):
                return [_value(one, depth + 1) for one in found.get("values", [])]
            case "kvlistValue" if isinstance(found, dict):
                pairs = found.get("values", [])
                return {
                    one["key"]: _value(one.get("value", {}), depth + 1)
                    for one in pairs
                    if isinstance(one, dict) and "key" in one
                }
    return None
