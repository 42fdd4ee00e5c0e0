"""The score that another tool gave to an answer, read from the candidate's own log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Final, Literal

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
    """Options of the scorer: which score to use, if a log has several, and its direction."""

    score: Annotated[
        str | None, about("Score of the log to take; needed where it has several.")
    ] = None
    direction: Annotated[
        Literal["higher", "lower"] | None,
        about("Which scores are better; needed where neither the log nor the name tells."),
    ] = None


def _score(options: RecordedOptions, item: Scorable) -> Score:
    kept = item.sample.get(NAME)
    scores = _read_scores(kept)
    name = options.score or _get_only_name(scores)
    lower = kept.get("lower_is_better") if isinstance(kept, Mapping) else None
    if options.direction is None and isinstance(lower, Sequence) and name in lower:
        return unscored(
            f"{truncate(name)} is better when lower; state direction: lower in the options of the "
            "scorer to judge 1 minus this score"
        )
    if name not in scores:
        listed = ", ".join(sorted(scores)) or "none"
        return unscored(f"the log has no score {truncate(name)} here (scores: {listed})")
    value = scores[name]
    if not isinstance(value, int | float) or isinstance(value, bool):
        return unscored(f"the log has no number for {truncate(name)}")
    if not 0 <= value <= 1:
        return unscored(f"{truncate(name)} must be in [0, 1], the log says {value}")
    return scored(1 - value if options.direction == "lower" else float(value), score=name)


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
        KnownScore(
            "a score that is better when lower",
            0.75,
            sample={NAME: {"scores": {"toxicity": 0.25}, "lower_is_better": ["toxicity"]}},
            options={"direction": "lower"},
        ),
        KnownScore(
            "a score that is better when lower, and nobody says what to do",
            None,
            sample={NAME: {"scores": {"toxicity": 0.25}, "lower_is_better": ["toxicity"]}},
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
