"""Metrics of a live asset that get worse, what the machine does about it, and schedules."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from typing import Any, Final

from store_fixture import data
from store_fixture.lifecycle import NOTE, to_shadow
from store_fixture.packs import examine
from store_fixture.stage import Stage

DESK: Final = "help-desk"
METRIC: Final = "golden_accuracy"
HEALTHY_DAYS: Final = 18
ITEMS: Final = 240
ALERTS: Final = "{gatemark_alerts: 1, sinks: [{kind: file, name: log, path: alerts.jsonl}]}"
POLICY: Final = "{gatemark_drift: 1, on_breach: stop}"
"""The desk has one version alone; a breach takes it away all the same."""
PROBED: Final = ("--alerts", "alerts.yaml", "--policy", "drift.yaml")
SCHEDULES: Final = """gatemark_schedules: 1
defaults: false
schedules:
  - {id: nightly-check, kind: regression, cron: "30 2 * * *", tz: Europe/Berlin,
     run: [ledger, verify], time_limit: 5m}
  - {id: gone, kind: regression, cron: "0 3 * * *", run: [show, deadbeef], time_limit: 1m}
  - {id: sweep, kind: adversarial, cron: "0 4 * * 6", triggers: [threat], catch_up: 1w,
     run: [list], time_limit: 1m}
"""


def live_desk(on: Stage) -> None:
    """A second asset whose first version goes live."""
    on.write("packs/desk.yaml", data.pack("v6", name=DESK, kind="prompt", asset=DESK))
    result = examine(on, "desk")
    ref = f"{DESK}@1.0.0"
    on.run("asset", "add", ref, "--kind", "prompt", "--from", result, actor="ben")
    on.run("asset", "pack", DESK, "packs/desk.yaml", actor="dai")
    to_shadow(on, "1.0.0", result, DESK)
    enable(on)


def enable(on: Stage) -> None:
    """From shadow to enabled, with a vote."""
    on.run("approve", f"{DESK}@1.0.0", "--to", "enabled", "--note", NOTE, actor="cleo")
    on.run("promote", f"{DESK}@1.0.0", "--to", "enabled", actor="dai")


def decline(on: Stage) -> None:
    """Healthy weeks, then worse every day: a warning, a breach, a demotion by the machine."""
    on.write("alerts.yaml", ALERTS)
    on.write("drift.yaml", POLICY)
    first = midnight(on)
    other_metrics(on, first)
    levels: list[str] = []
    for day in range(HEALTHY_DAYS + 10):
        rate = 0.94 - 0.03 * max(0, day - HEALTHY_DAYS + 1)
        levels = live_day(on, first + timedelta(days=day), rate)
        if "BREACH" in levels:
            break
    else:
        raise RuntimeError(f"no breach came, only {levels}")


def come_back(on: Stage) -> None:
    """A fresh result brings the asset back, and the probe closes the episode."""
    on.clock.add(hours=1)
    fresh = examine(on, "desk")
    to_shadow(on, "1.0.0", fresh, DESK)
    on.run("drift", "probe", *PROBED)
    enable(on)


def warned(on: Stage) -> None:
    """Two more metrics warn; of one a person says that it is normal now, the other stays open."""
    start = midnight(on)
    on.clock.reach(start + timedelta(days=1))
    push(
        on,
        data.day_point(DESK, "cost_per_call", start, value=9.0, n=1),
        data.day_point(DESK, "answer_words", start, value=190.0, n=30),
    )
    found = on.json("drift", "probe", *PROBED)
    named = {one["metric"]: one["id"] for one in found["episodes"]}
    reason = ("--reason", "new prices since spring")
    on.run("drift", "close", named["cost_per_call"], *reason, actor="dai")
    on.notes["open_episodes"] = [named["answer_words"]]


def other_metrics(on: Stage, first: datetime) -> None:
    """Days of every other form of a point, and one correction."""
    for day in range(HEALTHY_DAYS):
        start = first + timedelta(days=day - HEALTHY_DAYS - 1)
        draw = random.Random(day)  # noqa: S311 - invented data, not a secret
        few = draw.randint(3, 9)
        push(
            on,
            data.day_point(DESK, "cost_per_call", start, value=2.0 + day % 3 / 10, n=1),
            data.day_point(DESK, "latency_ms", start, sum=900.0 + few, n=60, sum_squares=14000.0),
            data.day_point(
                *(DESK, "tool_error_classes", start),
                categories={"timeout": few, "denied": 10 - few},
            ),
            data.day_point(
                *(DESK, "confidence_kl", start),
                histogram=[20 + few, 80 - few],
                edges=[0.0, 0.5, 1.0],
            ),
            data.day_point(
                *(DESK, "calibration_ece", start),
                calibration={
                    "items": [40, 80],
                    "confidence_sum": [16.0, 68.0],
                    "correct": [16, 60 + few],
                },
            ),
        )
    push(on, data.day_point(DESK, "cost_per_call", first - timedelta(days=2), value=2.4, n=1))


def push(on: Stage, *points: dict[str, Any]) -> None:
    """Hand points in."""
    on.run("drift", "push", on.lines("evidence/points.jsonl", points), actor="ben")


def live_day(on: Stage, start: datetime, rate: float) -> list[str]:
    """One day of golden items, handed in when it is over, and probed."""
    on.clock.reach(start + timedelta(days=1))
    draw = random.Random(start.toordinal())  # noqa: S311 - invented data, not a secret
    right = sum(draw.random() < rate for _ in range(ITEMS))
    cost = 2.0 + start.toordinal() % 3 / 10
    push(
        on,
        data.day_point(DESK, METRIC, start, k=right, n=ITEMS),
        data.day_point(DESK, "cost_per_call", start, value=cost, n=1),
        data.day_point(DESK, "answer_words", start, value=40.0 + start.toordinal() % 5, n=30),
    )
    found = on.json("drift", "probe", *PROBED)
    return [one["level"] for one in found["signals"] if one["metric"] == METRIC]


def midnight(on: Stage) -> datetime:
    """The next midnight of the story's clock."""
    day = on.clock.now.replace(hour=0, minute=0, second=0, microsecond=0)
    return day + timedelta(days=1)


def schedules(on: Stage) -> None:
    """Ticks that run, fail, come late and are overdue, and a threat that is told of."""
    file = on.write("schedules.yaml", SCHEDULES)
    now = midnight(on) + timedelta(hours=6)
    on.clock.reach(now)
    on.run("schedule", "tick", "--schedules", file, "--now", data.moment(now))
    on.run("schedule", "fire", "threat", "--id", "feed-7", "--now", data.moment(now))
    late = now + timedelta(days=4)
    on.clock.reach(late)
    on.run("schedule", "tick", "--schedules", file, "--now", data.moment(late))
    on.notes["schedules"] = ["nightly-check", "gone", "sweep"]
