"""Several weighted scorers on one output; ``assertions`` does the same with each item's list."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal, NamedTuple

import msgspec

from gatemark.core.canonical import digest
from gatemark.core.errors import BadInputError, UsageError
from gatemark.evidence.settings_file import about
from gatemark.scorers.scorer import (
    KnownScore,
    Scorable,
    Score,
    ScoreFunction,
    Scorer,
    scorers,
    truncate,
    unscored,
)

NAME: Final = "combined"
MAX_PARTS: Final = 50
_NEVER: Final = ("combined", "assertions", "judge", "embedding")

PassRule = Annotated[
    Literal["mean", "all", "any"],
    about("Weighted mean of the parts, or 1 when all (any) of them reach at_least."),
]


class ScorerPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One of several scorers."""

    scorer: Annotated[str, about("Name of the scorer.")]
    options: Annotated[dict[str, Any], about("Options of the scorer.")] = {}
    weight: Annotated[float, msgspec.Meta(gt=0, le=1000, description="Share in the mean.")] = 1.0
    at_least: Annotated[
        float, msgspec.Meta(gt=0, le=1, description="Score of this part that counts as passed.")
    ] = 1.0
    target: Annotated[Any, about("Target of this part instead of the item's.")] = None


class CombinedOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of the scorer."""

    scorers: Annotated[
        tuple[ScorerPart, ...],
        msgspec.Meta(min_length=1, max_length=MAX_PARTS, description="The scorers to combine."),
    ]
    combine: PassRule = "mean"


class ReadyPart(NamedTuple):
    """A part with the function that scores it."""

    part: ScorerPart
    score: ScoreFunction


def prepare_part(part: ScorerPart) -> ReadyPart:
    """Return a part ready to score; refuse scorers that need more than the item."""
    if part.scorer in _NEVER:
        raise BadInputError(f"{part.scorer} cannot be one of several scorers")
    try:
        scorer = scorers().get(part.scorer)
    except UsageError as error:
        raise BadInputError(str(error)) from error
    if scorer.places:
        raise BadInputError(
            f"{part.scorer} cannot be one of several scorers: it lives in the pack's folder"
        )
    return ReadyPart(part, scorer.ready(scorer.options_from(part.options)))


def score_parts(parts: Sequence[ReadyPart], item: Scorable, combine: str) -> Score:
    """Return one score for several parts; None if a part cannot be scored."""
    total = 0.0
    values: list[float] = []
    passed: list[bool] = []
    detail: dict[str, str] = {}
    for number, (part, score) in enumerate(parts, start=1):
        own = item if part.target is None else msgspec.structs.replace(item, target=part.target)
        found = score(own)
        name = f"{number} {part.scorer}"
        if found.value is None:
            return unscored(f"{part.scorer}: {found.reason}", **detail)
        why = "".join(f" ({key}: {value})" for key, value in found.detail.items())
        detail[name] = truncate(f"{found.value:.6g}{why}")
        total += part.weight * found.value
        values.append(found.value)
        passed.append(found.value >= part.at_least)
    match combine:
        case "all":
            value = float(all(passed))
        case "any":
            value = float(any(passed))
        case _:
            value = min(1.0, total / sum(part.weight for part, _ in parts))
    names = name_parts([part.scorer for part, _ in parts])
    return Score(value, detail=detail, parts=dict(zip(names, values, strict=True)))


def name_parts(chosen: Sequence[str]) -> list[str]:
    """Return the name of each part for rules: its scorer, with a number from the second on."""
    names: list[str] = []
    for place, scorer in enumerate(chosen):
        count = chosen[: place + 1].count(scorer)
        names.append(scorer if count == 1 else f"{scorer}_{count}")
    return names


def _build(options: CombinedOptions) -> ScoreFunction:
    parts = [prepare_part(part) for part in options.scorers]
    return lambda item: score_parts(parts, item, options.combine)


def _pin_parts(options: CombinedOptions) -> dict[str, str]:
    """Return the identity of each part: its version, and the files its options point to."""
    identities = []
    for part in options.scorers:
        scorer = scorers().get(part.scorer)
        identities.append(scorer.identity(scorer.options_from(part.options)))
    return {"parts": digest(identities)}


_BOTH: Final[list[dict[str, object]]] = [
    {"scorer": "contains", "options": {"phrases": ["noon"]}},
    {"scorer": "is_json"},
]

SCORER = Scorer(
    name=NAME,
    summary="Several scorers on one output: their weighted mean, or whether all (any) pass.",
    options=CombinedOptions,
    build=_build,
    needs_target=False,
    pins=_pin_parts,
    known=(
        KnownScore("the mean of two", 0.5, output="at noon", options={"scorers": _BOTH}),
        KnownScore(
            "3 of 4 by weight",
            0.75,
            output="at noon",
            options={"scorers": [{**_BOTH[0], "weight": 3}, _BOTH[1]]},
        ),
        KnownScore(
            "all must pass", 0.0, output="at noon", options={"scorers": _BOTH, "combine": "all"}
        ),
        KnownScore(
            "any may pass", 1.0, output="at noon", options={"scorers": _BOTH, "combine": "any"}
        ),
        KnownScore(
            "a part that cannot be scored leaves the whole open",
            None,
            output="at noon",
            options={"scorers": [*_BOTH, {"scorer": "exact"}]},
        ),
        KnownScore(
            "a graded part passes from at_least on",
            1.0,
            target="big red house roof",
            output="red house door",
            options={
                "scorers": [{"scorer": "token_f1", "at_least": 0.5}],
                "combine": "all",
            },
        ),
    ),
)
