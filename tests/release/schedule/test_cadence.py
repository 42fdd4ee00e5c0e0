from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatemark.core.errors import InvalidValueError
from gatemark.release.schedule.cadence import (
    DEFAULT_PLAN,
    MOST_MISSES,
    Schedule,
    SchedulePlan,
    Trigger,
    count_missed,
    find_next_fire,
    is_overdue,
    list_occasions,
    list_triggered,
)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def nightly(**more: Any) -> Schedule:
    return Schedule(**{"id": "n", "cron": "30 2 * * *", "run": ("list",), **more})


def told(schedule: Schedule, now: str, last: str | None = None) -> list[tuple[str, str, int]]:
    found = list_occasions(schedule, at(now), None if last is None else at(last))
    return [(one.id, one.state, one.count) for one in found]


def test_the_default_plan_is_the_cadence_of_the_source() -> None:
    by_kind: dict[str, list[Schedule]] = {}
    for schedule in DEFAULT_PLAN.schedules:
        by_kind.setdefault(schedule.kind, []).append(schedule)
    assert [s.triggers for s in by_kind["required_pack"]] == [("change",)]
    assert len(by_kind["regression"]) == 8
    assert all(s.cron == "0 2 * * *" for s in by_kind["regression"])
    assert [s.cron for s in by_kind["drift"]] == ["15 0 * * *"]
    assert {s.asset_class for s in by_kind["calibration_refit"]} == {"extractor", "classifier"}
    weekly = [*by_kind["calibration_refit"], *by_kind["adversarial"]]
    assert all(s.cron is not None and s.cron.endswith(("* * 0", "* * 6")) for s in weekly)
    assert by_kind["adversarial"][0].triggers == ("threat",)
    active = {s.kind for s in DEFAULT_PLAN.schedules if s.is_active}
    assert active == {"required_pack", "regression", "drift", "adversarial"}
    assert all(s.is_per_asset for s in DEFAULT_PLAN.schedules if s.is_active and s.kind != "drift")


def test_a_run_is_due_from_its_moment_on_and_only_until_it_is_dealt_with() -> None:
    assert told(nightly(), "2026-03-02T02:29:59", "2026-03-01T02:30:00") == []
    due = ("2026-03-02T02:30:00Z", "due", 1)
    assert told(nightly(), "2026-03-02T02:30:00", "2026-03-01T02:30:00") == [due]
    assert told(nightly(), "2026-03-02T09:00:00", "2026-03-02T02:30:00") == []


def test_a_schedule_that_never_ran_owes_its_latest_run_only() -> None:
    assert told(nightly(), "2026-03-02T09:00:00") == [("2026-03-02T02:30:00Z", "due", 1)]
    weekly = nightly(cron="0 3 * * 0", catch_up="1w")
    assert told(weekly, "2026-03-04T00:00:00") == [("2026-03-01T03:00:00Z", "due", 1)]


def test_misses_become_one_run_and_are_told() -> None:
    hourly = nightly(cron="0 * * * *", catch_up="4h")
    found = told(hourly, "2026-03-02T09:10:00", "2026-03-02T06:00:00")
    assert found == [
        ("2026-03-02T07:00:00Z", "missed", 1),
        ("2026-03-02T08:00:00Z", "missed", 1),
        ("2026-03-02T09:00:00Z", "due", 1),
    ]


def test_what_is_too_old_to_make_up_for_is_expired_in_one_line() -> None:
    found = told(nightly(), "2026-03-09T03:00:00", "2026-03-02T02:30:00")
    assert found == [
        ("2026-03-08T02:30:00Z", "expired", 6),
        ("2026-03-09T02:30:00Z", "due", 1),
    ]
    late = told(nightly(catch_up="1h"), "2026-03-09T09:00:00", "2026-03-02T02:30:00")
    assert late == [("2026-03-09T02:30:00Z", "expired", 7)]


def test_a_clock_that_goes_back_owes_nothing() -> None:
    assert told(nightly(), "2026-03-01T09:00:00", "2026-03-05T02:30:00") == []


def test_a_clock_that_jumps_far_ahead_ends_in_bounded_work() -> None:
    minutely = nightly(cron="* * * * *", catch_up="1h")
    expired, *rest = told(minutely, "2026-03-09T00:00:00", "2026-03-01T00:00:00")
    assert expired[1:] == ("expired", MOST_MISSES)
    assert [state for _, state, _ in rest] == [*["missed"] * 59, "due"]


BERLIN = {"tz": "Europe/Berlin"}


def fires(schedule: Schedule, start: str, count: int) -> list[str]:
    times = schedule.fire_times(at(start))
    return [next(times).strftime("%m-%dT%H:%MZ") for _ in range(count)]


def test_the_hour_that_does_not_exist_runs_once_right_after_it() -> None:
    assert fires(nightly(**BERLIN), "2026-03-28T00:00:00", 3) == [
        "03-28T01:30Z",
        "03-29T01:00Z",
        "03-30T00:30Z",
    ]


def test_the_hour_that_comes_twice_runs_once() -> None:
    assert fires(nightly(**BERLIN), "2026-10-24T00:00:00", 3) == [
        "10-24T00:30Z",
        "10-25T00:30Z",
        "10-26T01:30Z",
    ]


