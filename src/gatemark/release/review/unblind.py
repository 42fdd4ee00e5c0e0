"""Open the votes: translate letters to arms with the key."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from gatemark.core.canonical import digest_bytes
from gatemark.core.errors import InvalidValueError
from gatemark.evidence.inputs import visible_form
from gatemark.release.review.plan import Answered, ReviewPair, ReviewPlan
from gatemark.release.review.sealed_key import is_swapped
from gatemark.statistics.preference import Choice, choose_majority

GOLD_VOTES_MIN: Final = 3
"""Minimum number of votes on gold pairs before a reviewer can be excluded."""


BALLOT: Final = ("number", "reviewer", "ordinal", "version", "answered", "reason")
"""The fields of a vote that the digest of ballots covers, in this order."""


class CastVote(msgspec.Struct, frozen=True):
    """The newest version of one reviewer's vote on one pair, still as a letter.

    ``ordinal`` is the position of the pair in the reviewer's queue.
    """

    number: int
    reviewer: str
    ordinal: int
    version: int
    answered: Answered
    reason: str = ""


class OpenVote(NamedTuple):
    """A vote in terms of arms: ``choice`` and ``first`` are the pair's first or second arm."""

    pair: ReviewPair
    number: int
    reviewer: str
    choice: Choice
    first: Choice
    answered: Answered


class GoldRecord(msgspec.Struct, frozen=True):
    """A reviewer's record on pairs whose right choice is known."""

    reviewer: str
    right_count: int
    gold_count: int
    is_left_out: bool

    @property
    def right_rate(self) -> float | None:
        """The share of right choices; None without gold votes."""
        return self.right_count / self.gold_count if self.gold_count else None


def open_choice(key: bytes, vote: CastVote) -> tuple[Choice, Choice]:
    """Return the chosen arm and the arm shown first; the pair's first arm is the candidate."""
    swapped = is_swapped(key, vote.reviewer, vote.number)
    first: Choice = "baseline" if swapped else "candidate"
    second: Choice = "candidate" if swapped else "baseline"
    if vote.answered in {"a", "b"}:
        return (first if vote.answered == "a" else second), first
    return "tie", first


def unblind(
    key: bytes, votes: Sequence[CastVote], pairs: Mapping[int, ReviewPair]
) -> list[OpenVote]:
    """Return every vote that is not a skip, in terms of arms."""
    opened = []
    for vote in votes:
        if vote.answered != "skip":
            choice, first = open_choice(key, vote)
            opened.append(
                OpenVote(
                    pairs[vote.number], vote.number, vote.reviewer, choice, first, vote.answered
                )
            )
    return opened


def judge_gold(votes: Sequence[OpenVote], least_rate: float) -> list[GoldRecord]:
    """Return each reviewer's record on gold pairs, and whether the plan excludes them."""
    records = []
    for reviewer in sorted({vote.reviewer for vote in votes}):
        gold = [vote for vote in votes if vote.reviewer == reviewer and vote.pair.is_gold]
        right = sum(
            vote.choice == ("tie" if vote.pair.kind == "gold_same" else "candidate")
            for vote in gold
        )
        is_poor = len(gold) >= GOLD_VOTES_MIN and right / len(gold) < least_rate
        records.append(GoldRecord(reviewer, right, len(gold), is_poor))
    return records


def find_undecided(
    key: bytes, votes: Sequence[CastVote], gold: Collection[int], plan: ReviewPlan
) -> frozenset[int]:
    """Return the pairs that have all their votes but no majority."""
    by_pair: dict[int, list[Choice]] = {}
    for vote in votes:
        if vote.answered != "skip" and vote.number not in gold:
            choice, _ = open_choice(key, vote)
            by_pair.setdefault(vote.number, []).append(choice)
    return frozenset(
        number
        for number, choices in by_pair.items()
        if len(choices) >= max(2, plan.votes_per_pair)
        and choose_majority(choices) == "tie"
        and choices.count("tie") <= max(choices.count("candidate"), choices.count("baseline"))
    )


def digest_ballots(votes: Sequence[CastVote]) -> str:
    """Return the digest of the votes as they were cast, still blind."""
    ordered = sorted(votes, key=lambda vote: (vote.number, vote.reviewer))
    # A fixed list of fields, so that a new field does not change the digest.
    cast = [{name: getattr(vote, name) for name in BALLOT} for vote in ordered]
    return digest_bytes(msgspec.json.encode(cast))


def check_answer(answered: Answered, reason: str) -> None:
    """Refuse a skip without a reason."""
    if answered == "skip" and not visible_form(reason):
        raise InvalidValueError("a skipped pair needs a reason")
