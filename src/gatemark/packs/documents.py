"""The schemas of evidence, and of the documents that Gatemark itself reads and writes."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import msgspec

from gatemark.core.result import Result
from gatemark.evidence.json_schema import document_schema, schema_document
from gatemark.evidence.plugins import schemas
from gatemark.packs.pack import Pack

DOCUMENTS: dict[str, tuple[type[msgspec.Struct], str]] = {
    "gatemark.pack/1": (Pack, "A pack file, for editors that complete YAML."),
    "gatemark.result/1": (Result, "A sealed result."),
}


# Documents of one suite, loaded with it and not before.
SUITE_DOCUMENTS: dict[str, tuple[str, str, str]] = {
    "gatemark.overhead-report/1": (
        "gatemark.exams.overhead.document",
        "OverheadReport",
        "The report of guard overhead; closed: no other key is allowed.",
    ),
    "gatemark.overhead-costs/1": (
        "gatemark.exams.overhead.costs",
        "Costs",
        "Time and memory of both arms, recorded beside them.",
    ),
}


def describe_schemas() -> dict[str, str]:
    """Each schema's name and purpose."""
    described = {schema.name: schema.summary for schema in schemas()}
    described.update({name: summary for name, (_, summary) in DOCUMENTS.items()})
    described.update({name: summary for name, (_, _, summary) in SUITE_DOCUMENTS.items()})
    return dict(sorted(described.items()))


def json_schema(name: str) -> dict[str, Any]:
    """One schema as a JSON Schema document."""
    if name in DOCUMENTS:
        noun, summary = DOCUMENTS[name]
        return document_schema(name, summary, noun)
    if name in SUITE_DOCUMENTS:
        module, noun_name, summary = SUITE_DOCUMENTS[name]
        return document_schema(name, summary, getattr(import_module(module), noun_name))
    return schema_document(schemas().get(name))


def broken_plugins() -> dict[str, str]:
    """Schema modules that are there but cannot be loaded, and why."""
    return dict(schemas().broken)
