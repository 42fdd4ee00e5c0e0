"""The output is JSON that a JSON Schema accepts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, NoReturn

import msgspec

from gatemark.core.errors import BadInputError
from gatemark.evidence.settings_file import about
from gatemark.scorers.is_json import parse_output
from gatemark.scorers.scorer import (
    KnownScore,
    Scorable,
    Score,
    ScoreFunction,
    Scorer,
    scored,
    truncate,
)


class JsonSchemaOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of the scorer; without ``schema`` the target is the schema."""

    schema: Annotated[
        dict[str, Any] | None,
        about("JSON Schema of the output; without it the target is the schema."),
    ] = None
    fences: Annotated[bool, about("Accept a code fence around the whole output.")] = False


def _build(options: JsonSchemaOptions) -> ScoreFunction:
    own = None if options.schema is None else _make_error_finder(options.schema)

    def score(item: Scorable) -> Score:
        error_in = own
        if error_in is None:
            if not isinstance(item.target, dict):
                raise BadInputError("json_schema needs a schema in its options or as the target")
            error_in = _make_error_finder(item.target)
        try:
            value = parse_output(item.output, fences=options.fences)
        except ValueError as error:
            return scored(0.0, why=truncate(f"the output is not JSON: {error}"))
        problem = error_in(value)
        return scored(1.0) if problem is None else scored(0.0, why=truncate(problem))

    return score


def _make_error_finder(schema: dict[str, object]) -> Callable[[object], str | None]:
    """Return a function that finds the first error of a value, with its place."""
    import jsonschema_rs  # noqa: PLC0415 - few packs need it

    try:
        validator = jsonschema_rs.validator_for(
            schema,
            retriever=_refuse,
            validate_formats=True,
            # The other engine backtracks, so a pattern could hang the run.
            pattern_options=jsonschema_rs.RegexOptions(),
        )
    except (jsonschema_rs.ValidationError, ValueError, TypeError) as error:
        first = str(error).splitlines()[0]
        raise BadInputError(f"schema is not a usable JSON Schema: {first}") from error

    def first_error(value: object) -> str | None:
        for error in validator.iter_errors(value):
            place = "".join(f"/{step}" for step in error.instance_path)
            return f"{place or 'the output'}: {error.message}"
        return None

    return first_error


def _refuse(address: str) -> NoReturn:
    raise ValueError(f"{address} lies outside of the schema")


_PERSON = {
    "type": "object",
    "required": ["name"],
    "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0}},
    "additionalProperties": False,
}

SCORER = Scorer(
    name="json_schema",
    summary="1 when the output is JSON that the JSON Schema accepts, else 0.",
    options=JsonSchemaOptions,
    build=_build,
    needs_target=False,
    known=(
        KnownScore(
            "accepted", 1.0, output='{"name": "Ann", "age": 4}', options={"schema": _PERSON}
        ),
        KnownScore(
            "a wrong type", 0.0, output='{"name": "Ann", "age": "4"}', options={"schema": _PERSON}
        ),
        KnownScore("a missing key", 0.0, output="{}", options={"schema": _PERSON}),
        KnownScore("not JSON", 0.0, output="Ann", options={"schema": _PERSON}),
        KnownScore("the target as schema", 1.0, {"type": "array"}, "[]"),
        KnownScore(
            "no address is followed", None, {"$ref": "https://example.com/schema.json"}, "{}"
        ),
        KnownScore("no schema", None, output="{}"),
    ),
)
