"""Reviews as the caller may see them: the queue, the current pair, and the outcome.

Nothing here reveals what an open review hides, regardless of the caller's roles.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

import msgspec

from gatemark.accounts.identity import Identity
from gatemark.core.errors import InvalidValueError, NotAllowedError, UnknownNameError
from gatemark.evidence.reading_choices import ReadingChoices
from gatemark.review.close import CLOSERS, CloseReview, ReviewOutcome, close_review, review_outcome
from gatemark.review.create import (
    CreateReview,
    ReviewCreated,
    SavedVote,
    ShownPair,
    VoteRequest,
    cast_vote,
    create_review,
    find_lookers,
    find_undecided_pairs,
    next_pair,
    review_key,
    shown_pair,
)
from gatemark.review.open_stores import erased_pairs, reviews_of
from gatemark.review.plan import Answered, ReviewPlan, StoredReview
from gatemark.review.queue import PairProgress, count_missing, is_complete
from gatemark.review.status import review_status
from gatemark.web.areas.ingest import write_temporary_files
from gatemark.web.run_board import RUNNERS
from gatemark.web.site import Site
from gatemark.workspace import Workspace

JUDGES: Final = frozenset(
    {"author", "evaluator", "pack_owner", "approver", "security_approver", "operator"}
)
"""Roles that may vote without being named; others may vote only if the plan names them."""


GOLD: Final = "gold pairs"
"""Marks another arm; names of arms cannot contain a space."""


class MyProgress(msgspec.Struct, frozen=True, kw_only=True):
    """The caller's progress in a review: answered pairs, and all pairs.

    ``why_not`` says why the caller cannot vote.
    """

    answered: int
    total: int
    waits: bool
    is_named: bool
    has_begun: bool
    why_not: str | None


class ReviewLine(msgspec.Struct, frozen=True, kw_only=True):
    """A review in a list."""

    review: str
    state: str
    question: str
    pairs: int
    pairs_complete: int
    votes_per_pair: int
    created_by: str
    created_at: datetime
    closed_at: datetime | None
    mine: MyProgress


class ReviewList(msgspec.Struct, frozen=True, kw_only=True):
    """A page of reviews, newest first, and the cursor of the next page."""

    items: tuple[ReviewLine, ...]
    next: str | None


class ReviewCard(msgspec.Struct, frozen=True, kw_only=True):
    """An open review as everyone may see it, without arms, choices or numbers."""

    line: ReviewLine
    commitment: str
    reviewers: tuple[str, ...]
    arbiter: str | None
    votes: int
    skips: int
    left_out: dict[str, int]
    peeking: bool
    looked: tuple[str, ...]
    may_look: bool
    may_close: bool


class QueueView(msgspec.Struct, frozen=True, kw_only=True):
    """The current pair of a reviewer, or None at the end, and the progress."""

    pair: ShownPair | None
    answered: int
    total: int
    previous: str | None


class InterimLook(msgspec.Struct, frozen=True, kw_only=True):
    """Interim numbers of a review with peeking; the ledger records the look."""

    review: str
    numbers: dict[str, object]


class SealedKey(msgspec.Struct, frozen=True, kw_only=True):
    """The key of a closed review, and what it opens."""

    review: str
    commitment: str
    key: str
    plan_digest: str
    manifest_digest: str


class ReviewRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request to create a review: sample texts by arm, or the arms of a pack run."""

    plan: dict[str, object]
    texts: dict[str, str] = {}
    result: str | None = None
    pack: str | None = None
    suite: str | None = None
    gold: str | None = None
    assets: dict[str, str] = {}
    exclude_unpaired: bool = False
    note: str = ""


def review_list(
    workspace: Workspace, identity: Identity, *, after: str | None = None, limit: int = 50
) -> ReviewList:
    """Return the reviews older than ``after``, newest first."""
    shown, more = names_after(reviews_of(workspace).names(), after, limit, "review")
    return ReviewList(
        items=tuple(
            _make_line(workspace, identity, reviews_of(workspace).get(name)) for name in shown
        ),
        next=more,
    )


def names_after(
    names: Sequence[str], after: str | None, limit: int, what: str
) -> tuple[Sequence[str], str | None]:
    """Return a page of names after one, and the cursor of the next page, if any."""
    if after is not None and after not in names:
        raise UnknownNameError(f"there is no {what} {after!r}")
    start = 0 if after is None else names.index(after) + 1
    shown = names[start : start + limit]
    return shown, shown[-1] if shown and shown[-1] != names[-1] else None


