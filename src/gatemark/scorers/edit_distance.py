"""How many edits turn the output into the target, as a share of the longer text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, Literal

import msgspec

from gatemark.core.errors import BadInputError
from gatemark.evidence.settings_file import about
from gatemark.scorers.scorer import (
    KnownScore,
    Scorable,
    Score,
    Scorer,
    find_best_target,
    scored,
    with_options,
)

MAX_LENGTH: Final = 20_000
"""Maximum length in characters or words; the work grows with the product of both lengths."""


class EditDistanceOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of the scorer."""

    unit: Annotated[Literal["character", "word"], about("What one edit changes.")] = "character"
    ignore_case: Annotated[bool, about("Treat upper and lower case alike.")] = False
    at_least: Annotated[
        Annotated[float, msgspec.Meta(ge=0, le=1)] | None,
        about("Similarity that counts as 1; below it the score is 0."),
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


def _split_units(text: str, options: EditDistanceOptions) -> Sequence[str]:
    folded = text.casefold() if options.ignore_case else text
    found = folded.split() if options.unit == "word" else folded
    if len(found) > MAX_LENGTH:
        raise BadInputError(
            f"edit_distance takes at most {MAX_LENGTH} {options.unit}s, got {len(found)}"
        )
    return found


def _score(options: EditDistanceOptions, item: Scorable) -> Score:
    output = _split_units(item.output_text(), options)

    def similarity(target: str) -> float:
        expected = _split_units(target, options)
        longer = max(len(output), len(expected))
        return 1.0 if not longer else 1 - edit_distance(output, expected) / longer

    best, closest = find_best_target(item, similarity)
    value = best if options.at_least is None else float(best >= options.at_least)
    return scored(value, similarity=f"{best:.6g}", closest_target=closest)


SCORER = Scorer(
    name="edit_distance",
    summary="1 minus the Levenshtein distance over the longer length; best of several targets.",
    options=EditDistanceOptions,
    build=with_options(_score),
    known=(
        KnownScore("3 edits of 7", 4 / 7, "sitting", "kitten"),
        KnownScore("equal", 1.0, "same", "same"),
        KnownScore("nothing in common", 0.0, "abc", "xyz"),
        KnownScore("1 word of 3", 2 / 3, "the red door", "the blue door", options={"unit": "word"}),
        KnownScore("case on request", 1.0, "PARIS", "paris", options={"ignore_case": True}),
        KnownScore("close enough", 1.0, "colour", "color", options={"at_least": 0.8}),
        KnownScore("best of two", 1.0, ["abc", "abcd"], "abcd"),
        KnownScore("both empty", 1.0, "", ""),
        KnownScore("no target", None, output="x"),
    ),
)
