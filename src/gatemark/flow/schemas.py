"""Looking at the evidence schemas."""

from __future__ import annotations

from typing import Any

from gatemark.flow.plugins import schemas
from gatemark.intake.json_schema import schema_document


def describe_schemas() -> dict[str, str]:
    """Each schema's name and purpose."""
    return {schema.name: schema.summary for schema in schemas()}


def json_schema(name: str) -> dict[str, Any]:
    """One schema as a JSON Schema document."""
    return schema_document(schemas().get(name))


def broken_plugins() -> dict[str, str]:
    """Schema modules that are there but cannot be loaded, and why."""
    return dict(schemas().broken)
