"""The score that another tool gave to an answer, read from the candidate's own log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final

import msgspec

from gatemark.core.errors import BadInputError
from gatemark.evidence.settings_file import about
from gatemark.scorers.scorer import (
    KnownScore,
    Scorable,
    Score,
    Scorer,
    scored,
    truncate,
    unscored,
    with_options,
)

NAME: Final = "recorded"
"""The scorer, and the key of a sample under which it finds the scores of the log."""


class RecordedOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of the scorer: which score to use, if a log has several."""

    score: Annotated[
        str | None, about("Score of the log to take; needed where it has several.")
    ] = None


def _score(options: RecordedOptions, item: Scorable) -> Score:
    kept = item.sample.get(NAME)
    scores = _read_scores(kept)
    name = options.score or _get_only_name(scores)
    inverted = kept.get("inverted") if isinstance(kept, Mapping) else None
    if isinstance(inverted, Mapping) and name in inverted:
        return unscored(str(inverted[name]))
    if name not in scores:
        listed = ", ".join(sorted(scores)) or "none"
        return unscored(f"the log has no score {truncate(name)} here (scores: {listed})")
    value = scores[name]
    if not isinstance(value, int | float) or isinstance(value, bool):
        return unscored(f"the log has no number for {truncate(name)}")
    if not 0 <= value <= 1:
        return unscored(f"{truncate(name)} must be in [0, 1], the log says {value}")
    return scored(float(value), score=name)


def _read_scores(kept: object) -> Mapping[str, object]:
    """Return the scores recorded with the answer; a live target has none."""
    scores = kept.get("scores") if isinstance(kept, Mapping) else None
    if not isinstance(scores, Mapping):
        raise BadInputError(
            "no score was recorded with this answer: the scorer 'recorded' reads a log, "
            "as in targets: {candidate: {recorded: log.json}}"
        )
    return scores


def _get_only_name(scores: Mapping[str, object]) -> str:
    if len(scores) != 1:
        listed = ", ".join(sorted(scores)) or "none"
        raise BadInputError(
            "name a score, as in scorer: {name: recorded, options: {score: NAME}} "
            f"(scores: {listed})"
        )
    return next(iter(scores))


SCORER = Scorer(
    name=NAME,
    summary="The score that another tool recorded with the answer; the result says which tool.",
    options=RecordedOptions,
    build=with_options(_score),
    needs_target=False,
    needs_output=False,
    known=(
        KnownScore("one score", 1.0, sample={NAME: {"scores": {"exact": 1}}}),
        KnownScore(
            "the named one of two",
            0.25,
            sample={NAME: {"scores": {"exact": 1, "style": 0.25}}},
            options={"score": "style"},
        ),
        KnownScore(
            "two scores and no name", None, sample={NAME: {"scores": {"exact": 1, "style": 0.25}}}
        ),
        KnownScore(
            "no such score",
            None,
            sample={NAME: {"scores": {"exact": 1}}},
            options={"score": "style"},
        ),
        KnownScore("no number", None, sample={NAME: {"scores": {"exact": None}}}),
        KnownScore("true is no number", None, sample={NAME: {"scores": {"a": True}}}),
        KnownScore("outside [0, 1]", None, sample={NAME: {"scores": {"stars": 4}}}),
        KnownScore("nothing recorded", None, "x", "x"),
        KnownScore(
            "an errored sample is not a wrong one",
            None,
            sample={NAME: {"scores": {"a": 1}}, "error": {"kind": "timeout", "message": "30 s"}},
        ),
    ),
)
