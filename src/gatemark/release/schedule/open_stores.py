"""The store of schedules in a workspace."""

from __future__ import annotations

from gatemark.release.schedule.stores import SqlRuns
from gatemark.workspace import Workspace


def schedule_runs_of(workspace: Workspace) -> SqlRuns:
    """Return the scheduled runs and the workers that claimed them."""
    return workspace.store_of(SqlRuns)
