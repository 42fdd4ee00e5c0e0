"""ROUGE-L: the longest common subsequence of words, used for summaries."""

from __future__ import annotations

import re
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

MAX_WORDS: Final = 20_000
_WORD: Final = re.compile(r"[^\W_]+")


class RougeLOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of the scorer."""

    measure: Annotated[
        Literal["f1", "precision", "recall"],
        msgspec.Meta(description="Share of both texts (f1), of the output, or of the target."),
    ] = "f1"


def common_length(first: Sequence[str], second: Sequence[str]) -> int:
    """Return the length of the longest common subsequence.

    A row of the table is one integer with a bit per word (Allison and Dix 1986).
    """
    positions: dict[str, int] = {}
    for index, word in enumerate(first):
        positions[word] = positions.get(word, 0) | 1 << index
    row = 0
    for word in second:
        candidates = row | positions.get(word, 0)
        row = candidates & (candidates ^ (candidates - ((row << 1) | 1)))
    return row.bit_count()


def _words(text: str) -> list[str]:
    words = _WORD.findall(text.casefold())
    if len(words) > MAX_WORDS:
        raise BadInputError(f"rouge_l takes at most {MAX_WORDS} words, got {len(words)}")
    return words


def _build(options: RougeLOptions) -> ScoreFunction:
    def value_of(output: Sequence[str], target: Sequence[str]) -> float:
        shared = common_length(output, target)
        match options.measure:
            case "precision":
                return shared / len(output) if output else 0.0
            case "recall":
                return shared / len(target)
            case "f1":
                return 2 * shared / (len(output) + len(target))

    def score(item: Scorable) -> Score:
        output = _words(item.output_text())
        best, closest = -1.0, ""
        for target in item.target_texts():
            expected = _words(target)
            if not expected:
                raise BadInputError("target must hold at least one word")
            value = value_of(output, expected)
            if value > best:
                best, closest = value, target
        return scored(best, closest_target=truncate(closest))

    return score


SCORER = Scorer(
    name="rouge_l",
    summary="ROUGE-L: the longest common subsequence of words, without stemming; best target.",
    options=RougeLOptions,
    build=_build,
    known=(
        KnownScore(
            title="3 of 4 and 4 words: 2*3/8",
            target="police killed the gunman",
            output="police kill the gunman",
            expected=0.75,
        ),
        KnownScore(
            title="order counts: 2*2/8",
            target="police killed the gunman",
            output="the gunman kill police",
            expected=0.5,
        ),
        KnownScore(
            title="recall: 2 of 4",
            target="one two three four",
            output="one two",
            options={"measure": "recall"},
            expected=0.5,
        ),
        KnownScore(
            title="precision: 2 of 2",
            target="one two three four",
            output="One, two!",
            options={"measure": "precision"},
            expected=1.0,
        ),
        KnownScore(title="an empty output", target="one", output="", expected=0.0),
        KnownScore(title="a target without words", target="...", output="one", expected=None),
        KnownScore(title="no target", output="one", expected=None),
    ),
)
