"""Whether reviewers say the same: ratings for the agreement measures, and a row per reviewer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gatemark.review.unblind import GoldRecord, OpenVote

Ratings = list[tuple[str | None, ...]]


def shared_ratings(
    votes: Sequence[OpenVote], arbiter: str | None
) -> tuple[Ratings, list[tuple[str, str]]]:
    """Ratings of pairs that several people judged; as plain pairs too when they are just two.

    The arbiter saw only what others were split on, so the arbiter's votes do not count here.
    """
    people = sorted({vote.reviewer for vote in votes} - {arbiter})
    by_pair: dict[int, dict[str, str]] = {}
    for vote in votes:
        if vote.reviewer != arbiter:
            by_pair.setdefault(vote.number, {})[vote.reviewer] = vote.choice
    shared = [given for _, given in sorted(by_pair.items()) if len(given) > 1]
    rows: Ratings = [tuple(given.get(person) for person in people) for given in shared]
    pairs = [(given[people[0]], given[people[1]]) for given in shared] if len(people) == 2 else []
    return rows, pairs


def reviewer_rows(
    votes: Sequence[OpenVote], gold: Sequence[GoldRecord]
) -> tuple[dict[str, Any], ...]:
    """Each reviewer's counts, and the record on gold pairs."""
    rows = []
    for record in gold:
        choices = [vote.choice for vote in votes if vote.reviewer == record.reviewer]
        wins, losses = choices.count("candidate"), choices.count("baseline")
        rows.append(
            {
                "reviewer": record.reviewer,
                "votes": len(choices),
                "wins": wins,
                "losses": losses,
                "ties": choices.count("tie"),
                "win_rate": wins / (wins + losses) if wins + losses else None,
                "gold_right": record.right_count,
                "gold": record.gold_count,
                "gold_rate": record.right_rate,
                "left_out": record.is_left_out,
            }
        )
    return tuple(rows)
