"""OpenTelemetry traces and evaluation events in OTLP JSON, by GenAI or OpenInference attributes.

There is one ``TracesData`` or ``LogsData`` per file or per line. Of log records, the events
``gen_ai.evaluation.result`` are read: scores of spans that may lie in another file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from gatemark.samples import spans
from gatemark.samples.foreign_json import decode, find_key_paths, read_json_lines
from gatemark.samples.gathering import score_number, shorten_value
from gatemark.samples.importer import ForeignFile, Refusal
from gatemark.samples.trace_samples import TraceItem, make_trace_importer

NAME: Final = "otlp"
_ERROR: Final = (2, "STATUS_CODE_ERROR")
_EVALUATION_EVENT: Final = "gen_ai.evaluation.result"
_MAX_DEPTH: Final = 32
_WHOLE: Final = re.compile(r"-?[0-9]{1,20}")
_DECIMAL: Final = re.compile(r"-?[0-9]{1,40}(\.[0-9]{1,40})?([eE][-+]?[0-9]{1,3})?")
_SMALLEST, _LARGEST = -(2**63), 2**63 - 1
_LABELS: Final = {"pass": True, "passed": True, "fail": False, "failed": False}
_LAST_NANO: Final = 2**64 - 1
_PLAIN: Final[dict[str, type | tuple[type, ...]]] = {
    "stringValue": str,
    "boolValue": bool,
    "doubleValue": (int, float, str),
    "bytesValue": str,
}


class _OddValueError(ValueError):
    """A value that OTLP does not allow."""


class _Camel(msgspec.Struct, rename="camel", frozen=True):
    pass


class _Attribute(_Camel, frozen=True):
    key: str
    value: dict[str, object] | None = None


# A null field has its default value, as in the JSON form of protocol buffers.
_Attributes = list[_Attribute] | None


class _Event(_Camel, frozen=True):
    name: str | None = None
    attributes: _Attributes = None


class _Status(_Camel, frozen=True):
    code: int | str | None = None
    message: str | None = None


class _Span(_Camel, frozen=True):
    trace_id: str
    span_id: str
    name: str | None = None
    parent_span_id: str | None = None
    start_time_unix_nano: str | int | None = None
    end_time_unix_nano: str | int | None = None
    attributes: _Attributes = None
    events: list[_Event] | None = None
    status: _Status | None = None


class _Scope(_Camel, frozen=True):
    spans: list[_Span] | None = None


class _Resource(_Camel, frozen=True):
    attributes: _Attributes = None


class _ResourceSpans(_Camel, frozen=True):
    resource: _Resource | None = None
    scope_spans: list[_Scope] | None = None
    instrumentation_library_spans: list[_Scope] | None = None
    """The name of scopes until 2022."""

    @property
    def spans(self) -> Iterator[_Span]:
        for scope in (*(self.scope_spans or ()), *(self.instrumentation_library_spans or ())):
            yield from scope.spans or ()


class _LogRecord(_Camel, frozen=True):
    trace_id: str | None = None
    span_id: str | None = None
    event_name: str | None = None
    attributes: _Attributes = None

    @property
    def is_evaluation(self) -> bool:
        """By the record's own field, or by the attribute that it was until 2025."""
        return self.event_name == _EVALUATION_EVENT or (
            not self.event_name
            and any(
                one.key == "event.name"
                and (one.value or {}).get("stringValue") == _EVALUATION_EVENT
                for one in self.attributes or ()
            )
        )


class _ScopeLogs(_Camel, frozen=True):
    log_records: list[_LogRecord] | None = None


class _ResourceLogs(_Camel, frozen=True):
    scope_logs: list[_ScopeLogs] | None = None


class OtlpData(_Camel, frozen=True):
    """What one file or one line of it holds: traces, logs, or both."""

    resource_spans: list[_ResourceSpans] | None = None
    resource_logs: list[_ResourceLogs] | None = None


