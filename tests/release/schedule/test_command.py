"""``gatemark schedule`` as a user meets it: cron, two workers, crashes, misses."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]

QUICK = "'--version'"
PLAN = """
gatemark_schedules: 1
defaults: false
schedules:
  - {{id: look, cron: "0 * * * *", run: [{command}], catch_up: 3h, time_limit: {limit}}}
  - {{id: sweep, triggers: [threat], run: ["--version"]}}
  - {{id: idle, cron: "0 1 * * *"}}
"""


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store"


def plan(tmp_path: Path, command: str = QUICK, limit: str = "1m") -> Path:
    path = tmp_path / "schedules.yaml"
    path.write_text(PLAN.format(command=command, limit=limit), encoding="utf-8")
    return path


def tick(gatemark: Run, store: Path, path: Path, now: str, *more: object) -> Any:
    return gatemark(
        *("schedule", "tick", "--store", store, "--schedules", path),
        *("--now", f"2026-03-01T{now}Z", *more),
    )


def states(ran: Any) -> list[tuple[str, str]]:
    return [(run["occasion"][11:16] or run["occasion"], run["state"]) for run in ran.json["runs"]]


def test_a_due_run_happens_once(gatemark: Run, tmp_path: Path, store: Path) -> None:
    path = plan(tmp_path)
    looked = tick(gatemark, store, path, "10:05:00", "--dry-run", "--json")
    assert [(o["id"], o["state"]) for o in looked.json["due"]][-1] == (
        "2026-03-01T10:00:00Z",
        "due",
    )
    first = tick(gatemark, store, path, "10:05:00", "--json")
    assert states(first)[-1] == ("10:00", "done")
    assert first.json["runs"][-1]["detail"] == "exit 0"
    assert states(tick(gatemark, store, path, "10:05:00", "--json")) == []


def test_missed_runs_become_one_and_stay_on_record(
    gatemark: Run, tmp_path: Path, store: Path
) -> None:
    path = plan(tmp_path)
    tick(gatemark, store, path, "01:05:00")
    late = tick(gatemark, store, path, "09:30:00", "--json")
    assert states(late) == [
        ("06:00", "expired"),
        ("07:00", "missed"),
        ("08:00", "missed"),
        ("09:00", "done"),
    ]
    assert late.json["overdue"] == ["look"]
    listed = gatemark(
        *("schedule", "list", "--store", store, "--schedules", path, "--runs", 20, "--json"),
        *("--now", "2026-03-01T09:31:00Z"),
    ).json
    recorded = {run["occasion"][11:16]: run["state"] for run in listed["runs"]}
    assert recorded["06:00"] == "expired"
    assert recorded["08:00"] == "missed"
    assert {line["id"]: line["is_overdue"] for line in listed["schedules"]}["look"] is False


def test_a_command_that_crashes_is_recorded_and_the_next_tick_goes_on(
    gatemark: Run, tmp_path: Path, store: Path
) -> None:
    path = plan(tmp_path, command="no-such-command")
    crashed = tick(gatemark, store, path, "10:05:00", "--json")
    assert crashed.code == 0
    assert states(crashed)[-1] == ("10:00", "failed")
    assert "no-such-command" in crashed.json["runs"][-1]["detail"]
    assert states(tick(gatemark, store, path, "11:05:00", "--json"))[-1] == ("11:00", "failed")
    warned = tick(gatemark, store, path, "12:05:00", "--json")
    assert warned.json["overdue"] == ["look"], "running and failing is not being done"


def test_a_command_that_never_ends_is_stopped(gatemark: Run, tmp_path: Path, store: Path) -> None:
    path = plan(tmp_path, command='serve, "--port", "0"', limit="2s")
    assert states(tick(gatemark, store, path, "10:05:00", "--json"))[-1] == ("10:00", "timed_out")


def test_an_overdue_schedule_warns_once(gatemark: Run, tmp_path: Path, store: Path) -> None:
    path = plan(tmp_path, command="no-such-command")
    alerts = tmp_path / "alerts.yaml"
    log = tmp_path / "alerts.jsonl"
    alerts.write_text(
        f"gatemark_alerts: 1\nsinks:\n  - {{kind: file, name: log, path: {log}}}\n",
        encoding="utf-8",
    )
    for hour in ("10", "11", "12", "13"):
        tick(gatemark, store, path, f"{hour}:05:00", "--alerts", alerts)
    lines = log.read_text().splitlines()
    (line,) = [line for line in lines if '"kind":"overdue"' in line]
    assert '"level":"WARN"' in line
    failed = [line for line in lines if '"kind":"schedule"' in line]
    assert len(failed) == 4, "every run that ends with an error is told about"
    assert all("the run ended with an error" in line for line in failed)


def test_a_clock_that_was_far_ahead_once_does_not_end_the_schedules(
    gatemark: Run, tmp_path: Path, store: Path
) -> None:
    path = plan(tmp_path)
    tick(gatemark, store, path, "09:05:00")
    ahead = gatemark(
        *("schedule", "tick", "--store", store, "--schedules", path),
        *("--now", "2027-03-01T00:00:00Z"),
    )
    assert ahead.code == 0
    back = tick(gatemark, store, path, "10:05:00", "--json")
    assert states(back) == [("10:00", "done")]
    assert states(tick(gatemark, store, path, "10:05:00", "--json")) == []
    failing = plan(tmp_path, command="no-such-command")
    tick(gatemark, store, failing, "11:05:00")
    late = tick(gatemark, store, failing, "12:05:00", "--json")
    assert late.json["overdue"] == ["look"], "what was done in another time does not count"


def test_what_a_scheduled_probe_finds_goes_to_the_sinks_of_the_tick(
    gatemark: Run, tmp_path: Path, store: Path
) -> None:
    points = tmp_path / "points.jsonl"
    hits = [187, 184, 189, 186, 188, 185, 187, 190, 186, 183, 188, 187, 185, 189, 186, 187, 150]
    lines = [
        f'{{"asset":"triage","metric":"golden_accuracy","start":"2026-02-{number:02}T00:00:00Z",'
        f'"end":"2026-02-{number + 1:02}T00:00:00Z","k":{k},"n":200}}\n'
        for number, k in enumerate(hits, start=1)
    ]
    points.write_text("".join(lines), encoding="utf-8")
    assert gatemark("drift", "push", "--store", store, points).code == 0
    alerts, log = tmp_path / "alerts.yaml", tmp_path / "alerts.jsonl"
    alerts.write_text(
        f"gatemark_alerts: 1\nsinks:\n  - {{kind: file, name: log, path: {log}}}\n",
        encoding="utf-8",
    )
    ticked = gatemark(
        *("schedule", "tick", "--store", store, "--alerts", alerts),
        *("--now", "2026-02-18T00:20:00Z"),
    )
    assert ticked.code == 0
    assert '"level":"WARN"' in log.read_text()
    assert "triage golden_accuracy" in log.read_text()


@pytest.mark.slow
def test_two_workers_at_once_share_the_work(gatemark: Run, tmp_path: Path, store: Path) -> None:
    path = plan(tmp_path)
    tick(gatemark, store, path, "00:05:00")
    command = [
        *(sys.executable, "-m", "gatemark", "schedule", "tick", "--store", str(store)),
        *("--schedules", str(path), "--now", "2026-03-01T03:10:00Z", "--json"),
    ]
    source = str(Path(__file__).parents[3] / "src")
    workers = [
        subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": source})
        for _ in range(3)
    ]
    outs = [worker.communicate()[0].decode() for worker in workers]
    assert all(worker.returncode == 0 for worker in workers)
    assert sum(out.count('"state": "done"') for out in outs) == 1
    assert sum(out.count('"state": "missed"') for out in outs) == 2


def test_a_threat_starts_the_sweep_once(gatemark: Run, tmp_path: Path, store: Path) -> None:
    path = plan(tmp_path)
    tick(gatemark, store, path, "10:05:00")
    fired = gatemark(
        *("schedule", "fire", "threat", "--id", "feed-7", "--store", store),
        *("--now", "2026-03-01T10:06:00Z"),
    )
    assert fired.out == "recorded\n"
    again = gatemark("schedule", "fire", "threat", "--id", "feed-7", "--store", store)
    assert again.out == "already recorded\n"
    swept = tick(gatemark, store, path, "10:07:00", "--json").json["runs"]
    assert [(run["schedule"], run["occasion"]) for run in swept] == [("sweep", "threat:feed-7")]
    assert tick(gatemark, store, path, "10:08:00", "--json").json["runs"] == []


def test_a_registered_version_is_a_change(gatemark: Run, tmp_path: Path, store: Path) -> None:
    path = tmp_path / "schedules.yaml"
    path.write_text(
        "gatemark_schedules: 1\ndefaults: false\nschedules:\n"
        '  - {id: full, triggers: [change], run: [schema, "gatemark.{asset}/1"]}\n',
        encoding="utf-8",
    )
    assert gatemark("role", "grant", "root", "admin", "--actor", "root", "--store", store).code == 0
    gatemark("role", "grant", "ann", "author", "--actor", "root", "--store", store)
    added = gatemark(
        *("asset", "add", "pair@1.0.0", "--kind", "prompt", "--digest", "sha256:" + "1" * 64),
        *("--actor", "ann", "--store", store),
    )
    assert added.code == 0, added.err
    ran = gatemark("schedule", "tick", "--store", store, "--schedules", path, "--json")
    (run,) = ran.json["runs"]
    assert (run["occasion"], run["state"]) == ("change:pair@1.0.0", "done")


def test_the_loop_ticks_and_stops(gatemark: Run, tmp_path: Path, store: Path) -> None:
    path = plan(tmp_path)
    ran = gatemark(
        *("schedule", "run", "--store", store, "--schedules", path),
        *("--ticks", 2, "--every", 0.05),
    )
    assert ran.code == 0
    assert ran.out.count("done ") == 1


def test_the_list_names_what_has_no_command(gatemark: Run, store: Path) -> None:
    ran = gatemark("schedule", "list", "--store", store, "--now", "2026-03-01T00:00:00Z")
    assert "active      drift" in ran.out
    assert "no asset    adversarial" in ran.out


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        ("schedules: []\n", "must start with gatemark_schedules: 1"),
        ("gatemark_schedules: 1\nschedules: [{id: x}]\n", "needs a cron line or a trigger"),
        ("gatemark_schedules: 1\nschedules: [{id: x, cron: often}]\n", "not a cron line"),
        ("gatemark_schedules: 1\nschedules: [{id: x, corn: '* * * * *'}]\n", "corn"),
        ("gatemark_schedules: 1\nschedules: [{id: x, cron: '0 0 30 2 *'}]\n", "not a cron line"),
        ("gatemark_schedules: 1\ndefaults: maybe\nschedules: []\n", "must be true or false"),
        ("gatemark_schedules: 1\ndefaults: false\nschedules: []\n", "has no schedules"),
    ],
)
def test_bad_schedules_are_refused(
    gatemark: Run, tmp_path: Path, store: Path, text: str, finding: str
) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(text, encoding="utf-8")
    ran = gatemark("schedule", "tick", "--store", store, "--schedules", path)
    assert (ran.code, finding in ran.err) == (2, True), ran.err


def test_a_moment_without_a_zone_is_refused(gatemark: Run, store: Path) -> None:
    ran = gatemark("schedule", "tick", "--store", store, "--now", "2026-03-01T00:00:00")
    assert ran.code == 2
    assert "needs a time zone" in ran.err
