"""The points at which features log, by the fields that an operator looks for."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.release.drift.live import ASSET, Live, lively
from tests.targets.rigs import Answers, questions, run

from gatemark.evidence.engines.local import LocalEngine
from gatemark.release.schedule.cadence import Occasion, Schedule, SchedulePlan
from gatemark.release.schedule.stores import RunState
from gatemark.release.schedule.tick import tick_schedules
from gatemark.targets.run_options import RunOptions
from gatemark.targets.spending import Budget
from gatemark.workspace import Workspace

NOW = datetime(2026, 3, 1, 10, 5, tzinfo=UTC)


@pytest.fixture(autouse=True)
def everything(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", logger="gatemark")


def found(caplog: pytest.LogCaptureFixture, message: str) -> list[dict[str, Any]]:
    return [vars(record) for record in caplog.records if record.getMessage() == message]


def test_drift_logs_a_tick_and_what_was_done(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    live = Live(str(tmp_path / "store"), tmp_path)
    live.enable()
    live.push(0, [*lively(), 0.5, 0.5])
    live.probe(18)
    (tick,) = found(caplog, "drift tick")
    assert (tick["open"], tick["actions"] > 0) == (1, True)
    actions = found(caplog, "drift action")
    assert {action["asset"] for action in actions} == {ASSET}
    assert "demote" in {action["action"] for action in actions}


def test_schedules_log_claims_ends_and_the_tick(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    def fail(_schedule: Schedule, _occasion: Occasion, _now: datetime) -> tuple[RunState, str]:
        return "failed", "exit 2: hunter2"

    workspace = Workspace(store=str(tmp_path / "store"), clock=lambda: NOW)
    hourly = Schedule(id="hourly", cron="0 * * * *", run=("schema",), catch_up="30m")
    plan = SchedulePlan((hourly,))
    tick_schedules(workspace, plan, now=NOW, worker="w", runner=fail, stopwatch=lambda: 0.0)
    (claimed,), (ended,) = found(caplog, "run claimed"), found(caplog, "run finished")
    assert (claimed["schedule"], claimed["worker"]) == ("hourly", "w")
    assert (ended["occasion"], ended["state"]) == (claimed["occasion"], "failed")
    assert found(caplog, "schedule tick")[0]["runs"] == 1
    assert not [record for record in caplog.records if "hunter2" in str(vars(record))]


def test_a_spent_budget_and_a_failed_call_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    def fail(_: object) -> str:
        raise ValueError("hunter2")

    run(Answers(fail), questions(3), RunOptions(budget=Budget(calls=2)))
    assert [failed["id"] for failed in found(caplog, "call failed")] == ["q0000", "q0001"]
    (halted,) = found(caplog, "calls halted")
    assert (halted["kind"], halted["calls"]) == ("budget", 2)
    (ended,) = found(caplog, "calls finished")
    assert (ended["calls"], ended["errors"]) == (3, 3)
    assert not [record for record in caplog.records if "hunter2" in str(vars(record))]


def test_an_engine_logs_its_shards(caplog: pytest.LogCaptureFixture) -> None:
    assert list(LocalEngine(1).run(bytes.upper, [b"a", b"b"])) == [b"A", b"B"]
    (start,) = found(caplog, "shards start")
    assert (start["engine"], start["shards"], start["workers"]) == ("local", 2, 1)
