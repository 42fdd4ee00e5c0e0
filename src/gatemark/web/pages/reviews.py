"""Pages for blind reviews: list, voting, progress, and outcome."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import RedirectResponse

from gatemark.accounts.identity import Identity
from gatemark.core.errors import InvalidValueError, UsageError
from gatemark.review.close import ReviewOutcome
from gatemark.web.areas.reviews import (
    ReviewCard,
    ReviewRequest,
    end_review,
    interim_look,
    kept_outcome,
    make_review,
    review_card,
    review_list,
    vote_on_pair,
    vote_view,
)
from gatemark.web.render import (
    Fields,
    back,
    form,
    limited,
    member,
    names_in,
    one,
    page,
    part,
    read_whole_number,
    show_content,
)
from gatemark.web.run_board import RUNNERS
from gatemark.web.site import site_of
from gatemark.web.views.ledger import event_page

router = APIRouter()
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


@router.get("/reviews")
def reviews_page(request: Request, after: str | None = None) -> Response:
    """Show every review, and what waits for the caller."""
    identity = member(request)
    view = review_list(site_of(request).workspace, identity, after=after, limit=SHOWN)
    may_make = bool(RUNNERS & set(identity.roles))
    context = {"title": "Reviews", "view": view, "may_make": may_make}
    return page(request, "reviews.html", identity, context)


@router.get("/new-review")
def new_review_page(request: Request) -> Response:
    """Show the form for a review."""
    identity = member(request)
    return page(request, "new_review.html", identity, {"title": "New review"})


@router.post("/new-review")
def new_review_post(request: Request, fields: Fields) -> Response:
    """Create a review from two texts of samples, or from a sealed result."""
    identity = member(request)
    plan: dict[str, object] = {**limited(fields, "name", "question", "arbiter")}
    plan |= {"candidates": ["candidate"], "baseline": "baseline"}
    plan["reviewers"] = names_in(one(fields, "reviewers"))
    plan["peeking"] = one(fields, "peeking") == "yes"
    plan["trim"] = one(fields, "trim") == "yes"
    plan["votes_per_pair"] = read_whole_number(fields, "votes_per_pair", 1)
    texts = limited(fields, "candidate", "baseline")
    assets = {"candidate": one(fields, "candidate_version")}
    assets["baseline"] = one(fields, "baseline_version")
    wanted = ReviewRequest(
        plan=plan,
        texts=texts,
        assets={arm: version for arm, version in assets.items() if version},
        **limited(fields, "result", "suite", "gold", "note"),  # type: ignore[arg-type]
    )
    made = make_review(site_of(request).workspace, identity, wanted)
    return back(f"/reviews/{part(made.review)}", "sealed")


@router.get("/reviews/{name}")
def review_page(request: Request, name: str, begin: str = "", pair: str | None = None) -> Response:
    """Show the caller's pair, the progress of a review, or its outcome."""
    identity = member(request)
    workspace = site_of(request).workspace
    card = review_card(workspace, identity, name)
    if card.line.state == "closed":
        outcome = kept_outcome(site_of(request), name)
        return page(
            request,
            "review_closed.html",
            identity,
            _build_closed_context(request, identity, card, outcome),
        )
    mine = card.line.mine
    votes_now = mine.why_not is None and (mine.is_named or mine.has_begun or bool(begin))
    if not votes_now:
        return page(request, "review.html", identity, _open(card))
    return _vote_page(request, identity, card, pair)


def _open(card: ReviewCard) -> dict[str, object]:
    return {"title": f"Review {card.line.review}", "card": card, "numbers": None}


def _vote_page(
    request: Request,
    identity: Identity,
    card: ReviewCard,
    shown: str | None,
    problem: tuple[str, str, int] = ("", "", 200),
) -> Response:
    found = vote_view(site_of(request).workspace, identity, card.line.review, shown)
    if found.pair is None:
        return page(request, "review.html", identity, _open(card))
    words, comment, status = problem
    context = {
        "title": f"Review {card.line.review}",
        "card": card,
        "progress": found,
        "pair": found.pair,
        "texts": {name: show_content(getattr(found.pair, name)) for name in ("input", "a", "b")},
        "buttons": BUTTONS,
        "trouble": words,
        "comment": comment or found.pair.reason,
        "is_again": shown is not None,
    }
    return page(request, "review_vote.html", identity, context, status)


@router.post("/reviews/{name}")
def vote_post(request: Request, name: str, fields: Fields) -> Response:
    """Store a vote and show the next pair."""
    identity = member(request)
    workspace = site_of(request).workspace
    answered, reason = one(fields, "answered"), one(fields, "reason")
    shown = one(fields, "pair")
    if answered not in {key for key, _, _ in BUTTONS}:
        raise UsageError("choose A, B, both good, both bad or skip")
    try:
        vote_on_pair(workspace, identity, name, shown, (answered, reason))  # type: ignore[arg-type]
    except InvalidValueError as error:
        card = review_card(workspace, identity, name)
        return _vote_page(request, identity, card, shown, (str(error), reason, 422))
    return RedirectResponse(f"/reviews/{part(name)}", status_code=303)


@router.post("/reviews/{name}/look", dependencies=[Depends(form)])
def look_post(request: Request, name: str) -> Response:
    """Show interim numbers to people who do not vote."""
    identity = member(request)
    workspace = site_of(request).workspace
    found = interim_look(workspace, identity, name)
    context = _open(review_card(workspace, identity, name)) | {"numbers": found.numbers}
    return page(request, "review.html", identity, context)


@router.post("/reviews/{name}/close")
def close_post(request: Request, name: str, fields: Fields) -> Response:
    """Close a review and reveal its key."""
    identity = member(request)
    end_review(site_of(request).workspace, identity, name, one(fields, "early") or None)
    return back(f"/reviews/{part(name)}", "unblinded")


def _build_closed_context(
    request: Request, identity: Identity, card: ReviewCard, outcome: ReviewOutcome
) -> dict[str, object]:
    workspace = site_of(request).workspace
    name = card.line.review
    log = event_page(workspace, identity, subject=f"review:{name}", limit=SHOWN)
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
