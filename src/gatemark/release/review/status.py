"""The progress of a blind review, and its numbers for those who may see them.

Numbers are hidden until the review is closed, unless its plan allows peeking, and then only for
people who do not vote.
"""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from gatemark.core.errors import NotAllowedError
from gatemark.ledger.event import EventDraft
from gatemark.release.review.create import find_undecided_pairs, review_key, subject_of_review
from gatemark.release.review.events import REVIEW_LOOKED_AT
from gatemark.release.review.open_stores import reviews_of
from gatemark.release.review.plan import StoredReview
from gatemark.release.review.queue import count_missing, is_complete
from gatemark.release.review.who_may import require_judge
from gatemark.workspace import Workspace


class ReviewStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of a review. ``numbers`` is set only for those who may see them."""

    review: str
    state: str
    pairs: int
    votes_per_pair: int
    pairs_complete: int
    pairs_without_votes: int
    votes: int
    skips: int
    undecided: int
    reviewers: dict[str, int]
    peeking: bool
    numbers: dict[str, Any] | None
    hidden_because: str | None


class InterimLook(msgspec.Struct, frozen=True, kw_only=True):
    """Interim numbers of a review with peeking; the ledger records the look."""

    review: str
    numbers: dict[str, Any]


class LookAtNumbers(msgspec.Struct, frozen=True, kw_only=True):
    """Look at the numbers of an open review with peeking; who looked can no longer vote in it."""

    review: str
    is_in_person: ClassVar[bool] = True


def look_at_numbers(workspace: Workspace, request: LookAtNumbers) -> InterimLook:
    """Return the numbers so far to somebody who does not vote, and record who looked."""
    stored, looker = reviews_of(workspace).get(request.review), workspace.actor
    plan = stored.plan
    hidden = _find_cover(stored)
    if hidden is not None:
        raise NotAllowedError(f"numbers of {plan.name} are not shown: {hidden}")
    require_judge(workspace, looker, ())
    if looker in {*plan.reviewers, plan.arbiter} or reviews_of(workspace).shows(plan.name, looker):
        raise NotAllowedError(
            f"numbers of {plan.name} are not shown: {looker} votes in this review and must stay "
            "blind"
        )
    # Loads the exam, which is needed only here.
    from gatemark.release.review.close import measure_interim  # noqa: PLC0415

    numbers = measure_interim(workspace, stored)
    payload = {"numbers": numbers}
    draft = EventDraft(
        REVIEW_LOOKED_AT, workspace.clock(), looker, subject_of_review(plan.name), payload
    )
    workspace.events.append([draft])
    return InterimLook(review=plan.name, numbers=numbers)


def review_status(workspace: Workspace, name: str, look: InterimLook | None = None) -> ReviewStatus:
    """Return the progress, with the numbers that a look has shown."""
    stored = reviews_of(workspace).get(name)
    plan = stored.plan
    standings = reviews_of(workspace).standings(name)
    votes = reviews_of(workspace).votes(name)
    counts = count_missing(standings, plan.votes_per_pair)
    pair_count = sum(not pair.is_gold for pair in standings)
    reviewers: dict[str, int] = {}
    for vote in votes:
        reviewers[vote.reviewer] = reviewers.get(vote.reviewer, 0) + (vote.answered != "skip")
    numbers: dict[str, Any] | None = None
    hidden: str | None = _find_cover(stored) or "ask for the numbers with --look"
    if look is not None:
        numbers, hidden = look.numbers, None
    state = "closed" if stored.closing is not None else "open"
    if state == "open" and is_complete(standings, plan.votes_per_pair):
        state = "complete"
    return ReviewStatus(
        review=name,
        state=state,
        pairs=pair_count,
        votes_per_pair=plan.votes_per_pair,
        pairs_complete=pair_count - counts["short"],
        pairs_without_votes=counts["without"],
        votes=sum(vote.answered != "skip" for vote in votes),
        skips=sum(vote.answered == "skip" for vote in votes),
        undecided=len(find_undecided_pairs(review_key(workspace, stored), plan, standings, votes)),
        reviewers=dict(sorted(reviewers.items())),
        peeking=plan.peeking,
        numbers=numbers,
        hidden_because=hidden,
    )


def _find_cover(stored: StoredReview) -> str | None:
    """Return why nobody may see numbers now, or None."""
    if stored.closing is not None:
        return "the review is closed; 'review close' prints its outcome"
    return None if stored.plan.peeking else "numbers are hidden until the review is closed"