def read_spans(file: ForeignFile) -> Iterator[tuple[str, TraceItem]]:
    """Every span and evaluation of a file with its place, or why it cannot be read."""
    whole = file.data.strip()
    if b"\n" not in whole or not whole.split(b"\n", 1)[0].rstrip().endswith(b"}"):
        documents: Iterable[tuple[str, OtlpData | Refusal]] = [
            (file.name, decode(file.data, OtlpData, file.name))
        ]
    else:
        documents = read_json_lines(file, OtlpData)
    for place, document in documents:
        if isinstance(document, Refusal):
            yield place, document
            continue
        if document.resource_spans is None and document.resource_logs is None:
            yield place, Refusal(place, "expected resourceSpans or resourceLogs, found neither")
        for group in document.resource_spans or ():
            yield from ((place, _to_span(span, group.resource, place)) for span in group.spans)
        yield from (
            (place, item) for item in _read_log_records(document.resource_logs or (), place)
        )


def _read_log_records(groups: Iterable[_ResourceLogs], place: str) -> Iterator[TraceItem]:
    """The evaluations among log records, and how many records are about something else."""
    others = 0
    for group in groups:
        for scope in group.scope_logs or ():
            for record in scope.log_records or ():
                if record.is_evaluation:
                    yield _read_logged_evaluation(record, place)
                else:
                    others += 1
    if others:
        yield spans.UnreadRecords(others)


def _read_logged_evaluation(record: _LogRecord, place: str) -> spans.TraceEvaluation | Refusal:
    try:
        values = _read_values(record.attributes)
    except _OddValueError as odd:
        return Refusal(place, f"{_EVALUATION_EVENT}: {odd}")
    scores = list(_read_evaluation(values, "gen_ai.evaluation.", "score.value", "score.label"))
    if not scores:
        return Refusal(place, f"{_EVALUATION_EVENT} has no gen_ai.evaluation.name")
    return spans.TraceEvaluation(
        scores[0],
        trace=_read_known_id(record.trace_id),
        span=_read_known_id(record.span_id),
        response=spans.find_response(values),
    )


def _read_known_id(identifier: str | None) -> str | None:
    """An id that says something: neither empty nor all zeros."""
    return identifier if identifier and identifier.strip("0 ") else None


def _to_span(span: _Span, resource: _Resource | None, place: str) -> spans.TraceSpan | Refusal:
    named = f"span {shorten_value(span.span_id)}"
    start, end = _read_nanos(span.start_time_unix_nano), _read_nanos(span.end_time_unix_nano)
    if start is None or end is None:
        return Refusal(place, f"{named} has a time that is not a number of nanoseconds")
    if end < start:
        return Refusal(place, f"{named} ends before it starts")
    try:
        attributes = _read_values(span.attributes)
        around = {} if resource is None else _read_values(resource.attributes)
        evaluations = tuple(_read_evaluations(span, attributes))
        events = [(event.name or "", _read_values(event.attributes)) for event in span.events or ()]
    except _OddValueError as odd:
        return Refusal(place, f"{named}: {odd}")
    status = span.status or _Status()
    return spans.TraceSpan(
        trace=span.trace_id,
        id=span.span_id,
        parent=span.parent_span_id or None,
        name=(span.name or "").strip() or span.span_id,
        start_ns=start,
        end_ns=end,
        kind=spans.find_span_kind(attributes),
        input=spans.find_input(attributes, events),
        output=spans.find_output(attributes, events),
        error=(status.message or "error") if status.code in _ERROR else None,
        model=spans.find_model(attributes),
        prompt=spans.find_prompt(attributes),
        retrieval=spans.find_retrieval(attributes),
        tool=spans.find_tool(attributes),
        response=spans.find_response(attributes),
        evaluations=evaluations,
        tags=spans.make_span_tags(attributes, around),
    )


def _read_nanos(time: str | int | None) -> int | None:
    """Return a time in nanoseconds since 1970; an unknown time is 0."""
    if isinstance(time, str) and not _WHOLE.fullmatch(time):
        return None
    nanos = int(time or 0)
    return nanos if 0 <= nanos <= _LAST_NANO else None


