"""Word overlap of an answer with the target, as used in question answering."""

from __future__ import annotations

from collections import Counter
from typing import Annotated

import msgspec

from gatemark.evidence.settings_file import about
from gatemark.scorers.normalised import NormalisedOptions as PlainForm
from gatemark.scorers.normalised import normalise
from gatemark.scorers.scorer import (
    KnownScore,
    Scorable,
    Score,
    ScoreFunction,
    Scorer,
    find_best_target,
    scored,
)
from gatemark.scorers.set_f1 import f1_score


class TokenF1Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of the scorer."""

    articles: Annotated[bool, about("Whether English articles are ignored.")] = True
    punctuation: Annotated[bool, about("Whether punctuation is ignored.")] = True


def _build(options: TokenF1Options) -> ScoreFunction:
    form = PlainForm(articles=options.articles, punctuation=options.punctuation)

    def words(text: str) -> Counter[str]:
        return Counter(normalise(text, form).split())

    def score(item: Scorable) -> Score:
        found = words(item.output_text())

        def similarity(target: str) -> float:
            expected = words(target)
            return f1_score((found & expected).total(), found.total(), expected.total())

        best, closest = find_best_target(item, similarity)
        return scored(best, closest_target=closest)

    return score


SCORER = Scorer(
    name="token_f1",
    summary="F1 over words after dropping case, punctuation and articles; best of several targets.",
    options=TokenF1Options,
    build=_build,
    known=(
        KnownScore("same words", 1.0, "the cat sat", "Cat sat."),
        KnownScore("2 shared of 3 and 4: 2*2/7", 4 / 7, "big red house roof", "red house door"),
        KnownScore("a word counts as often as both have it: 2*2/(3+2)", 0.8, "no no", "no no no"),
        KnownScore("best of two", 2 / 3, ["x y", "red door"], "red"),
        KnownScore("nothing shared", 0.0, "red", "blue"),
        KnownScore("empty output", 0.0, "red", ""),
        KnownScore("both empty once articles go", 1.0, "the", "a"),
        KnownScore("no target", None, output="red"),
    ),
)
