"""Equal to the target, character for character."""

from __future__ import annotations

from typing import Annotated

import msgspec

from gatemark.evidence.settings_file import about
from gatemark.scorers.scorer import KnownScore, Scorable, Score, ScoreFunction, Scorer, scored


class ExactOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of the scorer."""

    strip: Annotated[bool, about("Whether blanks at both ends are ignored.")] = True


def _build(options: ExactOptions) -> ScoreFunction:
    def score(item: Scorable) -> Score:
        output, targets = item.output_text(), item.target_texts()
        if options.strip:
            output, targets = output.strip(), tuple(target.strip() for target in targets)
        return scored(output in targets)

    return score


SCORER = Scorer(
    name="exact",
    summary="1 when the output equals the target (or any of a list of targets), else 0.",
    options=ExactOptions,
    build=_build,
    known=(
        KnownScore(title="equal text", target="Paris", output="Paris", expected=1.0),
        KnownScore(title="case counts", target="Paris", output="paris", expected=0.0),
        KnownScore(title="outer space does not", target="Paris", output=" Paris\n", expected=1.0),
        KnownScore(
            title="unless asked to",
            target="Paris",
            output=" Paris",
            options={"strip": False},
            expected=0.0,
        ),
        KnownScore(title="any of two", target=["4", "four"], output="four", expected=1.0),
        KnownScore(title="a number by its JSON form", target=4, output="4", expected=1.0),
        KnownScore(title="no accepted answer at all", target=[], output="x", expected=None),
        KnownScore(title="no target", output="x", expected=None),
        KnownScore(title="no output", target="x", expected=None),
        KnownScore(
            title="an errored sample is not a wrong one",
            target="x",
            output="y",
            sample={"error": {"kind": "timeout", "message": "30 s"}},
            expected=None,
        ),
    ),
)
