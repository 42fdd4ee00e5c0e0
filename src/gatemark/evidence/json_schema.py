"""JSON Schema (Draft 2020-12) made from the types, so that the two cannot disagree."""

from __future__ import annotations

from typing import Any

import msgspec

from gatemark.core.record import IDENTITY_PATTERN, Form, RecordSchema

DRAFT = "https://json-schema.org/draft/2020-12/schema"


def schema_document(schema: RecordSchema) -> dict[str, object]:
    """Return a schema as one self-contained document."""
    types = [form.type for form in schema.forms]
    references, definitions = msgspec.json.schema_components(types, ref_template="#/$defs/{name}")
    for form in schema.forms:
        _constrain_identity(definitions[form.type.__name__], form)
        definitions[form.type.__name__].update(form.published)
    return {
        "$schema": DRAFT,
        "$id": f"urn:gatemark:{schema.name}",
        "title": schema.name,
        "description": schema.summary,
        **(references[0] if len(references) == 1 else {"anyOf": list(references)}),
        "$defs": definitions,
    }


def document_schema(name: str, summary: str, noun: type[msgspec.Struct]) -> dict[str, object]:
    """Return the schema of a document other than an evidence record."""
    (reference,), definitions = msgspec.json.schema_components(
        [noun], ref_template="#/$defs/{name}"
    )
    return {
        "$schema": DRAFT,
        "$id": f"urn:gatemark:{name}",
        "title": name,
        "description": summary,
        **reference,
        "$defs": definitions,
    }


def form_document(form: Form) -> dict[str, Any]:
    """Return the schema of one form, so that a diagnosis does not mention other forms."""
    (reference,), definitions = msgspec.json.schema_components(
        [form.type], ref_template="#/$defs/{name}"
    )
    _constrain_identity(definitions[form.type.__name__], form)
    return {"$schema": DRAFT, **reference, "$defs": definitions}


def _constrain_identity(definition: dict[str, Any], form: Form) -> None:
    if not form.identity:
        return
    field = definition["properties"][form.identity]
    field.setdefault("allOf", []).append({"pattern": IDENTITY_PATTERN})
