"""API routes for blind reviews; no answer of an open review reveals an arm."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import Field, StringConstraints

from gatemark.review.close import ReviewOutcome, export_votes
from gatemark.review.create import ReviewCreated, SavedVote, ShownPair
from gatemark.review.plan import ReviewPlan
from gatemark.web.api.accounts import Body
from gatemark.web.areas.reviews import (
    InterimLook,
    QueueView,
    ReviewCard,
    ReviewList,
    ReviewRequest,
    SealedKey,
    end_review,
    interim_look,
    kept_outcome,
    make_review,
    review_card,
    review_list,
    sealed_key,
    vote_on_pair,
    vote_view,
)
from gatemark.web.idempotency import REPEATABLE, KeyedRoute
from gatemark.web.openapi import describe_answers, reply
from gatemark.web.parameters import Note, Reference, Words
from gatemark.web.site import caller, site_of

router = APIRouter(tags=["reviews"], route_class=KeyedRoute)
NAME: Final = r"^[A-Za-z0-9][A-Za-z0-9_.-]*$"
ReviewPath = Annotated[str, Path(max_length=128, pattern=NAME)]
TokenPath = Annotated[str, Path(pattern=r"^[0-9a-f]{32}$")]
After = Annotated[str | None, Query(max_length=128, pattern=NAME)]
Limit = Annotated[int, Query(ge=1, le=200)]
ArmName = Annotated[str, StringConstraints(max_length=128, pattern=NAME)]
PersonName = Annotated[
    str, StringConstraints(min_length=1, max_length=128, pattern=r"^[^\x00-\x20\x7f]+$")
]
Version = Annotated[
    str, StringConstraints(max_length=200, pattern=r"^[^@\x00-\x20]+@[^@\x00-\x20]+$")
]
PLAN: Final = frozenset(ReviewPlan.__struct_fields__) - {"assets", "rules"}


class ReviewBody(Body):
    """A review: lines of ``gatemark.sample/1`` by arm, a sealed result, or a pack's newest one."""

    name: ArmName
    candidates: list[ArmName] = Field(default=["candidate"], min_length=1, max_length=16)
    baseline: ArmName = "baseline"
    samples: dict[ArmName, str] = Field(default={}, max_length=17)
    result: Reference | None = None
    pack: Words | None = None
    suite: Words | None = None
    gold: str | None = None
    assets: dict[ArmName, Version] = Field(default={}, max_length=17)
    alpha: float = Field(default=0.05, gt=0, lt=0.5)
    peeking: bool = False
    min_decisive: int = Field(default=20, ge=1, le=1_000_000)
    coverage_min: float = Field(default=1.0, ge=0, le=1)
    votes_per_pair: int = Field(default=1, ge=1, le=100)
    reviewers: list[PersonName] = Field(default=[], max_length=100)
    arbiter: PersonName | None = None
    gold_min_rate: float = Field(default=0.7, ge=0, le=1)
    trim: bool = False
    question: Annotated[Note, StringConstraints(min_length=1)] = "Which answer is better?"
    exclude_unpaired: bool = False
    note: Note = ""


class BallotBody(Body):
    """A vote on a pair that was shown; a skip needs a reason."""

    token: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")]
    answered: Literal["a", "b", "both_good", "both_bad", "skip"]
    reason: Note = ""


class CloseReviewBody(Body):
    """The reason to close a review while votes are missing; otherwise omit it."""

    early: Words | None = None


@router.get("/reviews", responses=describe_answers(ReviewList))
def list_reviews(request: Request, after: After = None, limit: Limit = 50) -> Response:
    """List reviews, newest first, with what waits for the caller."""
    identity = caller(request)
    return reply(review_list(site_of(request).workspace, identity, after=after, limit=limit))


@router.post("/reviews", responses=describe_answers(ReviewCreated, 201), status_code=201)
def post_review(request: Request, body: ReviewBody) -> Response:
    """Create a review: match the pairs, draw the positions and seal them."""
    identity = caller(request, "act")
    return reply(
        make_review(site_of(request).workspace, identity, review_request_of(body.model_dump())), 201
    )


def review_request_of(plain: dict[str, Any]) -> ReviewRequest:
    """Return a body as a request: the plan, and the sources of the arms."""
    plan = {name: plain[name] for name in PLAN if name in plain}
    rest = {name: value for name, value in plain.items() if name not in PLAN | {"samples"}}
    return ReviewRequest(plan=plan, texts=plain["samples"], **rest)


@router.get("/reviews/{name}", responses=describe_answers(ReviewCard))
def one_review(request: Request, name: ReviewPath) -> Response:
    """Return the progress of a review, without arms, choices or numbers."""
    identity = caller(request)
    return reply(review_card(site_of(request).workspace, identity, name))


@router.get("/reviews/{name}/next", responses=describe_answers(QueueView))
def next_review_pair(request: Request, name: ReviewPath) -> Response:
    """Return the caller's current pair, the same until it is answered; null at the end."""
    identity = caller(request, in_person=True)
    return reply(vote_view(site_of(request).workspace, identity, name))


@router.get("/reviews/{name}/pairs/{token}", responses=describe_answers(ShownPair))
def one_pair(request: Request, name: ReviewPath, token: TokenPath) -> Response:
    """Return a pair that the caller has seen before."""
    identity = caller(request, in_person=True)
    return reply(vote_view(site_of(request).workspace, identity, name, token).pair)


@router.post(
    "/reviews/{name}/votes", responses=describe_answers(SavedVote), openapi_extra=REPEATABLE
)
def post_ballot(request: Request, name: ReviewPath, body: BallotBody) -> Response:
    """Vote, or change a vote; repeating it changes nothing. Needs a session."""
    identity = caller(request, "act", in_person=True)
    said = (body.answered, body.reason)
    return reply(vote_on_pair(site_of(request).workspace, identity, name, body.token, said))


@router.post("/reviews/{name}/looks", responses=describe_answers(InterimLook))
def post_look(request: Request, name: ReviewPath) -> Response:
    """Return interim numbers of a review with peeking; the ledger records who looked."""
    identity = caller(request, "act", in_person=True)
    return reply(interim_look(site_of(request).workspace, identity, name))


@router.post(
    "/reviews/{name}/closing", responses=describe_answers(ReviewOutcome), openapi_extra=REPEATABLE
)
def post_review_closing(request: Request, name: ReviewPath, body: CloseReviewBody) -> Response:
    """Close a review, write its key to the ledger, and judge it."""
    identity = caller(request, "act")
    return reply(end_review(site_of(request).workspace, identity, name, body.early))


@router.get("/reviews/{name}/outcome", responses=describe_answers(ReviewOutcome))
def get_outcome(request: Request, name: ReviewPath) -> Response:
    """Return the outcome of a closed review."""
    caller(request)
    return reply(kept_outcome(site_of(request), name))


@router.get("/reviews/{name}/key", responses=describe_answers(SealedKey))
def get_key(request: Request, name: ReviewPath) -> Response:
    """Return the key of a closed review; refused to everyone while it is open."""
    caller(request)
    return reply(sealed_key(site_of(request).workspace, name))


@router.get("/reviews/{name}/ballots", responses=describe_answers(bytes))
def get_ballots(request: Request, name: ReviewPath, candidate: After = None) -> Response:
    """Return the opened votes of a closed review as ``gatemark.vote/1`` lines."""
    caller(request)
    lines = export_votes(site_of(request).workspace, name, candidate)
    return Response(lines, media_type="application/x-ndjson")
