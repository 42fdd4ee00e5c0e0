"""The scorer ``starts_with``: whether the output begins with the target."""

from __future__ import annotations

import msgspec

from gatemark.scorers.scorer import KnownScore, Scorable, Score, ScoreFunction, Scorer, scored


class StartsWithOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of the scorer."""

    ignore_case: bool = True


def _build(options: StartsWithOptions) -> ScoreFunction:
    def fold(text: str) -> str:
        return text.strip().casefold() if options.ignore_case else text.strip()

    def score(item: Scorable) -> Score:
        output = fold(item.output_text())
        return scored(any(output.startswith(fold(target)) for target in item.target_texts()))

    return score


SCORER = Scorer(
    name="starts_with",
    summary="1 when the output begins with the target, else 0.",
    options=StartsWithOptions,
    build=_build,
    known=(
        KnownScore(title="begins with it", target="yes", output="Yes, at 9.", expected=1.0),
        KnownScore(title="holds it later", target="yes", output="Oh yes.", expected=0.0),
        KnownScore(title="no output", target="yes", expected=None),
    ),
)