def waiting_reviews(workspace: Workspace, identity: Identity, limit: int) -> tuple[ReviewLine, ...]:
    """Return the newest open reviews that wait for the caller."""
    names = reviews_of(workspace).open_names()[:limit]
    lines = (_make_line(workspace, identity, reviews_of(workspace).get(name)) for name in names)
    return tuple(line for line in lines if line.mine.waits)


def review_card(workspace: Workspace, identity: Identity, name: str) -> ReviewCard:
    """Return a review as everyone may see it."""
    stored = reviews_of(workspace).get(name)
    plan = stored.plan
    votes = reviews_of(workspace).votes(name)
    line = _make_line(workspace, identity, stored)
    is_open = stored.closing is None
    return ReviewCard(
        line=line,
        commitment=stored.commitment,
        reviewers=plan.reviewers,
        arbiter=plan.arbiter,
        votes=sum(vote.answered != "skip" for vote in votes),
        skips=sum(vote.answered == "skip" for vote in votes),
        left_out=stored.facts["left_out"],
        peeking=plan.peeking,
        looked=tuple(sorted(find_lookers(workspace, name))),
        may_look=is_open
        and plan.peeking
        and bool(JUDGES & set(identity.roles))
        and not (line.mine.is_named or line.mine.has_begun),
        may_close=is_open and _may_close(identity, stored),
    )


def vote_view(
    workspace: Workspace, identity: Identity, name: str, shown_token: str | None = None
) -> QueueView:
    """Return the caller's current pair, or an earlier one."""
    stored = reviews_of(workspace).get(name)
    require_judge(identity, stored.plan.reviewers, stored.plan.arbiter)
    person = identity.person
    if shown_token is None:
        pair = next_pair(workspace, name, person)
    else:
        pair = shown_pair(workspace, name, person, shown_token)
    mine = _measure_my_progress(workspace, identity, stored, reviews_of(workspace).standings(name))
    shows = reviews_of(workspace).shows(name, person)
    at = len(shows) + 1 if pair is None else pair.ordinal
    before = [show.token for show in shows if show.ordinal < at]
    return QueueView(
        pair=pair,
        answered=mine.answered,
        total=mine.total,
        previous=before[-1] if before else None,
    )


def vote_on_pair(
    workspace: Workspace,
    identity: Identity,
    name: str,
    shown_token: str,
    said: tuple[Answered, str],
) -> SavedVote:
    """Store a vote of the caller."""
    plan = reviews_of(workspace).get(name).plan
    require_judge(identity, plan.reviewers, plan.arbiter)
    answered, reason = said
    request = VoteRequest(
        review=name,
        reviewer=identity.person,
        token=shown_token,
        answered=answered,
        reason=normalize_newlines(reason),
    )
    return cast_vote(workspace, request)


def interim_look(workspace: Workspace, identity: Identity, name: str) -> InterimLook:
    """Return interim numbers of a review with peeking; the caller can no longer vote."""
    reviews_of(workspace).get(name)
    if not JUDGES & set(identity.roles):
        raise NotAllowedError(f"{identity.person} may not look at numbers of an open review")
    status = review_status(workspace, name, identity.person)
    if status.numbers is None:
        raise NotAllowedError(f"numbers of {name} are not shown: {status.hidden_because}")
    return InterimLook(review=name, numbers=status.numbers)


def make_review(workspace: Workspace, identity: Identity, wanted: ReviewRequest) -> ReviewCreated:
    """Create a review in the caller's name."""
    require_maker(identity, "make a review")
    try:
        plan = msgspec.convert(wanted.plan, ReviewPlan)
    except msgspec.ValidationError as error:
        raise InvalidValueError(f"review: {error}") from error
    gold = {} if wanted.gold is None else {GOLD: wanted.gold}
    with write_temporary_files({**wanted.texts, **gold}) as paths:
        request = CreateReview(
            plan=plan,
            files={arm: paths[arm] for arm in wanted.texts},
            result=wanted.result,
            pack=wanted.pack,
            suite=wanted.suite,
            gold=paths.get(GOLD),
            assets=wanted.assets,
            note=wanted.note,
        )
        choices = ReadingChoices(on_unpaired="exclude" if wanted.exclude_unpaired else "error")
        return create_review(workspace.acting_as(identity.person), request, choices)


def end_review(
    workspace: Workspace, identity: Identity, name: str, early: str | None = None
) -> ReviewOutcome:
    """Close a review in the caller's name and write its key to the ledger."""
    stored = reviews_of(workspace).get(name)
    if not _may_close(identity, stored):
        wanted = ", ".join((stored.created_by, *CLOSERS))
        raise NotAllowedError(f"{identity.person} must be one of {wanted} to close {name}")
    request = CloseReview(review=name, early=early or None)
    return close_review(workspace.acting_as(identity.person), request)


