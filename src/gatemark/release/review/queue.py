"""Choose the next pair of a reviewer."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from gatemark.release.review.sealed_key import draw_order


class PairProgress(NamedTuple):
    """The progress of one pair: how many reviewers saw it, and how many voted."""

    number: int
    is_gold: bool
    shown_count: int = 0
    vote_count: int = 0


def next_number(
    key: bytes,
    reviewer: str,
    standings: Sequence[PairProgress],
    seen: Collection[int],
    *,
    votes_per_pair: int,
) -> int | None:
    """Return the next pair of a reviewer, or None if nothing is left.

    Gold pairs go to everyone, mixed with the others. A pair that enough reviewers are looking at
    comes after all others: one of them may never vote.
    """
    waiting = [
        pair
        for pair in standings
        if pair.number not in seen and (pair.is_gold or pair.vote_count < votes_per_pair)
    ]
    if not waiting:
        return None

    def rank(pair: PairProgress) -> tuple[bool, bytes]:
        is_handed_out = not pair.is_gold and pair.shown_count >= votes_per_pair
        return is_handed_out, draw_order(key, reviewer, pair.number)

    return min(waiting, key=rank).number


def next_to_arbitrate(
    key: bytes, arbiter: str, undecided: Collection[int], seen: Collection[int]
) -> int | None:
    """Return the next pair without a majority."""
    waiting = [number for number in undecided if number not in seen]
    return min(waiting, key=lambda number: draw_order(key, arbiter, number), default=None)


def is_complete(standings: Sequence[PairProgress], votes_per_pair: int) -> bool:
    """Return whether every pair has all its votes; gold pairs do not count."""
    return all(pair.is_gold or pair.vote_count >= votes_per_pair for pair in standings)


def count_missing(standings: Sequence[PairProgress], votes_per_pair: int) -> Mapping[str, int]:
    """Return the number of pairs that need more votes, and of pairs without any."""
    pairs = [pair for pair in standings if not pair.is_gold]
    return {
        "short": sum(pair.vote_count < votes_per_pair for pair in pairs),
        "without": sum(pair.vote_count == 0 for pair in pairs),
    }
