"""Idempotency-Key: a repeated request returns the first answer."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine
from contextlib import nullcontext
from http import HTTPStatus
from typing import Any, Final

import msgspec
from anyio.to_thread import run_sync
from fastapi import Request, Response
from fastapi.routing import APIRoute

from gatemark.core.canonical import digest
from gatemark.evidence.strict_json import parse_strictly
from gatemark.server.accounts.nouns import ALIVE_S
from gatemark.server.accounts.open_stores import answers_of, noting_events
from gatemark.server.guards import SAFE
from gatemark.server.problems import PROBLEM, ProblemResponse
from gatemark.server.site import Site, site_of, visitor

HEADER: Final = "idempotency-key"
REPEATABLE: Final = {"x-repeatable": True}
"""For the ``openapi_extra`` of a route whose repetition changes nothing and finishes the rest."""
ONCE: Final = frozenset({"secret", "link"})
"""Fields that are shown once; they are null in a repeated answer."""
MAX_DEPTH: Final = 64
_KEY: Final = re.compile(r"[\x21-\x7e]{1,128}\Z")
Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class KeyedRoute(APIRoute):
    """A route whose POST requests can be repeated safely."""

    def get_route_handler(self) -> Handler:
        """Return the handler, which stores answers by person and key."""
        usual = super().get_route_handler()
        is_repeatable = REPEATABLE.items() <= (self.openapi_extra or {}).items()

        async def handle(request: Request) -> Response:
            await _check_json(request)
            key = request.headers.get(HEADER)
            if request.method != "POST" or key is None:
                return await usual(request)
            if not _KEY.match(key):
                raise ProblemResponse(
                    HTTPStatus.BAD_REQUEST,
                    "an Idempotency-Key must have 1 to 128 visible characters",
                )
            return await _answer_once(request, key, usual, is_repeatable=is_repeatable)

        return handle


async def _check_json(request: Request) -> None:
    """Refuse an ambiguous JSON body, such as one with repeated keys, before anything acts on it."""
    kind = request.headers.get("content-type", "json").partition(";")[0]
    if request.method in SAFE or not kind.strip().lower().endswith("json"):
        return
    body = await request.body()
    if not body.strip():
        return
    _, problems = parse_strictly(body, max_depth=MAX_DEPTH)
    if problems:
        raise ProblemResponse(
            HTTPStatus.UNPROCESSABLE_ENTITY,
            "the request body is not valid JSON",
            reasons=tuple(f"{problem.path}: {problem.message}" for problem in problems[:20]),
        )


async def _answer_once(
    request: Request, key: str, usual: Handler, *, is_repeatable: bool
) -> Response:
    site = site_of(request)
    identity = await run_sync(lambda: visitor(request))
    if identity is None:
        return await usual(request)
    person = identity.person
    body = await request.body()
    name = digest({"path": request.url.path, "body": body.hex()})
    kept = await run_sync(
        lambda: answers_of(site.workspace).begin(person, key, name, site.workspace.clock())
    )
    if kept is not None:
        if kept.request != name:
            raise ProblemResponse(
                HTTPStatus.UNPROCESSABLE_ENTITY,
                "this Idempotency-Key was used for a different request",
            )
        if kept.lost:
            raise await run_sync(lambda: _report_lost_answer(site, kept.lost))
        if kept.status is None:
            raise ProblemResponse(
                HTTPStatus.CONFLICT,
                "the same request is still running",
                headers={"Retry-After": str(ALIVE_S)},
            )
        media_type = "application/json" if kept.status < 400 else PROBLEM
        again = {"Idempotency-Replayed": "true"}
        return Response(kept.body, kept.status, media_type=media_type, headers=again)
    done = False
    alive = asyncio.create_task(_touch(site, person, key))
    try:
        with nullcontext() if is_repeatable else noting_events(person, key):
            response = await usual(request)
        await run_sync(lambda: _keep(site, person, key, response))
        done = True
    finally:
        alive.cancel()
        # A refused request changed nothing, so the same key may be used again.
        if not done:
            await run_sync(lambda: answers_of(site.workspace).fail(person, key))
    return response


def _report_lost_answer(site: Site, numbers: tuple[int, ...]) -> ProblemResponse:
    """Return the answer to the repetition of a request that was carried out and not answered."""
    rows = site.workspace.store.events.rows_at(numbers)
    reasons = (
        f"event {row.seq}: {row.kind} of {row.subject or 'the store'}" for row in rows.values()
    )
    return ProblemResponse(
        HTTPStatus.CONFLICT,
        "this request was carried out, but the server stopped before it answered; look at what it "
        "wrote, and send what is still missing with a new Idempotency-Key",
        reasons=tuple(reasons),
    )


async def _touch(site: Site, person: str, key: str) -> None:
    """Refresh the lease of a running request, so that no other request takes over its key."""
    while True:
        await asyncio.sleep(ALIVE_S / 4)
        now = site.workspace.clock()
        await run_sync(lambda at: answers_of(site.workspace).touch(person, key, at), now)


def _keep(site: Site, person: str, key: str, response: Response) -> None:
    body = bytes(response.body)
    plain = msgspec.json.decode(body) if body else None
    if isinstance(plain, dict) and ONCE & plain.keys():
        body = msgspec.json.encode({**plain, **dict.fromkeys(ONCE & plain.keys())})
    answers_of(site.workspace).keep(person, key, response.status_code, body)
