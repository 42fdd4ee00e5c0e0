"""Pages for attributions of wrong decisions, and their proposals."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from gatemark.attribution.nouns import ProposalKind
from gatemark.attribution.review import JUDGES, Verdict, accepted_items, sealed_attribution
from gatemark.attribution.views import attribution_context
from gatemark.web.areas.attributions import attribution_card, attribution_list, judge_proposals
from gatemark.web.render import Fields, back, download, member, one, page, part, show_content
from gatemark.web.site import site_of

router = APIRouter()
SHOWN = 50
WORDS: dict[str, Verdict] = {"accept": "accepted", "reject": "rejected"}


@router.get("/attributions")
def attributions_page(request: Request, before: int | None = None) -> Response:
    """Show every sealed attribution, newest first."""
    identity = member(request)
    view = attribution_list(site_of(request).workspace, before=before, limit=SHOWN)
    return page(request, "attributions.html", identity, {"title": "Failures", "view": view})


@router.get("/attributions/{reference}")
def attribution_page(request: Request, reference: str) -> Response:
    """Show an attribution with its steps drawn, and the form for its proposals."""
    identity = member(request)
    card = attribution_card(site_of(request).workspace, identity, reference)
    found = card.found
    messages: dict[str, str] = {
        kind: f"{said.verdict} by {said.by}" for kind, said in found.said.items()
    }
    context: dict[str, object] = {
        **attribution_context(found.attribution, messages),
        "title": f"Decision {found.attribution.decision}",
        "card": card,
        "contents": {one.kind: show_content(one.content) for one in found.attribution.proposals},
        "has_items": any(one.kind.endswith("_item") for one in found.accepted),
    }
    return page(request, "attributed.html", identity, context)


@router.post("/attributions/{reference}")
def attribution_post(request: Request, reference: str, fields: Fields) -> Response:
    """Accept or reject proposals."""
    identity = member(request)
    verdicts: dict[ProposalKind, Verdict] = {
        kind: WORDS[said] for kind in JUDGES if (said := one(fields, kind)) in WORDS
    }
    workspace = site_of(request).workspace
    card = judge_proposals(workspace, identity, reference, verdicts, one(fields, "note"))
    return back(f"/attributions/{part(card.found.attribution.id)}", "judged")


@router.get("/attributions/{reference}/items")
def items_file(request: Request, reference: str) -> Response:
    """Return the accepted items as rows of a data set."""
    member(request)
    found = sealed_attribution(site_of(request).workspace, reference)
    return download(iter((accepted_items(found),)), found.attribution.id)
