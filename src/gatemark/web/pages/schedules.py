"""The page for schedules and their latest runs."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from gatemark.schedule.journey import list_schedules, read_plan, recent_runs
from gatemark.web.render import member, page
from gatemark.web.site import site_of

router = APIRouter()
SHOWN = 50


@router.get("/schedules")
def schedules_page(request: Request) -> Response:
    """Show every schedule and its latest runs."""
    identity = member(request)
    site = site_of(request)
    plan = read_plan(site.settings.schedules)
    context = {
        "title": "Schedules",
        "lines": list_schedules(site.workspace, plan, site.workspace.clock()),
        "runs": recent_runs(site.workspace, SHOWN),
    }
    return page(request, "schedules.html", identity, context)
