"""Observations exported from Langfuse, as JSON Lines, a list, or a page of the API.

Exports to blob storage write keys in snake case; those of the page and of the API in camel case.
Texts may contain JSON.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

import msgspec

from gatemark.core.errors import BadInputError
from gatemark.samples import spans
from gatemark.samples.foreign_json import (
    decode,
    find_key_paths,
    read_json_lines,
    read_json_rows,
    strip_bom,
)
from gatemark.samples.importer import ForeignFile, Refusal
from gatemark.samples.trace_samples import make_trace_importer

_KINDS: Final[dict[str, spans.SpanKind]] = {
    "GENERATION": "model",
    "EMBEDDING": "model",
    "TOOL": "tool",
    "RETRIEVER": "retrieval",
    "AGENT": "plan",
    "CHAIN": "plan",
    "GUARDRAIL": "verifier",
    "EVALUATOR": "verifier",
}
_LISTS: Final = ("data", "observations")
_SNAKE: Final = {
    "traceId": "trace_id",
    "startTime": "start_time",
    "endTime": "end_time",
    "parentObservationId": "parent_observation_id",
    "statusMessage": "status_message",
    "model": "provided_model_name",
    "providedModelName": "provided_model_name",
    "promptName": "prompt_name",
    "promptVersion": "prompt_version",
}
_NULL: Final = msgspec.Raw(b"null")
_MICROS: Final = 1_000
NAME: Final = "langfuse"


class LangfuseObservation(msgspec.Struct):
    """The fields that are read from an exported observation."""

    id: str
    trace_id: str
    type: str
    start_time: str
    end_time: str | None = None
    parent_observation_id: str | None = None
    name: str | None = None
    input: object = None
    output: object = None
    level: str | None = None
    status_message: str | None = None
    provided_model_name: str | None = None
    prompt_name: str | None = None
    prompt_version: str | int | None = None
    environment: str | None = None
    metadata: object = None


def read_spans(file: ForeignFile) -> Iterator[tuple[str, spans.TraceSpan | Refusal]]:
    """Yield every observation of a file with its place, or a refusal."""
    for place, row in _read_rows(file):
        yield place, row if isinstance(row, Refusal) else _to_span(row, place)


def _read_rows(file: ForeignFile) -> Iterator[tuple[str, LangfuseObservation | Refusal]]:
    """Yield the rows of an export, whichever keys it has."""
    if strip_bom(file.data).lstrip().startswith(b"["):
        raws = decode(file.data, list[msgspec.Raw], file.name)
    elif (inside := _find_list(file.head)) is not None:
        held = decode(file.data, dict[str, msgspec.Raw], file.name)[inside]
        raws = decode(bytes(held), list[msgspec.Raw], file.name)
    else:
        for place, line in read_json_lines(file, dict[str, msgspec.Raw]):
            yield place, line if isinstance(line, Refusal) else _decode_row(line, place)
        return
    for place, _, fields in read_json_rows(raws, dict[str, msgspec.Raw], file.name):
        yield place, fields if isinstance(fields, Refusal) else _decode_row(fields, place)


def _find_list(head: bytes) -> str | None:
    """Return the key under which an object holds observations, or None if it is one itself."""
    paths = find_key_paths(head)
    return next((key for key in _LISTS if f"{key}[].id" in paths), None)


def _decode_row(fields: dict[str, msgspec.Raw], place: str) -> LangfuseObservation | Refusal:
    # Of two keys with one meaning, such as the model's, the one with a value is kept.
    named = {_SNAKE.get(name, name): value for name, value in fields.items() if value != _NULL}
    try:
        return decode(msgspec.json.encode(named), LangfuseObservation, place)
    except BadInputError as error:
        return Refusal(place, str(error).removeprefix(f"{place}: "))


def _to_span(row: LangfuseObservation, place: str) -> spans.TraceSpan | Refusal:
    start = _parse_time(row.start_time)
    end = start if row.end_time is None else _parse_time(row.end_time)
    if start is None or end is None:
        return Refusal(place, f"observation {row.id!r} has a time that cannot be read")
    if end < start:
        return Refusal(place, f"observation {row.id!r} ends before it starts")
    kind = _KINDS.get(row.type.upper())
    name = (row.name or "").strip() or row.id
    version = None if row.prompt_version is None else str(row.prompt_version)
    return spans.TraceSpan(
        trace=row.trace_id,
        id=row.id,
        parent=row.parent_observation_id or None,
        name=name,
        start_ns=start,
        end_ns=end,
        kind=kind,
        input=spans.decode_value(row.input),
        output=spans.decode_value(row.output),
        error=(row.status_message or "error") if row.level == "ERROR" else None,
        model=row.provided_model_name or None,
        prompt=(row.prompt_name, version) if row.prompt_name and version else None,
        retrieval=name if kind == "retrieval" else None,
        tool=name if kind == "tool" else None,
        tags=_read_tags(row),
    )


def _read_tags(row: LangfuseObservation) -> dict[str, str]:
    """Return the environment, and the plain values of the metadata."""
    found = spans.decode_value(row.metadata)
    around = {"deployment.environment": row.environment} if row.environment else {}
    return spans.make_span_tags(found if isinstance(found, dict) else {}, around)


def _parse_time(text: str) -> int | None:
    """Return a UTC time, with or without its zone, in nanoseconds since 1970."""
    try:
        moment = datetime.fromisoformat(text)
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    micros = (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
    return micros * _MICROS


_MARKS: Final = (
    {"trace_id", "parent_observation_id", "start_time"},
    {"traceId", "parentObservationId", "startTime"},
)


def sniff(head: bytes, _filename: str) -> bool:
    """Recognise objects with the keys of an observation."""
    paths = find_key_paths(head)
    prefixes = ("", "[].", *(f"{key}[]." for key in _LISTS))
    return any(
        paths >= {f"{prefix}{mark}" for mark in marks} for prefix in prefixes for marks in _MARKS
    )


IMPORTER = make_trace_importer(
    NAME,
    "Langfuse's exported observations (JSON Lines or JSON): one sample per trace.",
    sniff,
    read_spans,
)
