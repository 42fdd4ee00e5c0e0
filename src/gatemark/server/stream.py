"""Stream the progress of a run as server-sent events, resumable by ``Last-Event-ID``."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Final

import msgspec
from anyio.to_thread import run_sync
from fastapi import Request
from fastapi.responses import StreamingResponse

from gatemark.server.run_board import GOING, RunStep
from gatemark.server.site import Site, caller, site_of

LOOK_EVERY_S: Final = 0.2
BEAT_EVERY: Final = 75
"""Polls without progress between two keep-alive comments."""


async def stream_steps(request: Request, run: str) -> StreamingResponse:
    """Stream all progress after ``Last-Event-ID`` until the run has ended."""
    site = site_of(request)

    def poll() -> None:
        caller(request)
        site.board.get(site.workspace, run)

    await run_sync(poll)
    last = request.headers.get("last-event-id", "0")
    after = int(last) if last.isascii() and last.isdigit() and len(last) < 10 else 0
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(
        _stream_events(request, site, run, after), media_type="text/event-stream", headers=headers
    )


async def _stream_events(
    request: Request, site: Site, run: str, after: int
) -> AsyncIterator[bytes]:
    quiet = 0
    yield b"retry: 1000\n\n"
    while not await request.is_disconnected():
        steps = site.board.steps(run, after)
        for step in steps:
            after = step.number
            yield _format_event(step)
            if step.kind == "state" and step.data["state"] not in GOING:
                return
        if not steps:
            quiet += 1
            if quiet % BEAT_EVERY == 0:
                yield b": still here\n\n"
            # Another server may run it, or it ended before this server started.
            if quiet % 10 == 1:
                found = await run_sync(lambda: site.board.get(site.workspace, run))
                if found.state not in GOING and not site.board.steps(run, after):
                    message: dict[str, object] = {
                        "state": found.state,
                        "result_id": found.result_id,
                    }
                    data = {**message, "verdict": None, "detail": found.detail}
                    yield _format_event(RunStep(after + 1, "state", data))
                    return
        await asyncio.sleep(LOOK_EVERY_S)


def _format_event(step: RunStep) -> bytes:
    data = msgspec.json.encode(step.data)
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (step.number, step.kind.encode(), data)
