"""The schemas of evidence records, found by name."""

from __future__ import annotations

from functools import cache

from gatemark.core.record import RecordSchema
from gatemark.core.registry import Registry, feature_modules
from gatemark.evidence.exam import AnyExam


@cache
def schemas() -> Registry[RecordSchema]:
    """Return the registry of evidence schemas."""
    return Registry(
        kind="schema",
        places=feature_modules("records"),
        attribute="SCHEMA",
        plugin_type=RecordSchema,
        name_of=lambda schema: schema.name,
    )


def schema_of(exam: AnyExam) -> RecordSchema:
    """Return the schema of an exam's records, without loading all others if possible."""
    own = exam.own_schema()
    return own or schemas().get(exam.schema, near=type(exam).__module__.split(".")[-2])