def kept_outcome(site: Site, name: str) -> ReviewOutcome:
    """Return the outcome of a closed review, cached for a minute."""

    def judge() -> ReviewOutcome:
        return review_outcome(site.workspace, name, may_seal=False)

    return site.kept("outcome", f"review:{name}", judge)


def sealed_key(workspace: Workspace, name: str) -> SealedKey:
    """Return the key of a closed review; refused to everyone while it is open."""
    stored = reviews_of(workspace).get(name)
    if stored.closing is None:
        raise NotAllowedError(f"the key of {name} is sealed until the review is closed")
    sealed = reviews_of(workspace).sealed(stored, erased_pairs(workspace, name))
    return SealedKey(
        review=name,
        commitment=stored.commitment,
        key=review_key(workspace, stored).hex(),
        plan_digest=sealed.plan_digest,
        manifest_digest=sealed.manifest_digest,
    )


def normalize_newlines(text: str) -> str:
    """Return the text of a form field with LF line ends."""
    return text.replace("\r\n", "\n").strip()


def require_judge(identity: Identity, named: tuple[str, ...], arbiter: str | None = None) -> None:
    """Refuse callers whose role cannot vote, unless the plan names them."""
    if identity.person in {*named, arbiter} or JUDGES & set(identity.roles):
        return
    held = ", ".join(identity.roles) or "without a role"
    raise NotAllowedError(f"{identity.person} is {held} and may look but not judge")


def require_maker(identity: Identity, what: str) -> None:
    """Refuse callers whose role cannot create evaluations."""
    if not RUNNERS & set(identity.roles):
        wanted = ", ".join(sorted(RUNNERS))
        raise NotAllowedError(f"{identity.person} must be one of {wanted} to {what}")


def _may_close(identity: Identity, stored: StoredReview) -> bool:
    return identity.person == stored.created_by or bool(set(CLOSERS) & set(identity.roles))


def _make_line(workspace: Workspace, identity: Identity, stored: StoredReview) -> ReviewLine:
    plan, closing = stored.plan, stored.closing
    standings = reviews_of(workspace).standings(plan.name)
    pairs = sum(not pair.is_gold for pair in standings)
    state = "closed" if closing is not None else "open"
    if state == "open" and is_complete(standings, plan.votes_per_pair):
        state = "complete"
    return ReviewLine(
        review=plan.name,
        state=state,
        question=plan.question,
        pairs=pairs,
        pairs_complete=pairs - count_missing(standings, plan.votes_per_pair)["short"],
        votes_per_pair=plan.votes_per_pair,
        created_by=stored.created_by,
        created_at=stored.created_at,
        closed_at=None if closing is None else closing.at,
        mine=_measure_my_progress(workspace, identity, stored, standings),
    )


def _measure_my_progress(
    workspace: Workspace, identity: Identity, stored: StoredReview, standings: list[PairProgress]
) -> MyProgress:
    plan, person = stored.plan, identity.person
    shows = reviews_of(workspace).shows(plan.name, person)
    votes = reviews_of(workspace).votes(plan.name)
    answered = sum(vote.reviewer == person for vote in votes)
    seen = {show.number for show in shows}
    if person == plan.arbiter:
        waiting = find_undecided_pairs(review_key(workspace, stored), plan, standings, votes) - seen
    else:
        waiting = frozenset(
            pair.number
            for pair in standings
            if pair.number not in seen and (pair.is_gold or pair.vote_count < plan.votes_per_pair)
        )
    why_not = _find_objection(workspace, identity, stored)
    total = len(shows) + (0 if why_not else len(waiting))
    return MyProgress(
        answered=answered,
        total=total,
        waits=why_not is None and answered < total,
        is_named=person in {*plan.reviewers, plan.arbiter},
        has_begun=bool(shows),
        why_not=why_not,
    )


def _find_objection(workspace: Workspace, identity: Identity, stored: StoredReview) -> str | None:
    plan, person = stored.plan, identity.person
    is_named = person in {*plan.reviewers, plan.arbiter}
    if stored.closing is not None:
        return "the review is closed"
    if plan.reviewers and not is_named:
        return "others were named as reviewers"
    if not is_named and not JUDGES & set(identity.roles):
        return "your role does not allow judging"
    if plan.peeking and person in find_lookers(workspace, plan.name):
        return "you have seen numbers of this review"
    return None
