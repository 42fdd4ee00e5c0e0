"""Scores that another tool gave, as they come with recorded samples."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from gatemark.core.errors import BadInputError
from gatemark.packs.answers import ItemKey
from gatemark.packs.suite_spec import ScorerSpec, SuiteSpec
from gatemark.samples.records import SampleOrigin
from gatemark.samples.score_direction import direction_of_name
from gatemark.samples.score_settings import find_other_settings
from gatemark.scorers.recorded import NAME as RECORDED_SCORER
from gatemark.scorers.scorer import Scorable

UNNAMED: Final = "a tool that it does not name"


class RecordedScores(msgspec.Struct, frozen=True):
    """The scores that came with an answer, and the tool that gave them."""

    scores: dict[str, float | None]
    origin: SampleOrigin | None = None

    @property
    def scored_by(self) -> str:
        """The tool that scored, for people."""
        return UNNAMED if self.origin is None else self.origin.name

    def sample(self) -> dict[str, object]:
        """Return what a scorer sees of it."""
        return {
            "scores": dict(self.scores),
            "lower_is_better": [score for score in self.scores if self._is_lower_better(score)],
        }

    def _is_lower_better(self, score: str) -> bool:
        """Whether the tool says so, or everybody by the name."""
        if self.origin is not None and score in self.origin.lower_is_better:
            return True
        is_said_higher = self.origin is not None and score in self.origin.higher_is_better
        return not is_said_higher and direction_of_name(score) == "lower"


def read_recorded_scores(
    rows: Iterable[Mapping[str, Any]], *, sealed: bool = False
) -> dict[ItemKey, RecordedScores]:
    """Return the scores of recorded samples by item and epoch.

    In ``sealed`` samples, the score named ``recorded`` was derived from the others; a log with a
    score of that name has it under another name.
    """
    found = {}
    for row in rows:
        scores = dict(row.get("scores") or {})
        taken = scores.pop(RECORDED_SCORER, None)
        if taken is not None and not sealed:
            scores[f"log.{RECORDED_SCORER}"] = taken
        found[row["id"], row["epoch"]] = RecordedScores(scores, read_origin(row))
    return found


def choose_recorded_score(suite: SuiteSpec, scores: Iterable[str]) -> str | None:
    """Return the score of a log that a suite takes: the named one, or the only one."""
    spec = suite.scorer
    named = spec.options.get("score") if isinstance(spec, ScorerSpec) else None
    if isinstance(named, str):
        return named
    found = sorted(set(scores))
    return found[0] if len(found) == 1 else None


def find_other_scoring(
    suites: Iterable[SuiteSpec], arms: Sequence[Callable[[str], Mapping[ItemKey, RecordedScores]]]
) -> str | None:
    """Return why recorded scores of the baseline and of the candidate cannot be compared, or None.

    Both arms give the recorded scores of a suite; an arm that has none was scored by Gatemark.
    """
    for suite in suites:
        if not suite.is_scored_by_log:
            continue
        sides = [tuple(arm(suite.id).values()) for arm in arms]
        score = choose_recorded_score(
            suite, (n for side in sides for one in side for n in one.scores)
        )
        origins = [{one.origin for one in side if one.origin is not None} for side in sides]
        if score is not None and all(sides):
            for reason in find_other_settings(score, *origins):
                return f"{suite.id}: {reason}"
    return None


def read_origin(row: Mapping[str, object]) -> SampleOrigin | None:
    """Return the log that a recorded sample comes from, or None."""
    found = row.get("origin")
    if found is None:
        return None
    try:
        return msgspec.convert(found, SampleOrigin)
    except msgspec.ValidationError as error:
        raise BadInputError(f"sample {row.get('id')!r}: origin: {error}") from error


def add_recorded_scores(item: Scorable, kept: RecordedScores | None) -> Scorable:
    """Return an item with the scores of its log, as the scorer ``recorded`` reads them."""
    if kept is None:
        return item
    return msgspec.structs.replace(item, sample={**item.sample, RECORDED_SCORER: kept.sample()})