def _read_evaluations(span: _Span, attributes: dict[str, object]) -> Iterator[spans.TraceScore]:
    """Yield scores from GenAI events, or from OpenInference attributes of the span."""
    for event in span.events or ():
        if event.name == _EVALUATION_EVENT:
            values = _read_values(event.attributes)
            yield from _read_evaluation(values, "gen_ai.evaluation.", "score.value", "score.label")
    yield from _read_evaluation(attributes, "evaluation.", "score", "label")


def _read_evaluation(
    values: dict[str, object], prefix: str, score: str, label_name: str
) -> Iterator[spans.TraceScore]:
    """A score with its name; one whose evaluation failed has neither number nor verdict."""
    name, label = values.get(f"{prefix}name"), values.get(f"{prefix}{label_name}")
    if not isinstance(name, str) or not name.strip():
        return
    if values.get("error.type") is not None and prefix == "gen_ai.evaluation.":
        yield spans.TraceScore(name, None)
        return
    number = score_number(values.get(f"{prefix}{score}"))
    yield spans.TraceScore(
        name, number, _LABELS.get(label.casefold()) if isinstance(label, str) else None
    )


def _read_values(attributes: _Attributes) -> dict[str, object]:
    found: dict[str, object] = {}
    for attribute in attributes or ():
        try:
            value = _read_value(attribute.value or {})
        except _OddValueError as odd:
            raise _OddValueError(f"attribute {shorten_value(attribute.key)} {odd}") from None
        if found.setdefault(attribute.key, value) != value:
            named = f"attribute {shorten_value(attribute.key)}"
            raise _OddValueError(f"{named} appears more than once, with different values")
    return found


def _read_value(value: object, depth: int = 0) -> object:
    """Return an OTLP value as plain JSON; an empty or unknown one is null."""
    if depth > _MAX_DEPTH:
        raise _OddValueError("nested too deeply")
    if not isinstance(value, dict):
        raise _OddValueError(f"must be an object with one value, got {shorten_value(value)}")
    for key, found in value.items():
        if key == "intValue":
            return _read_integer(found)
        if key in _PLAIN:
            if not isinstance(found, _PLAIN[key]):
                raise _OddValueError(f"has the {key} {shorten_value(found)}")
            return _read_double(found) if key == "doubleValue" else found
        if key == "arrayValue":
            return [_read_value(one, depth + 1) for one in _list_in(found, key)]
        if key == "kvlistValue":
            return dict(_read_pair(one, depth + 1) for one in _list_in(found, key))
    return None


def _read_double(found: object) -> object:
    """A number, which may come as a text; ``NaN`` and the like stay texts."""
    if isinstance(found, str) and _DECIMAL.fullmatch(found):
        return float(found)
    return found


def _read_integer(found: object) -> int:
    """Return a 64-bit integer, which OTLP writes as a text."""
    if isinstance(found, str) and _WHOLE.fullmatch(found):
        found = int(found)
    if isinstance(found, bool) or not isinstance(found, int) or not _SMALLEST <= found <= _LARGEST:
        raise _OddValueError(f"has the intValue {shorten_value(found)}")
    return found


def _list_in(found: object, key: str) -> list[object]:
    values = (found or {}).get("values") if isinstance(found, dict | None) else found
    if not isinstance(values, list | None):
        raise _OddValueError(f"has the {key} {shorten_value(values)}")
    return values or []


def _read_pair(one: object, depth: int) -> tuple[str, object]:
    if not isinstance(one, dict) or not isinstance(one.get("key"), str):
        raise _OddValueError(f"has the pair {shorten_value(one)} without a key")
    return one["key"], _read_value(one.get("value") or {}, depth)


def sniff(head: bytes, _filename: str) -> bool:
    """An object that holds resource spans or resource logs."""
    return not {"resourceSpans", "resourceLogs"}.isdisjoint(find_key_paths(head))


IMPORTER = make_trace_importer(
    NAME,
    "OpenTelemetry traces and evaluation events (OTLP JSON), GenAI or OpenInference "
    "attributes: one per trace.",
    sniff,
    read_spans,
)
