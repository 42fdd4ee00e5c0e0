"""``gatemark schedule tick``: run what is due, each occasion by exactly one worker.

(1) Give up runs whose worker is gone. (2) Record registered versions as triggers. (3) Warn about
overdue schedules. (4) Claim and run each occasion that is due. (5) Send the alerts.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

import msgspec

from gatemark.core.durations import seconds_of
from gatemark.ledger.event import EventDraft
from gatemark.ledger.event_kinds import SYSTEM
from gatemark.ledger.port import event_moment
from gatemark.release.alerts.alert import Alert, AlertPlan, alert_id
from gatemark.release.alerts.send import Delivered, queue_alert, send_pending
from gatemark.release.schedule.cadence import (
    Occasion,
    SchedulePlan,
    count_missed,
    find_next_fire,
    is_overdue,
    list_occasions,
    list_retries,
    list_triggered,
)
from gatemark.release.schedule.events import SCHEDULE_OVERDUE
from gatemark.release.schedule.failures import FailedRun, conclude_failure, split_by_asset
from gatemark.release.schedule.open_stores import schedule_runs_of
from gatemark.release.schedule.run_scheduled import Runner, make_runner
from gatemark.release.schedule.stores import RunState
from gatemark.release.schedule.triggers import record_changes
from gatemark.workspace import Workspace

logger = logging.getLogger(__name__)

GRACE_S: Final = 60
NO_SINKS: Final = AlertPlan()


class TickLine(msgspec.Struct, frozen=True):
    """What a tick did with one occasion."""

    schedule: str
    occasion: str
    due_at: datetime
    state: RunState
    detail: str


class ScheduleTick(msgspec.Struct, frozen=True):
    """One tick; the fields are the keys of the JSON document."""

    at: datetime
    runs: tuple[TickLine, ...]
    overdue: tuple[str, ...]
    abandoned: int
    alerts: tuple[Delivered, ...]


def tick_schedules(
    workspace: Workspace,
    plan: SchedulePlan,
    *,
    now: datetime,
    worker: str,
    alert_plan: AlertPlan = NO_SINKS,
    alerts_file: str | None = None,
    runner: Runner | None = None,
    stopwatch: Callable[[], float] = time.monotonic,
) -> ScheduleTick:
    """Claim and run what is due; skip what another worker has claimed.

    Runs follow each other; ``stopwatch`` (seconds) gives the time of each. Drift probes alert the
    sinks of ``alerts_file``.
    """
    started = stopwatch()

    def read_clock() -> datetime:
        return now + timedelta(seconds=stopwatch() - started)

    abandoned = schedule_runs_of(workspace).abandon(now)
    record_changes(workspace, now)
    plan = split_by_asset(workspace, plan)
    overdue = _warn_overdue(workspace, plan, now, alert_plan)
    by_id = {schedule.id: schedule for schedule in plan.schedules}
    run = runner or make_runner(workspace, alerts_file)
    lines = []
    for occasion in find_due(workspace, plan, now):
        schedule = by_id[occasion.schedule]
        lease = seconds_of(schedule.time_limit) + GRACE_S
        state = schedule_runs_of(workspace).claim(occasion, worker, read_clock(), lease)
        if state is None:
            logger.debug("left to another worker", extra=_make_log_fields(occasion))
            continue
        detail = f"{occasion.count} fire times" if occasion.state != "due" else ""
        if state == "running":
            logger.info("run claimed", extra=_make_log_fields(occasion) | {"worker": worker})
            began, head = stopwatch(), workspace.events.head().seq
            state, detail = run(schedule, occasion, now)
            schedule_runs_of(workspace).finish(occasion, state, read_clock(), detail)
            if state != "done":
                failed = FailedRun(schedule, occasion, state, detail, since=head)
                detail = conclude_failure(workspace, failed, now, alert_plan)
            took = {"state": state, "duration_s": round(stopwatch() - began, 3)}
            logger.info("run finished", extra=_make_log_fields(occasion) | took)
        lines.append(
            TickLine(
                schedule=schedule.id,
                occasion=occasion.id,
                due_at=occasion.due_at,
                state=state,
                detail=detail,
            )
        )
    sent = send_pending(workspace, alert_plan)
    counts = {"runs": len(lines), "overdue": len(overdue), "abandoned": abandoned}
    logger.info("schedule tick", extra=counts)
    return ScheduleTick(
        at=now, runs=tuple(lines), overdue=overdue, abandoned=abandoned, alerts=sent
    )


def find_due(workspace: Workspace, plan: SchedulePlan, now: datetime) -> tuple[Occasion, ...]:
    """Return what is due, missed or expired; changes nothing."""
    plan = split_by_asset(workspace, plan)
    triggers = schedule_runs_of(workspace).triggers(now)
    found: list[Occasion] = []
    for schedule in plan.schedules:
        if schedule.is_active:
            last = schedule_runs_of(workspace).last_due(schedule.id, now)
            found.extend(list_occasions(schedule, now, last))
            horizon = now - timedelta(seconds=seconds_of(schedule.catch_up))
            found.extend(
                list_retries(schedule, schedule_runs_of(workspace).since(schedule.id, horizon), now)
            )
            if schedule.triggers:
                done = schedule_runs_of(workspace).occasions(schedule.id)
                found.extend(list_triggered(schedule, triggers, done, now))
    return tuple(found)


def _warn_overdue(
    workspace: Workspace, plan: SchedulePlan, now: datetime, alert_plan: AlertPlan
) -> tuple[str, ...]:
    """Warn once about each schedule that is overdue."""
    active = [schedule for schedule in plan.schedules if schedule.is_active]
    seen = schedule_runs_of(workspace).first_seen([schedule.id for schedule in active], now)
    found = []
    for schedule in active:
        last = schedule_runs_of(workspace).last_done(schedule.id, now) or seen[schedule.id]
        if not is_overdue(schedule, now, last):
            continue
        found.append(schedule.id)
        missed = count_missed(schedule, now, last)
        reason = f"{missed} runs are missing since {last:%Y-%m-%d %H:%MZ}"
        identity = alert_id("overdue", schedule.id, last.isoformat())
        if not schedule_runs_of(workspace).note_once(f"overdue:{identity}", now):
            continue
        payload = {"schedule": schedule.id, "level": "WARN", "reason": reason, "missed": missed}
        workspace.events.append(
            [
                EventDraft(
                    SCHEDULE_OVERDUE, event_moment(workspace.events, now), SYSTEM, None, payload
                )
            ]
        )
        alert = Alert(
            id=identity,
            kind="overdue",
            level="WARN",
            subject=f"schedule {schedule.id} is overdue",
            reason=reason,
            at=now,
        )
        queue_alert(workspace, alert_plan, alert)
    return tuple(found)


def _make_log_fields(occasion: Occasion) -> dict[str, object]:
    return {"schedule": occasion.schedule, "occasion": occasion.id}


def count_seconds_until_next(plan: SchedulePlan, now: datetime, longest: float) -> float:
    """Return how many seconds a loop may sleep before something could be due."""
    moments = [
        moment
        for schedule in plan.schedules
        if schedule.is_active and (moment := find_next_fire(schedule, now)) is not None
    ]
    if not moments:
        return longest
    return max(0.0, min(longest, (min(moments) - now) / timedelta(seconds=1)))
