"""JSON Schema (Draft 2020-12) made from the types, so that the two cannot disagree."""

from __future__ import annotations

from typing import Any

import msgspec

from gatemark.core.record import IDENTITY_PATTERN, Form, RecordSchema

DRAFT = "https://json-schema.org/draft/2020-12/schema"
_REFERENCE = "#/$defs/{name}"


def schema_document(schema: RecordSchema) -> dict[str, object]:
    """Return a schema as one self-contained document."""
    references, definitions = _make_components(*schema.forms)
    for form in schema.forms:
        definitions[form.type.__name__].update(form.published)
    root = references[0] if len(references) == 1 else {"anyOf": list(references)}
    return _add_title(schema.name, schema.summary, {**root, "$defs": definitions})


def document_schema(name: str, summary: str, noun: type[msgspec.Struct]) -> dict[str, object]:
    """Return the schema of a document other than an evidence record."""
    (root,), definitions = msgspec.json.schema_components([noun], ref_template=_REFERENCE)
    return _add_title(name, summary, {**root, "$defs": definitions})


def form_document(form: Form) -> dict[str, Any]:
    """Return the schema of one form, so that a diagnosis does not mention other forms."""
    (root,), definitions = _make_components(form)
    return {"$schema": DRAFT, **root, "$defs": definitions}


def _make_components(*forms: Form) -> tuple[tuple[dict[str, Any], ...], dict[str, Any]]:
    """Return a reference to each form, and the definitions of all."""
    types = [form.type for form in forms]
    references, definitions = msgspec.json.schema_components(types, ref_template=_REFERENCE)
    for form in forms:
        if form.identity:
            field = definitions[form.type.__name__]["properties"][form.identity]
            field.setdefault("allOf", []).append({"pattern": IDENTITY_PATTERN})
    return references, definitions


def _add_title(name: str, summary: str, schema: dict[str, object]) -> dict[str, object]:
    about = {"$id": f"urn:gatemark:{name}", "title": name, "description": summary}
    return {"$schema": DRAFT, **about, **schema}
