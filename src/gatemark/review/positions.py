"""Which arm a pair shows first: drawn from the key, balanced for each reviewer.

Positions come in blocks of two, one each way. Gold pairs have blocks of their own: they would
otherwise take places out of the blocks of the pairs that count.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple, Protocol

from gatemark.review.sealed_key import coin


class SeenPair(Protocol):
    """A pair that a reviewer was shown, the ``ordinal``-th of theirs."""

    @property
    def reviewer(self) -> str: ...

    @property
    def ordinal(self) -> int: ...

    @property
    def number(self) -> int: ...


class PairPosition(NamedTuple):
    """The how-many-eth of a reviewer's gold pairs, or of their others, a pair is; from 1."""

    reviewer: str
    number: int
    is_gold: bool


def places(seen: Iterable[SeenPair], gold: Collection[int]) -> dict[tuple[str, int], PairPosition]:
    """The place of each pair by reviewer and ordinal; ``seen`` must begin with the first pairs."""
    counts: dict[tuple[str, bool], int] = {}
    found = {}
    for show in sorted(seen, key=lambda one: (one.reviewer, one.ordinal)):
        is_gold = show.number in gold
        number = counts[show.reviewer, is_gold] = counts.get((show.reviewer, is_gold), 0) + 1
        found[show.reviewer, show.ordinal] = PairPosition(show.reviewer, number, is_gold)
    return found


def is_swapped(key: bytes, place: PairPosition) -> bool:
    """Whether a pair shows the second arm first."""
    block, second = divmod(place.number - 1, 2)
    purpose = "gold position" if place.is_gold else "position"
    return bool(coin(key, purpose, place.reviewer, block) ^ second)
