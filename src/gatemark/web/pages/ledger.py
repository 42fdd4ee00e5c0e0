"""Pages for the ledger: events, checkpoints, and verification."""

from __future__ import annotations

from fastapi import APIRouter, Depends, Request, Response

from gatemark.accounts.identity import Identity
from gatemark.core.canonical import json_text
from gatemark.web.areas.ledger import event_page, ledger_head, make_checkpoint, may_sign, verified
from gatemark.web.render import back, form, member, page
from gatemark.web.site import Site, site_of

router = APIRouter()
SHOWN = 30


@router.get("/ledger")
def ledger_page(
    request: Request, before: int | None = None, kind: str = "", subject: str = ""
) -> Response:
    """Show events, newest first."""
    identity = member(request)
    context = _build_context(site_of(request), identity, before, kind, subject)
    return page(request, "ledger.html", identity, context)


def _build_context(
    site: Site, identity: Identity, before: int | None, kind: str, subject: str
) -> dict[str, object]:
    view = event_page(
        site.workspace,
        identity,
        before=before,
        kind=kind or None,
        subject=subject or None,
        limit=SHOWN,
    )
    payloads = {
        event.seq: json_text(event.payload) for event in view.items if event.payload is not None
    }
    return {
        "title": "Ledger",
        "view": view,
        "payloads": payloads,
        "head": ledger_head(site.workspace),
        "kind": kind,
        "subject": subject,
        "report": None,
        "may_sign": site.settings.signing_key is not None and may_sign(identity),
    }


@router.post("/ledger/verify", dependencies=[Depends(form)])
def post_ledger_verify(request: Request) -> Response:
    """Verify the whole ledger; one verification at a time."""
    identity = member(request)
    site = site_of(request)
    report = verified(site)
    context = {**_build_context(site, identity, None, "", ""), "report": report}
    return page(request, "ledger.html", identity, context)


@router.post("/ledger/checkpoints", dependencies=[Depends(form)])
def checkpoint_post(request: Request) -> Response:
    """Sign a checkpoint."""
    identity = member(request)
    site = site_of(request)
    make_checkpoint(site.workspace, identity, site.settings.signing_key)
    return back("/ledger", "signed")
