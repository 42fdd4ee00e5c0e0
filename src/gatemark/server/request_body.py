"""Bodies of requests, read and described by the struct of the act."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from datetime import datetime
from http import HTTPStatus
from typing import Annotated, Any, Final

import msgspec
from fastapi import Depends, Request
from markupsafe import Markup, escape

from gatemark.core.errors import InvalidValueError
from gatemark.core.request_fields import RequestField, request_fields
from gatemark.server.problems import ProblemResponse

_TYPES: Final[dict[object, str]] = {bool: "boolean", int: "integer", float: "number"}
OF_THE_FORM: Final = frozenset({"form_mark", "tag"})
"""The session's mark and what the form was made for."""
OF_THE_MAP: Final = ":"
"""Between the name of a field that is a map, and the name of an entry."""
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
    text = _describe_value(field)
    if field.is_optional:
        text = {"anyOf": [text, {"type": "null"}]}
    text["description"] = field.description
    if not field.is_required:
        text["default"] = _word_of(field, field.default)
    return text


def _describe_value(field: RequestField) -> dict[str, object]:
    if field.kind is object:
        return {}
    if field.is_list and field.entry is not None:
        counts = {"minItems": field.min_count, "maxItems": field.max_count}
        return {"type": "array", "items": _describe_value(field.entry), **_known(counts)}
    if field.is_map and field.key is not None and field.entry is not None:
        ends: dict[str, object] = {
            "minProperties": field.min_count,
            "maxProperties": field.max_count,
        }
        names = _describe_value(field.key)
        if names.keys() != {"type"}:
            ends["propertyNames"] = names
        entries = _describe_value(field.entry) or True
        return {"type": "object", "additionalProperties": entries, **_known(ends)}
    limits = {
        "enum": [*field.words] or None,
        "exclusiveMinimum" if field.is_low_open else "minimum": field.low,
        "exclusiveMaximum" if field.is_high_open else "maximum": field.high,
        "minLength": field.min_length,
        "maxLength": field.max_length,
        "pattern": field.pattern,
        "format": "date-time" if field.kind is datetime else None,
    }
    return {"type": _TYPES.get(field.kind, "string"), **_known(limits)}


def _known(limits: Mapping[str, object]) -> dict[str, object]:
    return {name: limit for name, limit in limits.items() if limit is not None}


def _word_of(field: RequestField, value: object) -> object:
    """Return the word for a value; other values are their own."""
    return next((word for word, known in field.words.items() if known == value), value)


def form_body(struct: type[msgspec.Struct], fields: Mapping[str, list[str]]) -> dict[str, object]:
    """Return the fields of a request from those of a form.

    What was left empty has its default, if there is one.
    """
    found: dict[str, object] = {}
    offered = {one.name: one for one in request_fields(struct) if not one.is_local}
    for given, texts in fields.items():
        if given in OF_THE_FORM:
            continue
        name, _, key = given.partition(OF_THE_MAP)
        field = offered.get(name)
        if field is None:
            found[given] = texts
        elif field.is_map:
            entries: Any = found.setdefault(name, {})
            if key and (value := _read_one(field.entry or field, given, texts)) != "":
                entries[key] = value
        else:
            value = _read_texts(field, texts)
            if field.is_required or value not in ("", ()):
                found[name] = value
    # A form says that nothing is ticked by not sending the field.
    empty = {one.name: () for one in offered.values() if one.is_list and one.is_required}
    return {**empty, **found}


def _read_texts(field: RequestField, texts: list[str]) -> object:
    if field.entry is None:
        return _read_one(field, field.name, texts)
    # Entries that cannot contain a space stand on one line.
    pattern = field.entry.pattern
    is_split = pattern is not None and re.fullmatch(pattern, "a a") is None
    pieces = [
        piece
        for text in texts
        for piece in (text.replace(",", " ").split() if is_split else text.splitlines())
    ]
    return tuple(piece.strip() for piece in pieces if piece.strip())


def _read_one(field: RequestField, name: str, texts: list[str]) -> object:
    if len(texts) > 1:
        raise InvalidValueError(f"the field {name} was sent more than once")
    if field.is_exact:
        return texts[0]
    # A browser sends a line break of a text as two signs.
    text = texts[0].replace("\r\n", "\n").strip()
    if field.kind is bool and text == MARK:
        return True
    return _read_number(field, text) if text and field.kind in (int, float) else text


def _read_number(field: RequestField, text: str) -> object:
    try:
        return int(text) if field.kind is int else float(text)
    except ValueError:
        return text


class FormFields:
    """The fields of a request, for the template of its form.

    Called with the name of a field, it gives the attributes of the input that the template places;
    ``rest`` gives whole inputs for the fields that the template has not placed.
    """

    def __init__(self, struct: type[msgspec.Struct]) -> None:
        self._fields = {one.name: one for one in request_fields(struct) if not one.is_local}
        self._placed: set[str] = set()

    def __call__(self, name: str) -> Markup:
        """Return the name, the limits and the default of a field, as attributes of its input."""
        self._placed.add(name)
        field = self._fields[name]
        given = {
            "min": field.low,
            "max": field.high,
            "maxlength": field.max_length,
            "value": None if field.entry or field.words else field.default or None,
        }
        if field.is_required:
            given["value"] = None
        texts = [f' {word}="{escape(value)}"' for word, value in given.items() if value is not None]
        if field.kind is float:
            texts.append(' step="any"')
        if field.is_required:
            texts.append(" required")
        return Markup("".join((f' name="{name}"', *texts)))  # noqa: S704 - of our own structs

    def rest(self, *without: str) -> Markup:
        """Return a labelled input for each field that has no place yet."""
        self._placed |= {*without}
        fields = [one for one in self._fields.values() if one.name not in self._placed]
        return Markup("\n").join(self._draw(one) for one in fields if not one.is_map)

    def _draw(self, field: RequestField) -> Markup:
        label, attributes = escape(field.description.rstrip(".")), self(field.name)
        if field.kind is bool:
            box = Markup('<input type="checkbox" value="{}"{}>').format(MARK, attributes)
            return Markup('<label class="check">{} {}</label>').format(box, label)
        if field.is_list:
            return Markup('<label>{}<textarea{} rows="3"></textarea></label>').format(
                label, attributes
            )
        if field.words:
            empty = Markup("") if field.is_required else Markup('<option value="">default</option>')
            words = Markup("").join(
                Markup("<option>{}</option>").format(word) for word in field.words
            )
            return Markup("<label>{}<select{}>{}{}</select></label>").format(
                label, attributes, empty, words
            )
        kind = "number" if field.kind in (int, float) else "text"
        return Markup('<label>{}<input type="{}"{}></label>').format(label, kind, attributes)
