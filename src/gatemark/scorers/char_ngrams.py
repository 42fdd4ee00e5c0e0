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
from gatemark.scorers.scorer import (
    KnownScore,
    Scorable,
    Score,
    ScoreFunction,
    Scorer,
    scored,
    truncate,
)


class CharNgramsOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of the scorer."""

    n: Annotated[int, msgspec.Meta(ge=1, le=10, description="Number of characters of a piece.")] = 3
    at_least: Annotated[
        Annotated[float, msgspec.Meta(gt=0, le=1)] | None,
        msgspec.Meta(
            description="Similarity that counts as right; without it, it is the score itself."
        ),
    ] = None


def pieces(text: str, n: int) -> Counter[str]:
    """Return how often each run of ``n`` characters occurs, in lower case with single spaces."""
    clean = " ".join(text.casefold().split())
    if len(clean) < n:
        return Counter([clean] if clean else [])
    return Counter(clean[start : start + n] for start in range(len(clean) - n + 1))


def _cosine(first: Counter[str], second: Counter[str]) -> float:
    dot = sum(count * second[piece] for piece, count in first.items())
    squares = [sum(count * count for count in each.values()) for each in (first, second)]
    return dot / math.sqrt(squares[0] * squares[1])


def _build(options: CharNgramsOptions) -> ScoreFunction:
    def score(item: Scorable) -> Score:
        output = pieces(item.output_text(), options.n)
        best, closest = -1.0, ""
        for target in item.target_texts():
            expected = pieces(target, options.n)
            if not expected:
                raise BadInputError("target must not be blank")
            found = min(1.0, _cosine(output, expected)) if output else 0.0
            if found > best:
                best, closest = found, target
        value = best if options.at_least is None else float(best >= options.at_least)
        return scored(value, similarity=f"{best:.6f}", closest_target=truncate(closest))

    return score


SCORER = Scorer(
    name="char_ngrams",
    summary="Similarity of spelling: cosine of the counts of character n-grams; best target.",
    options=CharNgramsOptions,
    build=_build,
    known=(
        KnownScore(title="the same text", target="At  Noon", output="at noon", expected=1.0),
        KnownScore(title="abc and bcd: 1 of 2 pieces", target="abcd", output="bcde", expected=0.5),
        KnownScore(title="nothing in common", target="abc", output="xyz", expected=0.0),
        KnownScore(
            title="at least half",
            target="abcd",
            output="bcde",
            options={"at_least": 0.5},
            expected=1.0,
        ),
        KnownScore(title="an empty output", target="abc", output="", expected=0.0),
        KnownScore(title="a blank target", target=" ", output="abc", expected=None),
        KnownScore(title="no target", output="abc", expected=None),
    ),
)
