"""The common check of every evidence schema: its examples, its types and its document agree."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from gatemark.core.record import Form, RecordSchema
from gatemark.intake.diagnose import diagnose
from gatemark.intake.json_schema import schema_document

MAX_DEPTH = 64


def check_schema(schema: RecordSchema) -> None:
    """Raise AssertionError unless ``schema`` keeps its promises.

    Every form needs good and bad examples. Good ones must decode, be found by their keys and
    survive a round trip; bad ones must be refused with a problem at the path they name. The JSON
    Schema document must be one, and must be made of plain JSON.
    """
    if not schema.forms:
        raise AssertionError(f"{schema.name} has no forms")
    json.loads(json.dumps(schema_document(schema), allow_nan=False))
    for form in schema.forms:
        _check_form(schema, form)


def _check_form(schema: RecordSchema, form: Form) -> None:
    place = f"{schema.name} ({form.name})"
    if not form.good or not form.bad:
        raise AssertionError(f"{place} needs good and bad examples")
    if form.identity not in form.type.__struct_fields__:
        raise AssertionError(f"{place} has no field {form.identity!r} to be named by")
    for example in form.good:
        _check_good(place, schema, form, example)
    for bad in form.bad:
        found = _problems(form, bad.record)
        if not any(problem.path == bad.path for problem in found):
            listed = ", ".join(f"{p.path}: {p.message}" for p in found) or "no problem at all"
            raise AssertionError(f"{place}: {bad.title!r} must fail at {bad.path}, got {listed}")


def _check_good(place: str, schema: RecordSchema, form: Form, example: Mapping[str, Any]) -> None:
    if found := _problems(form, example):
        raise AssertionError(f"{place}: a good example is refused: {found[0].message}")
    if schema.form_of(example) is not form:
        raise AssertionError(f"{place}: a good example is not found by its keys")
    record = msgspec.convert(example, form.type)
    again: Callable[[Any], Any] = msgspec.json.Decoder(form.type).decode
    if again(msgspec.json.encode(record)) != record:
        raise AssertionError(f"{place}: a good example does not survive a round trip")


def _problems(form: Form, record: Any) -> tuple[Any, ...]:
    return diagnose(json.dumps(record).encode(), form, max_depth=MAX_DEPTH)
