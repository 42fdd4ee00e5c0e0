"""Pages of approvals: the steps that wait for one, and the form for a vote."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from gatemark.lifecycle.commands import VOTED_STAGES, Approve
from gatemark.web.areas.moves import carry_out
from gatemark.web.areas.overview import open_step, open_steps, step_packet
from gatemark.web.render import Fields, back, member, one, page
from gatemark.web.request_body import form_body, form_limits
from gatemark.web.site import site_of

router = APIRouter()


@router.get("/approvals")
def approvals_page(request: Request) -> Response:
    """Show every open step."""
    identity = member(request)
    steps = open_steps(site_of(request).workspace, identity)
    context = {"title": "Approvals", "steps": steps}
    return page(request, "approvals.html", identity, context)


@router.get("/approvals/{asset}/{version}")
def step_page(request: Request, asset: str, version: str) -> Response:
    """Show an open step and the form for a vote."""
    identity = member(request)
    step = open_step(site_of(request).workspace, identity, asset, version)
    may_vote = bool({"approver", "security_approver"} & set(identity.roles))
    context = {
        "title": f"{asset}@{version}: to {step.to}",
        "step": step,
        "may_vote": may_vote,
        "stage": next(word for word, stage in VOTED_STAGES.items() if stage == step.to),
        "vote": form_limits(Approve),
        "packet": step_packet(site_of(request).workspace, step),
    }
    return page(request, "approval_vote.html", identity, context)


@router.post("/approvals/{asset}/{version}")
def step_post(request: Request, asset: str, version: str, fields: Fields) -> Response:
    """Store a vote."""
    identity = member(request)
    given = form_body(Approve, fields)
    workspace = site_of(request).workspace
    tag = one(fields, "tag")
    carry_out(workspace, identity, Approve, given, tag, asset=asset, version=version)
    return back("/approvals", "voted")
