"""Scores that another tool gave, as they come with recorded samples."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from gatemark.core.errors import BadInputError
from gatemark.packs.answers import ItemKey
from gatemark.samples.records import SampleOrigin
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
        inverted = {
            score: why
            for score in self.scores
            if self.origin is not None and (why := self.origin.inverted(score)) is not None
        }
        return {"scores": dict(self.scores), "inverted": inverted}


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
