"""How many edits turn the output into the target, as a share of the longer text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, Literal

import msgspec

from gatemark.core.errors import BadInputError
from gatemark.scorers.scorer import (
    KnownScore,
    Scorable,
    Score,
    ScoreFunction,
    Scorer,
    scored,
    truncate,
)

MAX_LENGTH: Final = 20_000
"""Maximum length in characters or words; the work grows with the product of both lengths."""


class EditDistanceOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of the scorer."""

    unit: Annotated[
        Literal["character", "word"], msgspec.Meta(description="What one edit changes.")
    ] = "character"
    ignore_case: Annotated[bool, msgspec.Meta(description="Treat upper and lower case alike.")] = (
        False
    )
    at_least: Annotated[
        Annotated[float, msgspec.Meta(ge=0, le=1)] | None,
        msgspec.Meta(description="Similarity that counts as 1; below it the score is 0."),
    ] = None


def edit_distance(first: Sequence[str], second: Sequence[str]) -> int:
    """Return the Levenshtein distance: insertions, deletions and replacements.

    A column of the table is one integer with a bit per row (Myers 1999, Hyyrö 2001), so a step
    costs a few operations on long integers instead of one per cell.
    """
    if not first:
        return len(second)
    positions: dict[str, int] = {}
    for index, unit in enumerate(first):
        positions[unit] = positions.get(unit, 0) | 1 << index
    mask, last = (1 << len(first)) - 1, 1 << (len(first) - 1)
    plus, minus, distance = mask, 0, len(first)
    for unit in second:
        same = positions.get(unit, 0)
        diagonal = (((same & plus) + plus) ^ plus) | same | minus
        rises = minus | ~(diagonal | plus)
        falls = plus & diagonal
        distance += bool(rises & last) - bool(falls & last)
        rises, falls = (rises << 1) | 1, falls << 1
        plus = (falls | ~(diagonal | rises)) & mask
        minus = rises & diagonal & mask
    return distance


def _build(options: EditDistanceOptions) -> ScoreFunction:
    def units(text: str) -> Sequence[str]:
        folded = text.casefold() if options.ignore_case else text
        found = folded.split() if options.unit == "word" else folded
        if len(found) > MAX_LENGTH:
            raise BadInputError(
                f"edit_distance takes at most {MAX_LENGTH} {options.unit}s, got {len(found)}"
            )
        return found

    def score(item: Scorable) -> Score:
        output = units(item.output_text())
        best, closest = -1.0, ""
        for target in item.target_texts():
            expected = units(target)
            longer = max(len(output), len(expected))
            value = 1.0 if not longer else 1 - edit_distance(output, expected) / longer
            if value > best:
                best, closest = value, target
        value = best if options.at_least is None else float(best >= options.at_least)
        return scored(value, similarity=f"{best:.6g}", closest_target=truncate(closest))

    return score


SCORER = Scorer(
    name="edit_distance",
    summary="1 minus the Levenshtein distance over the longer length; best of several targets.",
    options=EditDistanceOptions,
    build=_build,
    known=(
        KnownScore(title="3 edits of 7", target="sitting", output="kitten", expected=4 / 7),
        KnownScore(title="equal", target="same", output="same", expected=1.0),
        KnownScore(title="nothing in common", target="abc", output="xyz", expected=0.0),
        KnownScore(
            title="1 word of 3",
            target="the red door",
            output="the blue door",
            options={"unit": "word"},
            expected=2 / 3,
        ),
        KnownScore(
            title="case on request",
            target="PARIS",
            output="paris",
            options={"ignore_case": True},
            expected=1.0,
        ),
        KnownScore(
            title="close enough",
            target="colour",
            output="color",
            options={"at_least": 0.8},
            expected=1.0,
        ),
        KnownScore(title="best of two", target=["abc", "abcd"], output="abcd", expected=1.0),
        KnownScore(title="both empty", target="", output="", expected=1.0),
        KnownScore(title="no target", output="x", expected=None),
    ),
)
