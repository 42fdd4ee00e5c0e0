"""Score each item by its own assertions: a list of scorers under the item's ``assert``."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from gatemark.core.canonical import digest
from gatemark.core.errors import BadInputError
from gatemark.scorers.combined import MAX_PARTS, PassRule, ScorerPart, prepare_part, score_parts
from gatemark.scorers.scorer import KnownScore, Scorable, Score, Scorer, scorers, with_options

ALLOWED: Final = (
    *("canary", "choice", "contains", "edit_distance", "exact", "is_json", "json_equal"),
    *("json_schema", "normalised", "numeric", "refusal", "regex", "rouge_l", "set_f1", "token_f1"),
)
"""Scorers that an item may name; the versions of all of them are part of the identity."""


class AssertionsOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of the scorer."""

    combine: PassRule = "mean"
    key: Annotated[
        str, msgspec.Meta(min_length=1, description="Key of the item that holds its assertions.")
    ] = "assert"


def _score(options: AssertionsOptions, item: Scorable) -> Score:
    given = item.sample.get(options.key)
    if not isinstance(given, list) or not 1 <= len(given) <= MAX_PARTS:
        raise BadInputError(
            f"the item needs a list of 1 to {MAX_PARTS} assertions under {options.key!r}"
        )
    try:
        parts = msgspec.convert(given, tuple[ScorerPart, ...])
    except msgspec.ValidationError as error:
        raise BadInputError(f"{options.key}: {error}") from error
    for part in parts:
        if part.scorer not in ALLOWED:
            raise BadInputError(
                f"{options.key}: {part.scorer!r} cannot be asserted (allowed: {', '.join(ALLOWED)})"
            )
    return score_parts([prepare_part(part) for part in parts], item, options.combine)


def _pin_parts(_options: AssertionsOptions) -> dict[str, str]:
    return {"parts": digest({name: str(scorers().get(name).version) for name in ALLOWED})}


_ITEM = {
    "assert": [
        {"scorer": "contains", "options": {"phrases": ["noon"]}, "weight": 3},
        {"scorer": "regex", "options": {"pattern": "^at"}},
    ]
}

SCORER = Scorer(
    name="assertions",
    summary="The assertions that each item carries: their weighted mean, or whether all pass.",
    options=AssertionsOptions,
    build=with_options(_score),
    needs_target=False,
    pins=_pin_parts,
    known=(
        KnownScore("both hold", 1.0, output="at noon", sample=_ITEM),
        KnownScore("3 of 4 by weight", 0.75, output="Noon", sample=_ITEM),
        KnownScore("all or nothing", 0.0, output="Noon", sample=_ITEM, options={"combine": "all"}),
        KnownScore(
            "a target of its own",
            1.0,
            target="5",
            output="4",
            sample={"assert": [{"scorer": "exact", "target": "4"}]},
        ),
        KnownScore(
            "an unknown option",
            None,
            output="4",
            sample={"assert": [{"scorer": "exact", "options": {"stripp": True}}]},
        ),
        KnownScore(
            "code is not asserted", None, output="4", sample={"assert": [{"scorer": "python"}]}
        ),
        KnownScore("no assertions", None, output="4"),
    ),
)
