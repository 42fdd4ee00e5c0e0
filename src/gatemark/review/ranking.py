"""Ranking several arms of a review by Bradley and Terry's model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from gatemark.review.plan import ReviewPlan
from gatemark.review.unblind import OpenVote
from gatemark.statistics.bradley_terry import rank_sides
from gatemark.statistics.preference import Choice, majority


def rank_arms(plan: ReviewPlan, votes: Sequence[OpenVote], *, seed: int) -> dict[str, Any]:
    """All arms by strength; the votes on a pair count as one, by majority."""
    places = {arm: at for at, arm in enumerate(plan.arms)}
    items = {item: at for at, item in enumerate(sorted({vote.pair.item for vote in votes}))}
    by_pair: dict[int, list[OpenVote]] = {}
    for vote in votes:
        by_pair.setdefault(vote.number, []).append(vote)
    wins = np.zeros((len(items), len(places), len(places)))
    for cast in by_pair.values():
        pair = cast[0].pair
        left, right = (places[arm] for arm in pair.arms)
        choice: Choice = majority([vote.choice for vote in cast])
        share = {"candidate": 1.0, "tie": 0.5, "baseline": 0.0}[choice]
        wins[items[pair.item], left, right] += share
        wins[items[pair.item], right, left] += 1 - share
    ranking: dict[str, Any] = msgspec.to_builtins(rank_sides(plan.arms, wins, seed=seed))
    return ranking
