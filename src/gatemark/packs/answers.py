"""Scored answers, and the plain bookkeeping over them: per item, per arm, in pairs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec


class Answer(msgspec.Struct, frozen=True):
    """One item answered once: a score, or the reason why there is none."""

    id: str
    epoch: int
    output: Any
    score: float | None
    reason: str | None
    error: str | None = None
    confidence: float | None = None
    latency_ms: float | None = None
    cluster: str | None = None
    tags: dict[str, str] = {}


class ItemScore(NamedTuple):
    """One item over all its repeats; ``mean`` counts those without a score as the arm deserves."""

    mean: float
    repeats: int
    scored: int
    right: int
    confidence: float | None
    cluster: str | None
    tags: Mapping[str, str]

    @property
    def whole(self) -> bool:
        """Whether every repeat got a score."""
        return self.scored == self.repeats


def per_item(answers: Iterable[Answer], *, unscored_as: float = 0.0) -> dict[str, ItemScore]:
    """Answers gathered under their item, in the order of the ids.

    A repeat without a score counts as nothing achieved, or as ``unscored_as``.
    """
    gathered: dict[str, list[Answer]] = {}
    for answer in answers:
        gathered.setdefault(answer.id, []).append(answer)
    return {name: _item_score(gathered[name], unscored_as) for name in sorted(gathered)}


def baseline_per_item(answers: Iterable[Answer] | None) -> dict[str, ItemScore]:
    """A baseline's answers by item. What it lost counts as right.

    Otherwise a baseline that crashes would look easy to replace: losing what is known about it
    may only make the comparison stricter.
    """
    return per_item(answers or (), unscored_as=1.0)


def _item_score(repeats: list[Answer], unscored_as: float) -> ItemScore:
    scores = [answer.score for answer in repeats if answer.score is not None]
    confidences = [answer.confidence for answer in repeats if answer.confidence is not None]
    return ItemScore(
        mean=(sum(scores) + unscored_as * (len(repeats) - len(scores))) / len(repeats),
        repeats=len(repeats),
        scored=len(scores),
        right=sum(score == 1.0 for score in scores),
        confidence=sum(confidences) / len(confidences) if confidences else None,
        cluster=repeats[0].cluster,
        tags=repeats[0].tags,
    )


class AnswerPair(NamedTuple):
    """One item on both arms."""

    id: str
    candidate: ItemScore
    baseline: ItemScore


def paired(
    candidate: Mapping[str, ItemScore], baseline: Mapping[str, ItemScore]
) -> tuple[AnswerPair, ...]:
    """The items that both arms answered, in the order of their ids."""
    return tuple(
        AnswerPair(name, candidate[name], baseline[name])
        for name in sorted(candidate)
        if name in baseline
    )
