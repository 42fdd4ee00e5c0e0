"""Equal to the target, character for character."""

from __future__ import annotations

from typing import Annotated

import msgspec

from gatemark.evidence.settings_file import about
from gatemark.scorers.scorer import KnownScore, Scorable, Score, Scorer, scored, with_options


class ExactOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of the scorer."""

    strip: Annotated[bool, about("Whether blanks at both ends are ignored.")] = True


def _score(options: ExactOptions, item: Scorable) -> Score:
    output, targets = item.output_text(), item.target_texts()
    if options.strip:
        output, targets = output.strip(), tuple(target.strip() for target in targets)
    return scored(output in targets)


SCORER = Scorer(
    name="exact",
    summary="1 when the output equals the target (or any of a list of targets), else 0.",
    options=ExactOptions,
    build=with_options(_score),
    known=(
        KnownScore("equal text", 1.0, "Paris", "Paris"),
        KnownScore("case counts", 0.0, "Paris", "paris"),
        KnownScore("outer space does not", 1.0, "Paris", " Paris\n"),
        KnownScore("unless asked to", 0.0, "Paris", " Paris", options={"strip": False}),
        KnownScore("any of two", 1.0, ["4", "four"], "four"),
        KnownScore("a number by its JSON form", 1.0, 4, "4"),
        KnownScore("no accepted answer at all", None, [], "x"),
        KnownScore("no target", None, output="x"),
        KnownScore("no output", None, "x"),
        KnownScore(
            "an errored sample is not a wrong one",
            None,
            target="x",
            output="y",
            sample={"error": {"kind": "timeout", "message": "30 s"}},
        ),
    ),
)
