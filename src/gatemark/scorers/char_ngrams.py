"""Similarity of spelling: cosine similarity of the character n-gram counts of two texts.

It needs no model and calls nothing. It does not know meaning: synonyms are as far apart as any two
words.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Annotated

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


class CharNgramsOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of the scorer."""

    n: Annotated[int, msgspec.Meta(ge=1, le=10, description="Number of characters of a piece.")] = 3
    at_least: Annotated[
        Annotated[float, msgspec.Meta(gt=0, le=1)] | None,
        about("Similarity that counts as right; without it, it is the score itself."),
    ] = None


def count_ngrams(text: str, n: int) -> Counter[str]:
    """Return how often each run of ``n`` characters occurs, in lower case with single spaces."""
    clean = " ".join(text.casefold().split())
    if len(clean) < n:
        return Counter([clean] if clean else [])
    return Counter(clean[start : start + n] for start in range(len(clean) - n + 1))


def _compute_cosine(first: Counter[str], second: Counter[str]) -> float:
    dot = sum(count * second[piece] for piece, count in first.items())
    squares = [sum(count * count for count in each.values()) for each in (first, second)]
    return dot / math.sqrt(squares[0] * squares[1])


def _score(options: CharNgramsOptions, item: Scorable) -> Score:
    output = count_ngrams(item.output_text(), options.n)

    def similarity(target: str) -> float:
        expected = count_ngrams(target, options.n)
        if not expected:
            raise BadInputError("target must not be blank")
        return min(1.0, _compute_cosine(output, expected)) if output else 0.0

    best, closest = find_best_target(item, similarity)
    value = best if options.at_least is None else float(best >= options.at_least)
    return scored(value, similarity=f"{best:.6f}", closest_target=closest)


SCORER = Scorer(
    name="char_ngrams",
    summary="Similarity of spelling: cosine of the counts of character n-grams; best target.",
    options=CharNgramsOptions,
    build=with_options(_score),
    known=(
        KnownScore("the same text", 1.0, "At  Noon", "at noon"),
        KnownScore("abc and bcd: 1 of 2 pieces", 0.5, "abcd", "bcde"),
        KnownScore("nothing in common", 0.0, "abc", "xyz"),
        KnownScore("at least half", 1.0, "abcd", "bcde", options={"at_least": 0.5}),
        KnownScore("an empty output", 0.0, "abc", ""),
        KnownScore("a blank target", None, " ", "abc"),
        KnownScore("no target", None, output="abc"),
    ),
)
