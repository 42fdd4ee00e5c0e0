"""ROUGE-L: the longest common subsequence of words, used for summaries."""

from __future__ import annotations

import re
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

MAX_WORDS: Final = 20_000
_WORD: Final = re.compile(r"[^\W_]+")


class RougeLOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of the scorer."""

    measure: Annotated[
        Literal["f1", "precision", "recall"],
        about("Share of both texts (f1), of the output, or of the target."),
    ] = "f1"


def measure_common_length(first: Sequence[str], second: Sequence[str]) -> int:
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


def _split_words(text: str) -> list[str]:
    words = _WORD.findall(text.casefold())
    if len(words) > MAX_WORDS:
        raise BadInputError(f"rouge_l takes at most {MAX_WORDS} words, got {len(words)}")
    return words


def _score(options: RougeLOptions, item: Scorable) -> Score:
    output = _split_words(item.output_text())

    def similarity(text: str) -> float:
        target = _split_words(text)
        if not target:
            raise BadInputError("target must hold at least one word")
        shared = measure_common_length(output, target)
        match options.measure:
            case "precision":
                return shared / len(output) if output else 0.0
            case "recall":
                return shared / len(target)
            case "f1":
                return 2 * shared / (len(output) + len(target))

    best, closest = find_best_target(item, similarity)
    return scored(best, closest_target=closest)


SCORER = Scorer(
    name="rouge_l",
    summary="ROUGE-L: the longest common subsequence of words, without stemming; best target.",
    options=RougeLOptions,
    build=with_options(_score),
    known=(
        KnownScore(
            "3 of 4 and 4 words: 2*3/8", 0.75, "police killed the gunman", "police kill the gunman"
        ),
        KnownScore(
            "order counts: 2*2/8", 0.5, "police killed the gunman", "the gunman kill police"
        ),
        KnownScore(
            "recall: 2 of 4", 0.5, "one two three four", "one two", options={"measure": "recall"}
        ),
        KnownScore(
            "precision: 2 of 2",
            1.0,
            target="one two three four",
            output="One, two!",
            options={"measure": "precision"},
        ),
        KnownScore("an empty output", 0.0, "one", ""),
        KnownScore("a target without words", None, "...", "one"),
        KnownScore("no target", None, output="one"),
    ),
)
