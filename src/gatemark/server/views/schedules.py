"""Schedules: when each fires next, and the latest runs."""

from __future__ import annotations

from typing import Final

from gatemark.release.schedule.list_schedules import ScheduleLine, list_recent_runs, list_schedules
from gatemark.release.schedule.plan_file import read_schedules
from gatemark.server.doors import Context, Doors, Visit

doors = Doors("assets")
SHOWN: Final = 50


@doors.view("/schedules", tuple[ScheduleLine, ...])
def get_schedules(visit: Visit) -> tuple[ScheduleLine, ...]:
    """List the schedules and when each fires next."""
    plan = read_schedules(visit.site.settings.schedules)
    return list_schedules(visit.workspace, plan, visit.workspace.clock())


@get_schedules.page("/schedules", "schedules.html")
def schedules_page(visit: Visit, document: tuple[ScheduleLine, ...]) -> Context:
    """Show every schedule and its latest runs."""
    runs = list_recent_runs(visit.workspace, SHOWN)
    return {"title": "Schedules", "lines": document, "runs": runs}
