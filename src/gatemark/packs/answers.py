"""One answer of an arm to one item: its score, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import msgspec

from gatemark.evidence.rows import Row
from gatemark.scorers.scorer import Score
from gatemark.targets.outcomes import CallOutcome
from gatemark.targets.port import CallError
from gatemark.targets.token_counts import count_tokens


class Answer(msgspec.Struct, frozen=True):
    """One answer to one item: a score, or the reason why there is none."""

    id: str
    epoch: int
    output: object
    score: float | None
    reason: str | None
    error: str | None = None
    confidence: float | None = None
    latency_ms: float | None = None
    cluster: str | None = None
    tags: dict[str, str] = {}
    scored_by: str | None = None
    """The tool that gave the score, if it was not Gatemark."""
    cost: float | None = None
    tokens: int | None = None
    parts: dict[str, float] = {}
    """The part scores that a combined score is made of."""
    answered_at: datetime | None = None


ItemKey = tuple[str, int]
"""An item and its epoch."""
SuiteAnswers = Mapping[str, tuple[Answer, ...]]
"""The answers of one arm, by suite."""


def make_unjudged_answer(row: Row, outcome: CallOutcome, why: CallError) -> Answer:
    """Return an answer whose judge could not be called."""
    return Answer(
        id=row.id,
        epoch=outcome.epoch,
        output=None if outcome.reply is None else outcome.reply.output,
        score=None,
        reason=f"the model that grades could not be asked: {why.message}",
        error=why.kind,
        answered_at=None if outcome.reply is None else outcome.reply.answered_at,
        cluster=row.cluster,
        tags=row.tags,
    )


def make_scored_answer(
    row: Row, outcome: CallOutcome, found: Score | None, *, scored_by: str | None, has_parts: bool
) -> Answer:
    """Return an answer with its score; an answer without a reply has the error instead.

    ``scored_by`` is the tool that scored, if it was not Gatemark.
    """
    if outcome.reply is None or found is None:
        error = outcome.error
        kind, message = (error.kind, error.message) if error else ("missing", "no reply")
        return Answer(
            id=row.id,
            epoch=outcome.epoch,
            output=None,
            score=None,
            reason=message,
            error=kind,
            cluster=row.cluster,
            tags=row.tags,
        )
    reply = outcome.reply
    return Answer(
        id=row.id,
        epoch=outcome.epoch,
        output=reply.output,
        score=found.value,
        reason=found.reason,
        confidence=reply.confidence,
        latency_ms=reply.latency_ms,
        cluster=row.cluster,
        tags=row.tags,
        scored_by=None if found.value is None else scored_by,
        cost=reply.cost,
        tokens=count_tokens(reply.usage),
        parts=found.parts if has_parts else {},
        answered_at=reply.answered_at,
    )
