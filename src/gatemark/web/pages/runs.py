"""Pages for packs, runs and schedules."""

from __future__ import annotations

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import RedirectResponse

from gatemark.schedule.list_schedules import list_recent_runs, list_schedules
from gatemark.schedule.plan_file import read_schedules
from gatemark.web.render import Fields, form, member, one, page, read_whole_number
from gatemark.web.run_board import GOING, RUNNERS
from gatemark.web.site import site_of
from gatemark.web.stream import stream_steps

router = APIRouter()
SHOWN = 50


@router.get("/runs")
def runs_page(request: Request) -> Response:
    """Show packs and runs."""
    identity = member(request)
    site = site_of(request)
    site.board.settle(site.workspace)
    context = {
        "title": "Runs",
        "packs": site.board.packs(),
        "runs": site.board.latest(site.workspace),
        "may_run": bool(RUNNERS & set(identity.roles)),
    }
    return page(request, "runs.html", identity, context)


@router.post("/runs")
def runs_post(request: Request, fields: Fields) -> Response:
    """Start a pack."""
    identity = member(request)
    site = site_of(request)
    run = site.board.start(
        site.workspace, identity, one(fields, "pack"), read_whole_number(fields, "limit")
    )
    return RedirectResponse(f"/runs/{run.id}", status_code=303)


@router.get("/runs/{run}")
def run_page(request: Request, run: str) -> Response:
    """Show a run and its progress."""
    identity = member(request)
    site = site_of(request)
    found = site.board.get(site.workspace, run)
    context = {
        "title": f"Run of {found.pack}",
        "run": found,
        "is_going": found.state in GOING,
        "steps": latest_progress(site.board.steps(run, 0)),
        "may_run": bool(RUNNERS & set(identity.roles)),
    }
    return page(request, "run.html", identity, context)


def latest_progress(steps: object) -> list[dict[str, object]]:
    """Return the latest progress of each suite and arm."""
    found: dict[str, dict[str, object]] = {}
    for step in steps:  # type: ignore[attr-defined]
        if step.kind == "progress":
            found[step.data["name"]] = step.data
    return list(found.values())


@router.post("/runs/{run}/resume", dependencies=[Depends(form)])
def resume_post(request: Request, run: str) -> Response:
    """Resume an interrupted run."""
    identity = member(request)
    site = site_of(request)
    site.board.resume(site.workspace, identity, run)
    return RedirectResponse(f"/runs/{run}", status_code=303)


@router.get("/runs/{run}/steps")
async def steps_stream(request: Request, run: str) -> Response:
    """Stream the progress of a run as server-sent events."""
    return await stream_steps(request, run)


@router.get("/schedules")
def schedules_page(request: Request) -> Response:
    """Show every schedule and its latest runs."""
    identity = member(request)
    site = site_of(request)
    plan = read_schedules(site.settings.schedules)
    context = {
        "title": "Schedules",
        "lines": list_schedules(site.workspace, plan, site.workspace.clock()),
        "runs": list_recent_runs(site.workspace, SHOWN),
    }
    return page(request, "schedules.html", identity, context)
