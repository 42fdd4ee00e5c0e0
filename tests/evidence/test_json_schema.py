from __future__ import annotations

import json
from functools import cache
from typing import Any

import jsonschema
import jsonschema_rs
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatemark.core.record import Form, RecordSchema
from gatemark.evidence.diagnose import diagnose, record_problems
from gatemark.evidence.exam import schemas
from gatemark.evidence.json_schema import form_document, schema_document
from gatemark.evidence.shape import shape_of
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


MUTANTS = st.sampled_from(
    [None, 0, -1, 1.5, 12.0, True, "", "x", "a\tb", [], ["x"], [1], {}, {"x": 1}, 2**70, "VALID"]
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
@given(data=st.data())
@settings(deadline=None, max_examples=200)
def test_the_document_and_the_types_agree_on_every_mutation(
    schema: RecordSchema, form: Form, data: st.DataObject
) -> None:
    example = data.draw(st.sampled_from(form.good))
    path = data.draw(st.sampled_from(paths_of(example)))
    record = mutated(example, path, data.draw(MUTANTS | st.just(...) if path else MUTANTS))
    line = json.dumps(record).encode()
    by_document = validator_of(form.type, form.identity).is_valid(record)
    shape = shape_of(form) if schema.tag is None else shape_of(schema)
    try:
        typed = shape.decode(line)
        by_types = type(typed) is form.type and not record_problems(typed, form)
    except msgspec.ValidationError:
        by_types = False
    integral_float = ".0" in line.decode()
    oversized = str(2**70) in line.decode()
    if not (integral_float or oversized) and not form.rules:
        assert by_document == by_types
    assert bool(diagnose(line, form, max_depth=64)) != by_types
