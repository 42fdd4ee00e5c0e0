"""Word overlap of an answer with the target, as used in question answering."""

from __future__ import annotations

from collections import Counter
from typing import Annotated

import msgspec

from gatemark.evidence.settings_file import about
from gatemark.scorers.normalised import NormalisedOptions as PlainForm
from gatemark.scorers.normalised import plain_form
from gatemark.scorers.scorer import (
    KnownScore,
    Scorable,
    Score,
    ScoreFunction,
    Scorer,
    scored,
    truncate,
)
from gatemark.scorers.set_f1 import f1


class TokenF1Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of the scorer."""

    articles: Annotated[bool, about("Whether English articles are ignored.")] = True
    punctuation: Annotated[bool, about("Whether punctuation is ignored.")] = True


def _build(options: TokenF1Options) -> ScoreFunction:
    form = PlainForm(articles=options.articles, punctuation=options.punctuation)

    def words(text: str) -> Counter[str]:
        return Counter(plain_form(text, form).split())

    def score(item: Scorable) -> Score:
        found = words(item.output_text())
        best, closest = -1.0, ""
        for target in item.target_texts():
            expected = words(target)
            value = f1((found & expected).total(), found.total(), expected.total())
            if value > best:
                best, closest = value, target
        return scored(best, closest_target=truncate(closest))

    return score


SCORER = Scorer(
    name="token_f1",
    summary="F1 over words after dropping case, punctuation and articles; best of several targets.",
    options=TokenF1Options,
    build=_build,
    known=(
        KnownScore(title="same words", target="the cat sat", output="Cat sat.", expected=1.0),
        KnownScore(
            title="2 shared of 3 and 4: 2*2/7",
            target="big red house roof",
            output="red house door",
            expected=4 / 7,
        ),
        KnownScore(
            title="a word counts as often as both have it: 2*2/(3+2)",
            target="no no",
            output="no no no",
            expected=0.8,
        ),
        KnownScore(title="best of two", target=["x y", "red door"], output="red", expected=2 / 3),
        KnownScore(title="nothing shared", target="red", output="blue", expected=0.0),
        KnownScore(title="empty output", target="red", output="", expected=0.0),
        KnownScore(title="both empty once articles go", target="the", output="a", expected=1.0),
        KnownScore(title="no target", output="red", expected=None),
    ),
)
