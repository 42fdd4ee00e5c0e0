"""The application: the doors of every thing, problem responses, and guards."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Final
from uuid import uuid4

import anyio.to_thread
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from gatemark import __version__
from gatemark.core.errors import GatemarkError, OutageError
from gatemark.server.guards import Guards
from gatemark.server.openapi import describe
from gatemark.server.problems import ProblemResponse, problem_of
from gatemark.server.render import STATIC, SignInFirst, load_templates, page, static_file
from gatemark.server.request_log import HEADER, REQUEST_ID_KEY, RequestLog
from gatemark.server.settings import ServerSettings
from gatemark.server.site import Site, refresh_state, visitor
from gatemark.server.views import (
    accounts,
    approvals,
    assets,
    attributions,
    comparison,
    drift,
    labels,
    ledger,
    measurements,
    moves,
    overview,
    policies,
    results,
    reviews,
    runs,
    schedules,
    sign_in,
)
from gatemark.server.workspaces import OpenWorkspace

logger = logging.getLogger(__name__)

API: Final = "/api/v1"
NOT_OURS: Final = {
    HTTPStatus.NOT_FOUND: "not found",
    HTTPStatus.METHOD_NOT_ALLOWED: "this address does not support that method",
}
"""Problem details for errors that the framework raises."""
THINGS: Final = (
    *(overview, assets, drift, approvals, moves, policies, measurements),
    *(results, comparison, ledger, runs, schedules),
    *(sign_in, accounts, reviews, labels, attributions),
)


def create_app(settings: ServerSettings, open_workspace: OpenWorkspace) -> FastAPI:
    """Return the server. ``open_workspace`` opens a workspace to read, or for a named person."""
    site = Site(settings, open_workspace)

    @asynccontextmanager
    async def life(_: FastAPI) -> AsyncIterator[None]:
        anyio.to_thread.current_default_thread_limiter().total_tokens = settings.threads
        await anyio.to_thread.run_sync(lambda: _make_ready(site))
        yield
        site.board.stop()
        await anyio.to_thread.run_sync(lambda: _tell_last(site))

    app = FastAPI(
        title="Gatemark",
        version=__version__,
        openapi_url=f"{API}/openapi.json",
        docs_url=None,
        redoc_url=None,
        lifespan=life,
    )
    app.state.site = site
    app.state.drawn = {}
    # Routes are tried in order, and pages are requested most often.
    for thing in THINGS:
        app.include_router(thing.doors.pages, include_in_schema=False)
    for thing in THINGS:
        app.include_router(thing.doors.interface, prefix=API)
    app.add_api_route("/static/{name}", _send_static, include_in_schema=False)
    describe(app)
    _tell_problems(app)
    app.add_middleware(Guards, settings=settings, clock=time.monotonic)
    app.add_middleware(RequestLog, api=API, new_id=lambda: uuid4().hex, clock=time.monotonic)
    return app


def _make_ready(site: Site) -> None:
    """Load templates, workspaces and caches before the first request."""
    load_templates()
    site.workspaces.prepare(
        site.settings.threads, lambda workspace: refresh_state(workspace, once=True)
    )
    site.board.settle(site.workspace)


def _tell_last(site: Site) -> None:
    try:
        site.failures.settle(site.workspace, at_once=True)
    except GatemarkError as error:
        logger.warning("failed sign-ins were not recorded", extra={"reason": str(error)})


def _send_static(name: str) -> Response:
    if name not in STATIC:
        raise ProblemResponse(HTTPStatus.NOT_FOUND, "not found")
    kept = {"Cache-Control": "public, max-age=31536000, immutable"}
    return Response(static_file(name), media_type=STATIC[name], headers=kept)


def _tell_problems(app: FastAPI) -> None:
    def tell(request: Request, problem: ProblemResponse) -> Response:
        logger.info("refused", extra={"status": int(problem.status)})
        if request.url.path.startswith("/api/"):
            return problem.response()
        try:
            identity = visitor(request)
        except (ProblemResponse, OutageError):
            identity = None
        found = page(request, "error.html", identity, {"problem": problem}, int(problem.status))
        found.headers.update(problem.headers)
        return found

    def ours(request: Request, error: Exception) -> Response:
        # Errors while the body is read arrive wrapped in another exception.
        error = error.__cause__ if isinstance(error.__cause__, ProblemResponse) else error
        if isinstance(error, ProblemResponse):
            return tell(request, error)
        if isinstance(error, SignInFirst):
            return error.response()
        if isinstance(error, GatemarkError):
            return tell(request, problem_of(error))
        if isinstance(error, RequestValidationError):
            reasons = tuple(
                f"{'.'.join(str(step) for step in one['loc'])}: {one['msg']}"
                for one in error.errors()[:20]
            )
            status = HTTPStatus.UNPROCESSABLE_ENTITY
            return tell(
                request,
                ProblemResponse(
                    status, "the request does not match the interface", reasons=reasons
                ),
            )
        if isinstance(error, HTTPException):
            status = HTTPStatus(error.status_code)
            headers = dict(error.headers or {})
            detail = NOT_OURS.get(status, str(error.detail))
            return tell(request, ProblemResponse(status, detail, headers=headers))
        status = HTTPStatus.INTERNAL_SERVER_ERROR
        current = request.scope.get(REQUEST_ID_KEY)
        return ProblemResponse(
            status,
            "internal error; see the server's log",
            headers={} if current is None else {HEADER: current},
        ).response()

    for kind in (
        ProblemResponse,
        SignInFirst,
        GatemarkError,
        RequestValidationError,
        HTTPException,
    ):
        app.add_exception_handler(kind, ours)
    app.add_exception_handler(Exception, ours)
