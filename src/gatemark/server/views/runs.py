"""Packs and their runs on this server; progress is sent as server-sent events."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Final

from fastapi import Path, Request, Response

from gatemark.packs.run_choices import StartRun
from gatemark.release.lifecycle.roles import EVALUATING
from gatemark.server.accounts.nouns import PageRun
from gatemark.server.doors import Context, Doors, Visit
from gatemark.server.openapi import describe_answers
from gatemark.server.parameters import Limit
from gatemark.server.request_body import FormFields
from gatemark.server.run_board import GOING, RunStep
from gatemark.server.stream import stream_steps

RUN: Final[Any] = Path(pattern=r"^[0-9a-f]{16}$")
doors = Doors("runs", {"run": RUN})
SHOWN: Final = 50


@doors.view("/packs", tuple[str, ...])
def packs(visit: Visit) -> tuple[str, ...]:
    """List the packs that this server may run."""
    return visit.site.board.packs()


@doors.view("/runs", tuple[PageRun, ...])
def runs(visit: Visit, limit: Limit = 50) -> tuple[PageRun, ...]:
    """List runs, newest first."""
    visit.site.board.settle(visit.workspace)
    return visit.site.board.latest(visit.workspace, limit)


@runs.page("/runs", "runs.html", limit=SHOWN)
def runs_page(visit: Visit, document: tuple[PageRun, ...]) -> Context:
    """Show packs and runs."""
    return {
        "title": "Runs",
        "packs": visit.site.board.packs(),
        "runs": document,
        "may_run": bool(EVALUATING & set(visit.identity.roles)),
        "asked": FormFields(StartRun),
    }


@doors.view("/runs/{run}", PageRun)
def one_run(visit: Visit, run: str) -> PageRun:
    """Return the state of a run."""
    return visit.site.board.get(visit.workspace, run)


@one_run.page("/runs/{run}", "run.html")
def run_page(visit: Visit, document: PageRun) -> Context:
    """Show a run and its progress."""
    return {
        "title": f"Run of {document.pack}",
        "run": document,
        "is_going": document.state in GOING,
        "steps": _latest_progress(visit.site.board.steps(document.id, 0)),
        "may_run": bool(EVALUATING & set(visit.identity.roles)),
    }


def _latest_progress(steps: Iterable[RunStep]) -> list[dict[str, object]]:
    """Return the latest progress of each suite and arm."""
    return list(
        {step.data["name"]: step.data for step in steps if step.kind == "progress"}.values()
    )


@doors.interface.get("/runs/{run}/steps", responses=describe_answers(bytes))
async def steps(request: Request, run: Annotated[str, RUN]) -> Response:
    """Stream the progress of a run (text/event-stream), after Last-Event-ID if it is sent."""
    return await stream_steps(request, run)


@doors.pages.get("/runs/{run}/steps")
async def steps_of_page(request: Request, run: str) -> Response:
    """Stream the progress of a run to its page."""
    return await stream_steps(request, run)


@doors.act("/runs", PageRun, command=StartRun, status=202, scope="run")
def start(visit: Visit, command: StartRun) -> PageRun:
    """Start a pack."""
    board = visit.site.board
    return board.start(visit.workspace, visit.identity, command.pack, command.limit)


start.form("/runs", to="/runs/{id}")


@doors.act("/runs/{run}/resumption", PageRun, status=202, scope="run")
def post_run_resumption(visit: Visit, run: str) -> PageRun:
    """Resume an interrupted run."""
    return visit.site.board.resume(visit.workspace, visit.identity, run)


post_run_resumption.form("/runs/{run}/resume", to="/runs/{run}")
