"""Points, episodes and runs in real databases: SQLite and PostgreSQL under the same tests."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager
from datetime import timedelta
from pathlib import Path
from typing import Any, get_args

import pytest

from gatemark.core.errors import BadInputError, ConflictError
from gatemark.release.alerts.alert import Alert
from gatemark.release.alerts.send import alerts_of
from gatemark.release.alerts.stores import MAX_ATTEMPTS
from gatemark.release.drift.events import JudgedUntil
from gatemark.release.drift.judging.parts import FormName
from gatemark.release.drift.open_stores import episodes_of, points_of
from gatemark.release.drift.stores.episodes import TickRecorder
from gatemark.release.schedule.cadence import Occasion, Trigger
from gatemark.release.schedule.open_stores import schedule_runs_of

from .live import Live, point
from .series import START, day

DAY = 86_400


@pytest.fixture(params=["sqlite", "postgres"])
def live(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Live]:
    store = str(tmp_path / "store")
    if request.param == "postgres":
        store = request.getfixturevalue("postgres_url")
    found = Live(store, tmp_path)
    yield found
    found.workspace.store.close()


def test_a_window_is_kept_once_and_a_correction_keeps_what_it_replaces(live: Live) -> None:
    assert live.push(0, [1.0, 2.0, 3.0]).added == 3
    again = live.push(0, [1.0, 2.0, 3.0])
    assert (again.added, again.repeated, again.corrected) == (0, 3, 0)
    fixed = live.push(0, [1.0, 2.5, 3.0])
    assert (fixed.added, fixed.repeated, fixed.corrected) == (0, 2, 1)
    (series,) = points_of(live.workspace).series()
    kept = {p.start_s: (p.revision, p.a) for p in points_of(live.workspace).points(series.id)}
    second = int(day(1).timestamp())
    assert kept[second] == (2, 2.5)
    (earlier,) = points_of(live.workspace).points(series.id, earlier=True)
    assert (earlier.start_s, earlier.revision, earlier.a) == (second, 1, 2.0)


def test_a_correction_inside_one_file_counts_as_one(live: Live) -> None:
    pushed = live.push_lines([point(0, 1.0), point(0, 2.0), point(0, 2.0)], day(1))
    assert (pushed.received, pushed.added, pushed.repeated, pushed.corrected) == (3, 1, 1, 1)


def test_every_point_is_read_back_whatever_its_form(live: Live) -> None:
    bins = {"items": [3, 4], "confidence_sum": [1.0, 3.5], "correct": [1, 4]}
    live.push_lines(
        [
            point(0, 1.5, metric="a", n=7),
            {k: v for k, v in point(0, 0, metric="b").items() if k != "value"} | {"k": 3, "n": 9},
            {k: v for k, v in point(0, 0, metric="c").items() if k != "value"}
            | {"sum": 4.0, "sum_squares": 8.0, "n": 3},
            {k: v for k, v in point(0, 0, metric="d").items() if k not in ("value", "n")}
            | {"histogram": [1, 2, 3]},
            {k: v for k, v in point(0, 0, metric="e").items() if k not in ("value", "n")}
            | {"calibration": bins},
            {k: v for k, v in point(0, 0, metric="f").items() if k not in ("value", "n")}
            | {"categories": {"x": 2, "y": 5}},
        ],
        day(1),
    )
    names = {series.id: series for series in points_of(live.workspace).series()}
    seen = {
        names[int(i)].metric: (items, parts)
        for form in get_args(FormName)
        for chunk in points_of(live.workspace).chunks(form, DAY, 0)
        for i, items, parts in zip(
            chunk.series_id, chunk.items.tolist(), chunk.parts(6).tolist(), strict=True
        )
    }
    assert seen == {
        "a": (7, [7 * 1.5]),
        "b": (9, [3]),
        "c": (3, [4, 8]),
        "d": (6, [1, 2, 3, 0, 0, 0]),
        "e": (7, [3, 4, 1, 3.5, 1, 4]),
        "f": (7, [2, 5, 0, 0, 0, 0]),
    }
    layouts = {series.metric: series.layout for series in names.values()}
    assert layouts["d"] == (0, 1 / 3, 2 / 3, 1)
    assert layouts["f"] == ("x", "y")


def test_reading_starts_at_a_moment_and_misses_nothing(live: Live) -> None:
    live.push(0, [float(value) for value in range(200)])
    starts = [
        int(s) for chunk in points_of(live.workspace).chunks("value", DAY, 0) for s in chunk.start_s
    ]
    assert sorted(starts) == [int(day(number).timestamp()) for number in range(200)]
    since = int(day(150).timestamp())
    late = [
        int(s)
        for chunk in points_of(live.workspace).chunks("value", DAY, since)
        for s in chunk.start_s
    ]
    assert len(late) == 50
    assert not list(points_of(live.workspace).chunks("value", 3600, 0))
    assert not list(points_of(live.workspace).chunks("k", DAY, 0))


def test_classes_become_more_and_old_windows_keep_theirs(live: Live) -> None:
    base = {k: v for k, v in point(0, 0).items() if k not in ("value", "n")}
    live.push_lines([base | {"categories": {"x": 2}}], day(1))
    later = {k: v for k, v in point(1, 0).items() if k not in ("value", "n")}
    live.push_lines([later | {"categories": {"y": 1, "x": 3}}], day(2))
    (series,) = points_of(live.workspace).series()
    assert series.layout == ("x", "y")


def test_a_push_that_goes_wrong_leaves_nothing(live: Live) -> None:
    live.push(0, [1.0])
    with pytest.raises(BadInputError):
        live.push_lines([point(1, 1.0), point(2, 1.0) | {"n": 0}], day(3))
    (series,) = points_of(live.workspace).series()
    assert len(points_of(live.workspace).points(series.id)) == 1


def test_senders_of_one_window_add_up_and_do_not_correct_each_other(live: Live) -> None:
    live.push_lines([point(0, 1.0, n=1, source="east"), point(0, 4.0, n=2, source="west")], day(1))
    found = live.probe(1)
    assert (found.signals[0].value, found.signals[0].n) == (pytest.approx(3.0), 3)


def test_only_one_of_two_ticks_that_saw_the_same_is_recorded(live: Live) -> None:
    seen = episodes_of(live.workspace).last_tick()
    assert seen.number == 0
    told: list[object] = []
    judged = JudgedUntil(at=day(1), event=1, policy_digest="")

    def record() -> AbstractContextManager[TickRecorder]:
        return episodes_of(live.workspace).recording(
            seen, day(1), judged, lambda *said: told.append(said)
        )

    with record():
        pass
    assert told == [], "nothing was written"
    with (
        pytest.raises(ConflictError, match="another probe wrote first"),
        record(),
    ):
        pass
    assert episodes_of(live.workspace).last_tick().at == day(1)


def test_one_occasion_has_one_claimant_among_many(live: Live) -> None:
    occasion = Occasion("drift", "2026-03-01T00:15:00Z", START, "due")
    runs = schedule_runs_of(live.workspace)
    won: list[Any] = []
    start = threading.Barrier(8)

    def claim(worker: int) -> None:
        start.wait()
        won.append(runs.claim(occasion, f"w{worker}", day(1), 60))

    threads = [threading.Thread(target=claim, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(str, won)) == [*["None"] * 7, "running"]


def test_an_overlap_is_skipped_and_a_lost_worker_given_up(live: Live) -> None:
    runs = schedule_runs_of(live.workspace)
    first = Occasion("s", "2026-03-01T00:00:00Z", day(0), "due")
    second = Occasion("s", "2026-03-02T00:00:00Z", day(1), "due")
    third = Occasion("s", "2026-03-03T00:00:00Z", day(2), "due")
    assert runs.claim(first, "w", day(0), lease_s=DAY + 60) == "running"
    assert runs.claim(second, "w", day(1), lease_s=60) == "skipped_overlap"
    assert runs.abandon(day(1.5)) == 1
    assert runs.claim(third, "w", day(2), lease_s=60) == "running"
    runs.finish(third, "done", day(2), "exit 0")
    states = {run.occasion[:10]: run.state for run in runs.runs()}
    assert states == {
        "2026-03-01": "abandoned",
        "2026-03-02": "skipped_overlap",
        "2026-03-03": "done",
    }
    assert runs.last_done("s", day(2)) == day(2)
    assert runs.last_due("s", day(2)) == day(2)
    assert runs.last_done("s", day(1.9)) is None, "its time has not come by this clock"
    assert runs.last_due("s", day(1.9)) == day(1)


def test_triggers_are_known_by_their_id_and_do_not_move_the_clock(live: Live) -> None:
    runs = schedule_runs_of(live.workspace)
    assert runs.add_trigger(Trigger("threat", "t1", day(0)))
    assert not runs.add_trigger(Trigger("threat", "t1", day(1)))
    assert [t.id for t in runs.triggers(day(2))] == ["t1"]
    assert runs.triggers(START - timedelta(days=1)) == []
    runs.claim(Occasion("s", "threat:t1", day(9), "due"), "w", day(9), 60)
    assert runs.last_due("s", day(9)) is None
    assert runs.known_since(["s"], day(2)) == {"s": day(2)}, "looking leaves no trace"
    assert runs.first_seen(["s"], day(3)) == {"s": day(3)}
    assert runs.first_seen(["s"], day(5)) == {"s": day(3)}
    assert runs.first_seen(["s"], day(1)) == {"s": day(1)}, "the clock before was ahead"
    assert runs.first_seen(["s"], day(5)) == {"s": day(1)}
    assert runs.note_once("told", day(1))
    assert not runs.note_once("told", day(2))


def test_alerts_wait_until_they_arrive_or_are_given_up(live: Live) -> None:
    alert = Alert(id="a", kind="drift", level="WARN", subject="s", reason="r", at=day(0))
    box = alerts_of(live.workspace)
    assert box.queue(alert, ["one", "two"]) == 2
    assert box.queue(alert, ["one", "two", "three"]) == 1
    one, *others = sorted(box.pending(), key=lambda queued: queued.sink)
    assert one.alert == alert
    assert box.mark(one, None, day(0)) == "sent"
    assert {queued.sink for queued in box.pending()} == {queued.sink for queued in others}
    for _ in range(MAX_ATTEMPTS + 5):
        waiting = [queued for queued in box.pending() if queued.sink == "two"]
        assert box.mark(waiting[0], "nobody there", day(6.9)) == "pending", "an outage of some days"
    waiting = [queued for queued in box.pending() if queued.sink == "two"]
    assert box.mark(waiting[0], "nobody there", day(7)) == "given_up"
    assert {queued.sink: queued.state for queued in box.all()} == {
        "one": "sent",
        "two": "given_up",
        "three": "pending",
    }
