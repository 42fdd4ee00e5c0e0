"""Bodies of requests, read and described by the struct of the act."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from http import HTTPStatus
from typing import Annotated, Final

import msgspec
from fastapi import Depends, Request
from markupsafe import Markup, escape

from gatemark.core.errors import InvalidValueError
from gatemark.core.request_fields import RequestField, request_fields
from gatemark.web.problems import ProblemResponse

_TYPES: Final[dict[object, str]] = {bool: "boolean", int: "integer", float: "number"}
OF_THE_FORM: Final = frozenset({"form_mark", "tag"})
"""The session's mark and what the form was made for."""
MARK: Final = "yes"
"""The value of a checked box in a form."""


async def json_body(request: Request) -> dict[str, object]:
    """Return the fields of a JSON body; ``KeyedRoute`` has already refused ambiguous JSON."""
    kind = request.headers.get("content-type", "application/json").partition(";")[0]
    if not kind.strip().lower().endswith("json"):
        raise ProblemResponse(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "send the body as Content-Type: application/json"
        )
    text = await request.body()
    found = msgspec.json.decode(text) if text.strip() else {}
    if not isinstance(found, dict):
        raise ProblemResponse(
            HTTPStatus.UNPROCESSABLE_ENTITY, "the body must be a JSON object of fields"
        )
    return found


JsonBody = Annotated[dict[str, object], Depends(json_body)]
"""The fields of a JSON body, as a parameter of a route."""


def describe_body(
    struct: type[msgspec.Struct], *, without: Collection[str] = ()
) -> dict[str, object]:
    """Return the OpenAPI description of a body; ``without`` are fields of the address."""
    fields = [one for one in request_fields(struct) if one.name not in without and not one.is_local]
    required = [one.name for one in fields if one.is_required]
    schema = {
        "title": struct.__name__,
        "type": "object",
        "description": (struct.__doc__ or "").partition("\n")[0],
        "properties": {one.name: _describe_field(one) for one in fields},
        "additionalProperties": False,
        **({"required": required} if required else {}),
    }
    return {
        "requestBody": {
            "required": bool(required),
            "content": {"application/json": {"schema": schema}},
        }
    }


def _describe_field(field: RequestField) -> dict[str, object]:
    text: dict[str, object] = {"type": _TYPES.get(field.kind, "string")}
    limits = {
        "enum": [*field.words] or None,
        "exclusiveMinimum" if field.is_low_open else "minimum": field.low,
        "exclusiveMaximum" if field.is_high_open else "maximum": field.high,
        "minLength": field.min_length,
        "maxLength": field.max_length,
        "pattern": field.pattern,
        "format": "date-time" if field.kind is datetime else None,
    }
    text |= {name: limit for name, limit in limits.items() if limit is not None}
    if field.is_list:
        ends = {"minItems": field.min_count, "maxItems": field.max_count}
        counts = {name: count for name, count in ends.items() if count is not None}
        text = {"type": "array", "items": text, **counts}
    if field.is_optional:
        text = {"anyOf": [text, {"type": "null"}]}
    text["description"] = field.description
    if not field.is_required:
        text["default"] = _word_of(field, field.default)
    return text


def _word_of(field: RequestField, value: object) -> object:
    """Return the word for a value; other values are their own."""
    return next((word for word, known in field.words.items() if known == value), value)


def form_body(struct: type[msgspec.Struct], fields: Mapping[str, list[str]]) -> dict[str, object]:
    """Return the fields of a request from those of a form.

    What was left empty has its default, if there is one.
    """
    found: dict[str, object] = {}
    offered = {one.name: one for one in request_fields(struct) if not one.is_local}
    for name, texts in fields.items():
        if name in OF_THE_FORM:
            continue
        field = offered.get(name)
        value = texts if field is None else _read_texts(field, texts)
        if field is None or field.is_required or value not in ("", ()):
            found[name] = value
    return found


def _read_texts(field: RequestField, texts: list[str]) -> object:
    if field.is_list:
        lines = (line.strip() for text in texts for line in text.splitlines())
        return tuple(line for line in lines if line)
    if len(texts) > 1:
        raise InvalidValueError(f"the field {field.name} was sent more than once")
    text = texts[0].strip()
    if field.kind is bool and text == MARK:
        return True
    return _read_number(field, text) if text and field.kind in (int, float) else text


def _read_number(field: RequestField, text: str) -> object:
    try:
        return int(text) if field.kind is int else float(text)
    except ValueError:
        return text


def form_limits(struct: type[msgspec.Struct]) -> Callable[[str], Markup]:
    """Return a function that gives the attributes of an input by the name of its field."""
    fields = {one.name: one for one in request_fields(struct)}

    def attributes(name: str) -> Markup:
        field = fields[name]
        given = {
            "min": field.low,
            "max": field.high,
            "maxlength": None if field.is_list else field.max_length,
            "value": None if field.is_list or field.words else field.default or None,
        }
        if field.is_required:
            given["value"] = None
        texts = [f' {word}="{escape(value)}"' for word, value in given.items() if value is not None]
        if field.kind is float:
            texts.append(' step="any"')
        if field.is_required:
            texts.append(" required")
        return Markup("".join((f' name="{name}"', *texts)))  # noqa: S704 - of our own structs

    return attributes
