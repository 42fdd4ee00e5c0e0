"""``gatemark schedule list``: every schedule, and what became of the latest occasions."""

from __future__ import annotations

from datetime import datetime

import msgspec

from gatemark.release.schedule.cadence import (
    SchedulePlan,
    find_next_fire,
    is_overdue,
)
from gatemark.release.schedule.failures import split_by_asset
from gatemark.release.schedule.open_stores import schedule_runs_of
from gatemark.release.schedule.stores import ScheduledRun
from gatemark.workspace import Workspace


class ScheduleLine(msgspec.Struct, frozen=True):
    """A schedule as listed."""

    id: str
    kind: str
    cron: str | None
    tz: str
    triggers: tuple[str, ...]
    command: str | None
    next_at: datetime | None
    last_done_at: datetime | None
    is_overdue: bool
    is_active: bool


def list_schedules(
    workspace: Workspace, plan: SchedulePlan, now: datetime
) -> tuple[ScheduleLine, ...]:
    """Return every schedule, with its next fire time and whether it is overdue."""
    plan = split_by_asset(workspace, plan)
    seen = schedule_runs_of(workspace).known_since([one.id for one in plan.schedules], now)
    lines = []
    for schedule in plan.schedules:
        done = schedule_runs_of(workspace).last_done(schedule.id, now)
        lines.append(
            ScheduleLine(
                id=schedule.id,
                kind=schedule.kind,
                cron=schedule.cron,
                tz=schedule.tz,
                triggers=schedule.triggers,
                command=" ".join(schedule.command) or None,
                next_at=find_next_fire(schedule, now),
                last_done_at=done,
                is_overdue=schedule.is_active
                and is_overdue(schedule, now, done or seen[schedule.id]),
                is_active=schedule.is_active,
            )
        )
    return tuple(lines)


def list_recent_runs(workspace: Workspace, limit: int) -> list[ScheduledRun]:
    """Return the outcomes of the latest occasions."""
    return schedule_runs_of(workspace).runs(limit)
