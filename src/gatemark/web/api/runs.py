"""API routes for packs and runs; progress is sent as server-sent events."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import Field, StringConstraints

from gatemark.accounts.nouns import PageRun
from gatemark.web.api.accounts import Body
from gatemark.web.idempotency import KeyedRoute
from gatemark.web.openapi import describe_answers, reply
from gatemark.web.site import caller, site_of
from gatemark.web.stream import stream_steps

router = APIRouter(tags=["runs"], route_class=KeyedRoute)
RunPath = Annotated[str, Path(pattern=r"^[0-9a-f]{16}$")]


class RunStart(Body):
    """The pack to run; a run with a limit can never pass."""

    pack: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    limit: int | None = Field(default=None, ge=1, le=1_000_000)


@router.get("/packs", responses=describe_answers(tuple[str, ...]))
def packs(request: Request) -> Response:
    """List the packs that this server may run."""
    caller(request)
    return reply(site_of(request).board.packs())


@router.get("/runs", responses=describe_answers(tuple[PageRun, ...]))
def runs(request: Request, limit: Annotated[int, Query(ge=1, le=200)] = 50) -> Response:
    """List runs, newest first."""
    caller(request)
    site = site_of(request)
    site.board.settle(site.workspace)
    return reply(site.board.latest(site.workspace, limit))


@router.post("/runs", responses=describe_answers(PageRun, 202), status_code=202)
def start(request: Request, body: RunStart) -> Response:
    """Start a pack."""
    identity = caller(request, "run")
    site = site_of(request)
    return reply(site.board.start(site.workspace, identity, body.pack, body.limit), 202)


@router.get("/runs/{run}", responses=describe_answers(PageRun))
def one_run(request: Request, run: RunPath) -> Response:
    """Return the state of a run."""
    caller(request)
    site = site_of(request)
    return reply(site.board.get(site.workspace, run))


@router.post("/runs/{run}/resumption", responses=describe_answers(PageRun, 202), status_code=202)
def post_run_resumption(request: Request, run: RunPath) -> Response:
    """Resume an interrupted run."""
    identity = caller(request, "run")
    site = site_of(request)
    return reply(site.board.resume(site.workspace, identity, run), 202)


@router.get("/runs/{run}/steps", responses=describe_answers(bytes))
async def steps(request: Request, run: RunPath) -> Response:
    """Stream the progress of a run (text/event-stream), after Last-Event-ID if it is sent."""
    return await stream_steps(request, run)
