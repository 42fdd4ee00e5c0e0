from __future__ import annotations

import json
from functools import cache
from typing import Any

import jsonschema
import jsonschema_rs
import msgspec
import pytest

from gatemark.core.record import Form, RecordSchema
from gatemark.evidence.diagnose import diagnose, record_problems
from gatemark.evidence.json_schema import form_document, schema_document
from gatemark.evidence.record_schemas import schemas
from gatemark.evidence.shape import Shape, shape_of
from gatemark.testing.schemas import check_schema

SCHEMAS = list(schemas())
VERSIONS = [*SCHEMAS, *(dialect.schema for schema in SCHEMAS for dialect in schema.older)]
FORMS = [(schema, form) for schema in VERSIONS for form in schema.forms]


@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda schema: schema.name)
def test_every_schema_keeps_its_promises(schema: RecordSchema) -> None:
    check_schema(schema)


@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda schema: schema.name)
def test_every_document_is_draft_2020_12(schema: RecordSchema) -> None:
    document = schema_document(schema)
    jsonschema.Draft202012Validator.check_schema(document)
    assert document["$schema"].endswith("2020-12/schema")


MUTANTS = (
    *(None, 0, -1, 1.5, 12.0, True, "", "x", "a\tb", [], ["x"], [1], {}, {"x": 1}, 2**70, "VALID"),
)


def paths_of(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path]
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, inner in items:
            found.extend(paths_of(inner, (*path, key)))
    return found


def mutated(value: Any, path: tuple[Any, ...], replacement: Any) -> Any:
    copy = json.loads(json.dumps(value))
    if not path:
        return replacement
    target = copy
    for key in path[:-1]:
        target = target[key]
    if replacement is ...:
        del target[path[-1]]
    else:
        target[path[-1]] = replacement
    return copy


@cache
def validator_of(record_type: type, identity: str) -> Any:
    """Compiling a document takes longer than using it."""
    forms = (form for _, form in FORMS if (form.type, form.identity) == (record_type, identity))
    return jsonschema_rs.validator_for(form_document(next(forms)))


@pytest.mark.parametrize(("schema", "form"), FORMS, ids=lambda value: value.name)
def test_the_document_and_the_types_agree_on_every_mutation(
    schema: RecordSchema, form: Form
) -> None:
    shape = shape_of(form) if schema.tag is None else shape_of(schema)
    validator = validator_of(form.type, form.identity)
    for example in form.good:
        for path in paths_of(example):
            for replacement in (*MUTANTS, ...) if path else MUTANTS:
                record = mutated(example, path, replacement)
                line = json.dumps(record)
                by_types = fits(shape, form, line)
                # JSON Schema knows no whole number that is too large, and takes 12.0 for one.
                if not (form.rules or ".0" in line or str(2**70) in line):
                    assert validator.is_valid(record) == by_types, line
                assert bool(diagnose(line.encode(), form, max_depth=64)) != by_types, line


def fits(shape: Shape, form: Form, line: str) -> bool:
    try:
        typed = shape.decode(line.encode())
    except msgspec.ValidationError:
        return False
    return type(typed) is form.type and not record_problems(typed, form)
