"""Ticks of schedules with runs that take their time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from gatemark.release.schedule.cadence import Occasion, Schedule, SchedulePlan
from gatemark.release.schedule.open_stores import schedule_runs_of
from gatemark.release.schedule.stores import RunState
from gatemark.release.schedule.tick import tick_schedules
from gatemark.workspace import Workspace

NOW = datetime(2026, 3, 1, 10, 5, tzinfo=UTC)


def test_a_run_that_had_to_wait_is_claimed_for_its_own_time_and_ends_when_it_ended(
    tmp_path: Path,
) -> None:
    workspace = Workspace(store=str(tmp_path / "store"), clock=lambda: NOW)
    plan = SchedulePlan(
        tuple(
            Schedule(id=name, cron="0 * * * *", run=("schema",), catch_up="30m", time_limit="1h")
            for name in ("first", "second")
        )
    )
    passed = [0.0]
    lost = []

    def run(schedule: Schedule, _occasion: Occasion, _now: datetime) -> tuple[RunState, str]:
        passed[0] += 50 * 60
        if schedule.id == "second":
            # Another worker comes by while this one is at work, long after the tick began.
            lost.append(schedule_runs_of(workspace).abandon(NOW + timedelta(minutes=95)))
        return "done", "exit 0"

    tick_schedules(workspace, plan, now=NOW, worker="w", runner=run, stopwatch=lambda: passed[0])
    assert lost == [0]
    ended = {
        run.schedule: (run.claimed_at, run.finished_at)
        for run in schedule_runs_of(workspace).runs()
    }
    assert ended == {
        "first": (NOW, NOW + timedelta(minutes=50)),
        "second": (NOW + timedelta(minutes=50), NOW + timedelta(minutes=100)),
    }
