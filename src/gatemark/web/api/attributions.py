"""API routes for sealed attributions and their proposals."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import Field

from gatemark.attribution.nouns import ProposalKind
from gatemark.attribution.review import accepted_items, sealed_attribution
from gatemark.web.api.accounts import Body
from gatemark.web.api.reviews import Limit
from gatemark.web.areas.attributions import (
    AttributionCard,
    AttributionList,
    attribution_card,
    attribution_list,
    judge_proposals,
)
from gatemark.web.idempotency import KeyedRoute
from gatemark.web.openapi import describe_answers, reply
from gatemark.web.parameters import Note
from gatemark.web.site import caller, site_of

router = APIRouter(tags=["attributions"], route_class=KeyedRoute)
Attributed = Annotated[str, Path(pattern=r"^sha256:[0-9a-f]{8,64}$")]


class ProposalsBody(Body):
    """Verdicts on proposals, one each, and the reason."""

    verdicts: dict[ProposalKind, Literal["accepted", "rejected"]] = Field(min_length=1)
    note: Note = ""


@router.get("/attributions", responses=describe_answers(AttributionList))
def list_attributions(
    request: Request,
    before: Annotated[int | None, Query(ge=1, le=2**53)] = None,
    limit: Limit = 50,
) -> Response:
    """List attributions, newest first."""
    caller(request)
    return reply(attribution_list(site_of(request).workspace, before=before, limit=limit))


@router.get("/attributions/{reference}", responses=describe_answers(AttributionCard))
def one_attribution(request: Request, reference: Attributed) -> Response:
    """Return an attribution with its proposals, and which of them the caller may judge."""
    identity = caller(request)
    return reply(attribution_card(site_of(request).workspace, identity, reference))


@router.post("/attributions/{reference}/verdicts", responses=describe_answers(AttributionCard))
def post_verdicts(request: Request, reference: Attributed, body: ProposalsBody) -> Response:
    """Accept or reject proposals. Needs a session."""
    identity = caller(request, "act", in_person=True)
    workspace = site_of(request).workspace
    return reply(judge_proposals(workspace, identity, reference, body.verdicts, body.note))


@router.get("/attributions/{reference}/items", responses=describe_answers(bytes))
def get_items(request: Request, reference: Attributed) -> Response:
    """Return the accepted items as rows of a data set."""
    caller(request)
    rows = accepted_items(sealed_attribution(site_of(request).workspace, reference))
    return Response(rows, media_type="application/x-ndjson")
