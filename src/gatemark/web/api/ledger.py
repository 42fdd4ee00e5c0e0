"""API routes for the ledger: head, events, checkpoints and verification."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from gatemark.ledger.checks.report import LedgerReport
from gatemark.web.api.document import describe_answers, reply
from gatemark.web.api.idempotency import KeyedRoute
from gatemark.web.api.results import Cursor
from gatemark.web.areas.ledger import MAX_PAGE, event_page, ledger_head, make_checkpoint, verified
from gatemark.web.areas.views import CheckpointView, EventPage, LedgerHead
from gatemark.web.site import caller, site_of

router = APIRouter(tags=["ledger"], route_class=KeyedRoute)
Word = Annotated[str | None, Query(min_length=1, max_length=256)]


@router.get("/ledger", responses=describe_answers(LedgerHead))
def head(request: Request) -> Response:
    """Return the last event and all checkpoints."""
    caller(request)
    return reply(ledger_head(site_of(request).workspace))


@router.get("/ledger/events", responses=describe_answers(EventPage))
def events(
    request: Request,
    before: Cursor = None,
    kind: Word = None,
    subject: Word = None,
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE)] = 50,
) -> Response:
    """List events, newest first; ``next`` is the cursor of the next page."""
    identity = caller(request)
    workspace = site_of(request).workspace
    found = event_page(workspace, identity, before=before, kind=kind, subject=subject, limit=limit)
    return reply(found)


@router.get("/ledger/checkpoints", responses=describe_answers(tuple[CheckpointView, ...]))
def checkpoints(request: Request) -> Response:
    """List all checkpoints, newest first."""
    caller(request)
    return reply(ledger_head(site_of(request).workspace).checkpoints)


@router.post(
    "/ledger/checkpoints", responses=describe_answers(CheckpointView, 201), status_code=201
)
def post_checkpoint(request: Request) -> Response:
    """Sign a checkpoint with the server's key. Needs a session."""
    identity = caller(request, "act", in_person=True)
    site = site_of(request)
    return reply(make_checkpoint(site.workspace, identity, site.settings.signing_key), 201)


@router.post("/ledger/verification", responses=describe_answers(LedgerReport))
def verification(request: Request) -> Response:
    """Verify the whole ledger; one verification at a time."""
    caller(request)
    return reply(verified(site_of(request)))
