"""The output is JSON of the expected type."""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec

from gatemark.scorers.json_equal import check_depth, parse_json, unfenced
from gatemark.scorers.scorer import (
    KnownScore,
    Scorable,
    Score,
    ScoreFunction,
    Scorer,
    scored,
    text_of,
    truncate,
)

_TYPES: Final = {"object": dict, "array": list, "string": str}


class IsJsonOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of the scorer."""

    type: Annotated[
        Literal["any", "object", "array", "string"],
        msgspec.Meta(description="Type of the outermost value."),
    ] = "any"
    fences: Annotated[
        bool, msgspec.Meta(description="Accept a code fence around the whole output.")
    ] = False


def json_output(output: object, *, fences: bool) -> object:
    """Return the JSON value of an output; raise ValueError that says why it is not JSON."""
    text = text_of(output, "output")
    if not isinstance(output, str):
        check_depth(output)
        return output
    return parse_json(unfenced(text) if fences else text)


def _build(options: IsJsonOptions) -> ScoreFunction:
    def score(item: Scorable) -> Score:
        try:
            value = json_output(item.output, fences=options.fences)
        except ValueError as error:
            return scored(0.0, why=truncate(f"the output is not JSON: {error}"))
        if options.type != "any" and not isinstance(value, _TYPES[options.type]):
            return scored(0.0, why=f"the output is not an {options.type}")
        return scored(1.0)

    return score


SCORER = Scorer(
    name="is_json",
    summary="1 when the output is JSON (of the expected type), else 0; repeated keys are refused.",
    options=IsJsonOptions,
    build=_build,
    needs_target=False,
    known=(
        KnownScore(title="an object", output='{"a": 1}', expected=1.0),
        KnownScore(title="a number is JSON too", output="4", expected=1.0),
        KnownScore(title="prose is not", output="a: 1", expected=0.0),
        KnownScore(title="a repeated key", output='{"a": 1, "a": 2}', expected=0.0),
        KnownScore(title="NaN is not JSON", output="NaN", expected=0.0),
        KnownScore(
            title="an array is no object", output="[1]", options={"type": "object"}, expected=0.0
        ),
        KnownScore(title="a fence is text", output="```json\n{}\n```", expected=0.0),
        KnownScore(
            title="a fence on request",
            output="```json\n{}\n```",
            options={"fences": True, "type": "object"},
            expected=1.0,
        ),
        KnownScore(title="a value that was parsed before", output={"a": 1}, expected=1.0),
        KnownScore(title="no output", expected=None),
    ),
)