def test_half_hours_run_through_both_changes() -> None:
    steady = nightly(cron="*/30 * * * *", **BERLIN)
    for start in ("2026-03-28T23:00:00", "2026-10-24T23:00:00"):
        times = steady.fire_times(at(start))
        moments = [next(times) for _ in range(12)]
        steps = {(b - a) / timedelta(minutes=30) for a, b in pairwise(moments)}
        assert steps == {1.0}


@pytest.mark.parametrize("tz", ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"])
def test_a_year_of_nightly_runs_has_one_per_night_everywhere(tz: str) -> None:
    schedule = nightly(tz=tz)
    moment, owed = at("2026-01-01T00:00:00"), 0
    last: datetime | None = at("2025-12-31T23:59:00")
    for _ in range(365 * 4):
        moment += timedelta(hours=6)
        for one in list_occasions(schedule, moment, last):
            owed += 1
            assert one.state == "due"
            last = one.due_at
    assert 364 <= owed <= 366


def test_jitter_moves_a_schedule_by_the_same_amount_every_time() -> None:
    plain, moved = nightly(), nightly(jitter="30m")
    offset = moved.offset
    assert timedelta(0) <= offset < timedelta(minutes=30)
    base = plain.fire_times(at("2026-03-01T00:00:00"))
    late = moved.fire_times(at("2026-03-01T00:00:00"))
    assert all(next(late) - next(base) == offset for _ in range(5))
    assert nightly(id="other", jitter="30m").offset != offset


def test_triggers_start_the_schedules_that_wait_for_them_once() -> None:
    sweep = nightly(id="sweep", triggers=("threat",))
    triggers = [
        Trigger("threat", "t1", at("2026-03-01T00:00:00")),
        Trigger("change", "c1", at("2026-03-01T00:00:00"), "triage"),
    ]
    (one,) = list_triggered(sweep, triggers, frozenset(), at("2026-03-01T12:00:00"))
    assert (one.id, one.state) == ("threat:t1", "due")
    assert (
        list_triggered(sweep, triggers, frozenset({"threat:t1"}), at("2026-03-01T12:00:00")) == []
    )
    (change,) = list_triggered(
        nightly(triggers=("change",)), triggers, frozenset(), at("2026-03-01T12:00:00")
    )
    assert change.asset == "triage"


def test_two_missing_runs_are_overdue_and_one_is_not() -> None:
    last = at("2026-03-01T02:30:00")
    assert not is_overdue(nightly(), at("2026-03-02T09:00:00"), last)
    assert count_missed(nightly(), at("2026-03-03T09:00:00"), last) == 2
    assert is_overdue(nightly(), at("2026-03-03T09:00:00"), last)
    assert find_next_fire(nightly(), last) == at("2026-03-02T02:30:00")
    assert find_next_fire(Schedule(id="t", triggers=("threat",)), last) is None


@settings(deadline=None, max_examples=50)
@given(
    st.integers(0, 60 * 24 * 40),
    st.one_of(st.none(), st.integers(0, 60 * 24 * 40)),
    st.sampled_from(["0 2 * * *", "*/20 * * * *", "15 0 * * 1", "0 4 1 * *"]),
)
def test_at_most_one_run_is_ever_due_and_nothing_is_owed_twice(
    minute: int, last_minute: int | None, cron: str
) -> None:
    start = at("2026-03-20T00:00:00")
    now = start + timedelta(minutes=minute)
    last = None if last_minute is None else start + timedelta(minutes=last_minute)
    schedule = nightly(cron=cron, tz="Europe/Berlin", catch_up="2d")
    found = list_occasions(schedule, now, last)
    assert sum(one.state == "due" for one in found) <= 1
    assert all(one.due_at <= now and (last is None or one.due_at > last) for one in found)
    ids = [one.id for one in found]
    assert len(set(ids)) == len(ids)
    if found and found[-1].state == "due":
        assert list_occasions(schedule, now, found[-1].due_at) == []
    assert found == list_occasions(schedule, now, last), "the same question has the same answer"


@pytest.mark.parametrize(
    ("fields", "finding"),
    [
        ({"cron": None}, "needs a cron line or a trigger"),
        ({"cron": "61 * * * *"}, "is not a cron line"),
        ({"cron": "* * * *"}, "is not a cron line"),
        ({"cron": "0 0 2 * * *"}, "five fields"),
        ({"cron": "0 0 31 2 *"}, "cron line|come true"),
        ({"tz": "Mars/Olympus"}, "unknown time zone 'Mars/Olympus'"),
        ({"tz": "../etc/passwd"}, "unknown time zone"),
        ({"catch_up": "soon"}, "is not a duration"),
        ({"time_limit": "0s"}, "is not a duration"),
    ],
)
def test_a_schedule_that_makes_no_sense_cannot_be(fields: dict[str, Any], finding: str) -> None:
    with pytest.raises(InvalidValueError, match=finding):
        nightly(**fields)


def test_two_schedules_of_one_name_cannot_be() -> None:
    with pytest.raises(InvalidValueError, match="two schedules have the id 'n'"):
        SchedulePlan((nightly(), nightly()))
