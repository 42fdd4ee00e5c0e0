"""The output is JSON of the expected type."""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec

from gatemark.evidence.settings_file import about
from gatemark.scorers.json_equal import check_depth, parse_json, strip_fence
from gatemark.scorers.scorer import (
    KnownScore,
    Scorable,
    Score,
    Scorer,
    scored,
    text_of,
    truncate,
    with_options,
)

_TYPES: Final = {"object": dict, "array": list, "string": str}


class IsJsonOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of the scorer."""

    type: Annotated[
        Literal["any", "object", "array", "string"], about("Type of the outermost value.")
    ] = "any"
    fences: Annotated[bool, about("Accept a code fence around the whole output.")] = False


def parse_output(output: object, *, fences: bool) -> object:
    """Return the JSON value of an output; raise ValueError that says why it is not JSON."""
    text = text_of(output, "output")
    if not isinstance(output, str):
        check_depth(output)
        return output
    return parse_json(strip_fence(text) if fences else text)


def _score(options: IsJsonOptions, item: Scorable) -> Score:
    try:
        value = parse_output(item.output, fences=options.fences)
    except ValueError as error:
        return scored(0.0, why=truncate(f"the output is not JSON: {error}"))
    if options.type != "any" and not isinstance(value, _TYPES[options.type]):
        return scored(0.0, why=f"the output is not an {options.type}")
    return scored(1.0)


SCORER = Scorer(
    name="is_json",
    summary="1 when the output is JSON (of the expected type), else 0; repeated keys are refused.",
    options=IsJsonOptions,
    build=with_options(_score),
    needs_target=False,
    known=(
        KnownScore("an object", 1.0, output='{"a": 1}'),
        KnownScore("a number is JSON too", 1.0, output="4"),
        KnownScore("prose is not", 0.0, output="a: 1"),
        KnownScore("a repeated key", 0.0, output='{"a": 1, "a": 2}'),
        KnownScore("NaN is not JSON", 0.0, output="NaN"),
        KnownScore("an array is no object", 0.0, output="[1]", options={"type": "object"}),
        KnownScore("a fence is text", 0.0, output="```json\n{}\n```"),
        KnownScore(
            "a fence on request",
            1.0,
            output="```json\n{}\n```",
            options={"fences": True, "type": "object"},
        ),
        KnownScore("a value that was parsed before", 1.0, output={"a": 1}),
        KnownScore("no output", None),
    ),
)
