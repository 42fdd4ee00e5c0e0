"""The OpenAPI document: schemas of the views, and one schema for problems."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from fastapi import FastAPI, Response
from fastapi.openapi.utils import get_openapi

from gatemark.server.problems import PROBLEM

_DESCRIBED: Final[dict[str, object]] = {}
_REF: Final = "#/components/schemas/{name}"
PROBLEM_SCHEMA: Final = {
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "reasons": {"type": "array", "items": {"type": "string"}},
    },
}


def describe_answers(kind: object, status: int = 200) -> dict[int | str, dict[str, Any]]:
    """Return the OpenAPI responses of a route: a view, or a problem."""
    (schema,), components = msgspec.json.schema_components(
        [kind], ref_template=_REF, schema_hook=_describe_any_json
    )
    _DESCRIBED.update(components)
    return {
        status: {"description": "Done", "content": {"application/json": {"schema": schema}}},
        "4XX": {
            "description": "A problem (RFC 9457)",
            "content": {PROBLEM: {"schema": {"$ref": _REF.format(name="Problem")}}},
        },
    }


def _describe_any_json(kind: type) -> dict[str, object]:
    """Return the schema of a field of type ``object``, which holds any JSON value."""
    if kind is not object:
        raise NotImplementedError
    return {"description": "Any JSON value."}


def reply(value: object, status: int = 200, **headers: str) -> Response:
    """Return a view as a JSON response."""
    return Response(
        msgspec.json.encode(value),
        status_code=status,
        media_type="application/json",
        headers={name.replace("_", "-"): text for name, text in headers.items()},
    )


def describe(app: FastAPI) -> None:
    """Add our views and the authentication schemes to the OpenAPI document."""

    def document() -> dict[str, object]:
        if app.openapi_schema is None:
            made = get_openapi(title=app.title, version=app.version, routes=app.routes)
            components = made.setdefault("components", {})
            schemas = components.setdefault("schemas", {})
            schemas.update(_DESCRIBED)
            schemas["Problem"] = PROBLEM_SCHEMA
            components["securitySchemes"] = {
                "token": {"type": "http", "scheme": "bearer"},
                "session": {"type": "apiKey", "in": "cookie", "name": "gatemark"},
            }
            made["security"] = [{"token": []}, {"session": []}]
            for path in made["paths"].values():
                for operation in path.values():
                    operation["responses"].pop("422", None)
            for name in ("HTTPValidationError", "ValidationError"):
                schemas.pop(name, None)
            app.openapi_schema = made
        return app.openapi_schema

    app.openapi = document  # type: ignore[method-assign]
