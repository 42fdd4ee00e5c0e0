"""The scores of items: all repeats of an item together, and items that both arms answered."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from gatemark.packs.answers import Answer


class ItemScore(NamedTuple):
    """One item over all its repeats; ``mean`` also counts repeats without a score."""

    mean: float
    repeats: int
    scored: int
    right: int
    confidence: float | None
    cluster: str | None
    tags: tuple[Mapping[str, str], ...]

    @property
    def whole(self) -> bool:
        """Whether every repeat has a score."""
        return self.scored == self.repeats


def score_items(answers: Iterable[Answer], *, unscored_as: float = 0.0) -> dict[str, ItemScore]:
    """Return answers grouped by item, in the order of the ids.

    A repeat without a score counts as 0, or as ``unscored_as``.
    """
    gathered: dict[str, list[Answer]] = {}
    for answer in answers:
        gathered.setdefault(answer.id, []).append(answer)
    return {name: _score_item(gathered[name], unscored_as) for name in sorted(gathered)}


def score_baseline_items(answers: Iterable[Answer] | None) -> dict[str, ItemScore]:
    """Return a baseline's answers by item; a missing score counts as right.

    Otherwise a baseline that crashes would be easy to beat: missing data about it may only make the
    comparison stricter.
    """
    return score_items(answers or (), unscored_as=1.0)


def _score_item(repeats: list[Answer], unscored_as: float) -> ItemScore:
    if len(repeats) == 1:  # most packs ask once; the sums below give the same in twice the time
        only = repeats[0]
        score, sure = only.score, only.confidence
        return ItemScore(
            mean=float(unscored_as if score is None else score),
            repeats=1,
            scored=int(score is not None),
            right=int(score == 1.0),
            confidence=None if sure is None else float(sure),
            cluster=only.cluster,
            tags=(only.tags,),
        )
    scores = [answer.score for answer in repeats if answer.score is not None]
    confidences = [answer.confidence for answer in repeats if answer.confidence is not None]
    return ItemScore(
        mean=(sum(scores) + unscored_as * (len(repeats) - len(scores))) / len(repeats),
        repeats=len(repeats),
        scored=len(scores),
        right=sum(score == 1.0 for score in scores),
        confidence=sum(confidences) / len(confidences) if confidences else None,
        cluster=repeats[0].cluster,
        tags=_list_tags(repeats),
    )


def _list_tags(repeats: Sequence[Answer]) -> tuple[Mapping[str, str], ...]:
    """Return the different tags of an item's copies, so that no slice loses it."""
    found: list[Mapping[str, str]] = []
    for answer in repeats:
        if answer.tags not in found:
            found.append(answer.tags)
    return tuple(found)


class AnswerPair(NamedTuple):
    """One item answered by both arms."""

    id: str
    candidate: ItemScore
    baseline: ItemScore


def pair_items(
    candidate: Mapping[str, ItemScore], baseline: Mapping[str, ItemScore]
) -> tuple[AnswerPair, ...]:
    """Return the items that both arms answered, sorted by id."""
    return tuple(
        AnswerPair(name, candidate[name], baseline[name])
        for name in sorted(candidate)
        if name in baseline
    )
