"""Blind reviews: the queue, the current pair, progress, and the outcome.

Nothing here reveals what an open review hides, regardless of the caller's roles.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Final

import msgspec
from fastapi import Path, Query, Response
from fastapi.responses import RedirectResponse
from msgspec import Meta

from gatemark.core.errors import GatemarkError, InvalidValueError, NotAllowedError, UnknownNameError
from gatemark.release.lifecycle.roles import EVALUATING
from gatemark.release.review.close import (
    CloseReview,
    ReviewOutcome,
    close_review,
    export_votes,
    review_outcome,
)
from gatemark.release.review.create import (
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
from gatemark.release.review.open_stores import erased_pairs, reviews_of
from gatemark.release.review.plan import ReviewName, StoredReview
from gatemark.release.review.queue import PairProgress, count_missing, is_complete
from gatemark.release.review.status import InterimLook, LookAtNumbers, look_at_numbers
from gatemark.release.review.who_may import JUDGES, is_judge, may_close
from gatemark.server.accounts.identity import Identity
from gatemark.server.doors import Context, Doors, Visit
from gatemark.server.parameters import Limit
from gatemark.server.render import one, part, show_content
from gatemark.server.request_body import FormFields
from gatemark.server.sent_files import write_temporary_files
from gatemark.server.site import Site
from gatemark.server.views.ledger import event_page
from gatemark.workspace import Workspace

NAME: Final = r"^[A-Za-z0-9][A-Za-z0-9_.-]*$"
REVIEW: Final = Path(max_length=128, pattern=NAME)
After = Annotated[str | None, Query(max_length=128, pattern=NAME)]
doors = Doors("reviews", {"review": REVIEW, "token": Path(pattern=r"^[0-9a-f]{32}$")})
GOLD: Final = "gold pairs"
"""Marks another arm; names of arms cannot contain a space."""
SHOWN: Final = 50
BUTTONS: Final = (
    ("a", "A is better", "1"),
    ("b", "B is better", "2"),
    ("both_good", "Both good", "3"),
    ("both_bad", "Both bad", "4"),
    ("skip", "Skip", "S"),
)
BAR: Final = 240
"""Width of the win-rate drawing, in SVG units."""


class SentReview(CreateReview, frozen=True, kw_only=True):
    """A review whose answers come with the request, or are the arms of a pack run."""

    samples: Annotated[
        Mapping[ReviewName, str],
        Meta(max_length=17, description="Lines of gatemark.sample/1, by the name of the arm."),
    ] = {}


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


class SealedKey(msgspec.Struct, frozen=True, kw_only=True):
    """The key of a closed review, and what it opens."""

    review: str
    commitment: str
    key: str
    plan_digest: str
    manifest_digest: str


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
        may_close=is_open and may_close(stored, identity.person, identity.roles),
    )


def vote_view(
    workspace: Workspace, identity: Identity, name: str, shown_token: str | None = None
) -> QueueView:
    """Return the caller's current pair, or an earlier one."""
    stored = reviews_of(workspace).get(name)
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
    if not is_judge(identity.roles, person, {*plan.reviewers, plan.arbiter}):
        return "your role does not allow judging"
    if plan.peeking and person in find_lookers(workspace, plan.name):
        return "you have seen numbers of this review"
    return None


@doors.view("/reviews", ReviewList)
def list_reviews(visit: Visit, after: After = None, limit: Limit = SHOWN) -> ReviewList:
    """List reviews, newest first, with what waits for the caller."""
    return review_list(visit.workspace, visit.identity, after=after, limit=limit)


@list_reviews.page("/reviews", "reviews.html", limit=SHOWN)
def reviews_page(visit: Visit, document: ReviewList) -> Context:
    """Show every review, and what waits for the caller."""
    may_make = bool(EVALUATING & set(visit.identity.roles))
    return {"title": "Reviews", "view": document, "may_make": may_make}


@doors.page("/new-review", "new_review.html")
def new_review_page() -> Context:
    """Show the form for a review."""
    return {"title": "New review", "new": FormFields(SentReview)}


@doors.act("/reviews", ReviewCreated, command=SentReview, status=201)
def post_review(visit: Visit, command: SentReview) -> ReviewCreated:
    """Create a review: match the pairs, draw the positions and seal them."""
    gold = {} if command.gold is None else {GOLD: command.gold}
    with write_temporary_files({**command.samples, **gold}) as paths:
        files = {arm: paths[arm] for arm in command.samples}
        request = msgspec.structs.replace(command, files=files, gold=paths.get(GOLD))
        return create_review(visit.acting, request)


post_review.form("/new-review", to="/reviews/{review}", done="sealed")


@doors.view("/reviews/{review}", ReviewCard)
def one_review(visit: Visit, review: str) -> ReviewCard:
    """Return the progress of a review, without arms, choices or numbers."""
    return review_card(visit.workspace, visit.identity, review)


@one_review.page("/reviews/{review}")
def review_page(
    visit: Visit, document: ReviewCard, begin: str = "", pair: str | None = None
) -> Response:
    """Show the caller's pair, the progress of a review, or its outcome."""
    if document.line.state == "closed":
        return visit.show("review_closed.html", _build_closed_context(visit, document))
    mine = document.line.mine
    if mine.why_not is None and (mine.is_named or mine.has_begun or bool(begin)):
        return _vote_page(visit, document, pair)
    return visit.show("review.html", _open(document))


def _open(card: ReviewCard) -> dict[str, object]:
    title = f"Review {card.line.review}"
    return {"title": title, "card": card, "numbers": None, "close": FormFields(CloseReview)}


def _vote_page(
    visit: Visit, card: ReviewCard, shown: str | None, problem: tuple[str, str, int] = ("", "", 200)
) -> Response:
    found = vote_view(visit.workspace, visit.identity, card.line.review, shown)
    if found.pair is None:
        return visit.show("review.html", _open(card))
    words, comment, status = problem
    context = {
        "title": f"Review {card.line.review}",
        "card": card,
        "progress": found,
        "pair": found.pair,
        "texts": {name: show_content(getattr(found.pair, name)) for name in ("input", "a", "b")},
        "buttons": BUTTONS,
        "vote": FormFields(VoteRequest),
        "trouble": words,
        "comment": comment or found.pair.reason,
        "is_again": shown is not None,
    }
    return visit.show("review_vote.html", context, status)


def _build_closed_context(visit: Visit, card: ReviewCard) -> dict[str, object]:
    name = card.line.review
    outcome = kept_outcome(visit.site, name)
    log = event_page(visit.workspace, visit.identity, subject=f"review:{name}", limit=SHOWN)
    return {
        "title": f"Review {name}",
        "card": card,
        "outcome": outcome,
        "log": log.items,
        "bar": BAR,
        "gold": any(row["gold"] for row in outcome.reviewers),
        "assets": _read_assets(log.items[-1].payload if log.items else None),
    }


def _read_assets(created: dict[str, object] | None) -> dict[str, object]:
    """Return the versions of the arms from the creation event."""
    plan = (created or {}).get("plan")
    found = plan.get("assets") if isinstance(plan, dict) else None
    return found or {}


@doors.view("/reviews/{review}/next", QueueView, in_person=True)
def next_review_pair(visit: Visit, review: str) -> QueueView:
    """Return the caller's current pair, the same until it is answered; null at the end."""
    return vote_view(visit.workspace, visit.identity, review)


@doors.view("/reviews/{review}/pairs/{token}", ShownPair, in_person=True)
def one_pair(visit: Visit, review: str, token: str) -> ShownPair | None:
    """Return a pair that the caller has seen before."""
    return vote_view(visit.workspace, visit.identity, review, token).pair


@doors.act("/reviews/{review}/votes", SavedVote, command=VoteRequest, is_repeatable=True)
def post_ballot(visit: Visit, command: VoteRequest) -> SavedVote:
    """Vote, or change a vote; repeating it changes nothing. Needs a session."""
    return cast_vote(visit.workspace, command)


@post_ballot.form_page("/reviews/{review}", refused=InvalidValueError)
def vote_post(visit: Visit, review: str, error: GatemarkError | None) -> Response:
    """Show the next pair; or the same one, with what is wrong and what was typed."""
    if error is None:
        return RedirectResponse(f"/reviews/{part(review)}", status_code=303)
    card = review_card(visit.workspace, visit.identity, review)
    typed = (str(error), one(visit.fields, "reason"), 422)
    return _vote_page(visit, card, one(visit.fields, "token"), typed)


@doors.act("/reviews/{review}/looks", InterimLook, command=LookAtNumbers)
def post_look(visit: Visit, command: LookAtNumbers) -> InterimLook:
    """Return interim numbers of a review with peeking; the ledger records who looked."""
    return look_at_numbers(visit.acting, command)


@post_look.form_page("/reviews/{review}/look")
def look_post(visit: Visit, review: str, document: InterimLook) -> Response:
    """Show interim numbers to people who do not vote."""
    card = review_card(visit.workspace, visit.identity, review)
    return visit.show("review.html", {**_open(card), "numbers": document.numbers})


@doors.act("/reviews/{review}/closing", ReviewOutcome, command=CloseReview, is_repeatable=True)
def post_review_closing(visit: Visit, command: CloseReview) -> ReviewOutcome:
    """Close a review, write its key to the ledger, and judge it."""
    return close_review(visit.acting, command)


post_review_closing.form("/reviews/{review}/close", to="/reviews/{review}", done="unblinded")


@doors.view("/reviews/{review}/outcome", ReviewOutcome)
def get_outcome(visit: Visit, review: str) -> ReviewOutcome:
    """Return the outcome of a closed review."""
    return kept_outcome(visit.site, review)


@doors.view("/reviews/{review}/key", SealedKey)
def get_key(visit: Visit, review: str) -> SealedKey:
    """Return the key of a closed review; refused to everyone while it is open."""
    return sealed_key(visit.workspace, review)


@doors.view("/reviews/{review}/ballots", bytes)
def get_ballots(visit: Visit, review: str, candidate: After = None) -> Response:
    """Return the opened votes of a closed review as ``gatemark.vote/1`` lines."""
    lines = export_votes(visit.workspace, review, candidate)
    return Response(lines, media_type="application/x-ndjson")
