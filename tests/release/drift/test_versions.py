"""Drift belongs to the version that was measured: baselines, episodes and actions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gatemark.ledger.checks.ledger_check import verify_ledger
from gatemark.release.drift.judging.policy import Response
from gatemark.release.drift.open_stores import points_of
from gatemark.release.drift.probe import ProbeReport
from gatemark.release.lifecycle.commands import Promote
from gatemark.release.lifecycle.routing import route

from .live import ASSET, METRIC, Live, lively, point
from .series import by_tick, day

OTHER = "helpfulness"
BAD = 3.0


@pytest.fixture
def live(tmp_path: Path) -> Live:
    found = Live(str(tmp_path / "store"), tmp_path)
    found.enable()
    return found


def moves(found: ProbeReport) -> list[tuple[str, str]]:
    return [(d.act, d.outcome) for d in found.actions if d.act not in ("tell", "close")]


def upgrade(live: Live, version: str = "2.0.0") -> None:
    """Break the glass so that another version is live at once, with the first as its fallback."""
    live.to_shadow(version)
    live.do(Promote, "olu", version, to="enabled", incident="INC-1", note="urgent")


def days_of(live: Live, first: int, values: list[float], metric: str = METRIC, **more: Any) -> None:
    live.push(first, values, metric=metric, **more)


def test_drift_in_two_metrics_removes_the_version_that_drifted_and_never_its_fallback(
    live: Live,
) -> None:
    live.now = day(0)
    upgrade(live)
    for metric in (METRIC, OTHER):
        days_of(live, 1, [*lively(), BAD, BAD], metric)
    found = live.probe(19)
    assert [d.act for d in found.actions if d.act == "demote"] == ["demote"], "one action per tick"
    assert (live.stage("2.0.0"), live.place.enabled) == ("demoted", "1.0.0")
    live.probe(19)
    days_of(live, 19, [BAD, BAD])
    live.probe(21)
    assert live.place.enabled == "1.0.0", "the fallback served none of those windows"
    assert verify_ledger(live.workspace.store).issues == ()


def test_a_new_version_is_not_judged_by_the_baseline_of_the_one_before(live: Live) -> None:
    days_of(live, 0, lively())
    live.probe(16)
    live.now = day(16)
    upgrade(live)
    days_of(live, 16, [BAD] * 4)
    found = live.probe(20)
    (signal,) = (one for one in found.signals if one.metric == METRIC)
    assert (signal.level, signal.version) == ("INSUFFICIENT_BASELINE", "2.0.0")
    assert (found.actions, live.place.enabled) == ((), "2.0.0")


def test_suspicion_against_the_old_version_does_not_count_against_the_new_one(live: Live) -> None:
    alert = by_tick(responses=(Response("enabled", "WARN", ("alert",)),))
    days_of(live, 0, [*lively(), BAD])
    live.probe(17, policy=alert)
    live.now = day(17)
    upgrade(live)
    days_of(live, 17, [*[10.0, 10.2] * 8])
    live.probe(33, policy=alert)
    days_of(live, 33, [BAD])
    found = live.probe(34, policy=alert)
    assert [one.level for one in found.signals if one.metric == METRIC] == ["WARN"]


def test_a_canary_ends_no_episode_of_the_live_version(live: Live) -> None:
    stop = by_tick(on_breach="stop")
    days_of(live, 0, [*lively(), BAD])
    (warned,) = live.probe(17, policy=stop).episodes
    live.now = day(17)
    live.to_canary("2.0.0")
    days_of(live, 17, [BAD])
    found = live.probe(18, policy=stop)
    (episode,) = found.episodes
    assert (episode.id, episode.level, episode.version) == (warned.id, "BREACH", "1.0.0")
    assert live.stage("1.0.0") == "demoted"


def test_points_that_name_a_canary_move_the_canary_and_nothing_else(live: Live) -> None:
    live.now = day(0)
    live.to_canary("2.0.0")
    days_of(live, 0, lively())
    days_of(live, 0, [*lively(), BAD, BAD], version="2.0.0")
    days_of(live, 16, [10.0, 10.1])
    found = live.probe(18)
    assert moves(found) == [("roll_back", "2.0.0 was rolled back")]
    (episode,) = found.episodes
    assert (episode.version, episode.metric) == ("2.0.0", f'{METRIC}{{version="2.0.0"}}')
    assert (live.stage("2.0.0"), live.place.enabled) == ("rolled_back", "1.0.0")
    closed = live.probe(18.5).closed
    assert [one.closed_because for one in closed] == ["2.0.0 is rolled back"]
    assert verify_ledger(live.workspace.store).issues == ()


def test_the_last_live_version_goes_on_serving_and_people_are_asked(live: Live) -> None:
    days_of(live, 0, [*lively(), BAD, BAD])
    found = live.probe(18, policy=by_tick())
    ((act, outcome),) = moves(found)
    assert (act, "no earlier version takes over" in outcome) == ("keep", True)
    assert live.stage() == "enabled"
    found_route = route(live.workspace, ASSET)
    assert found_route.primary is not None
    assert live.probe(18, policy=by_tick()).actions == (), "told once"
    assert verify_ledger(live.workspace.store).issues == ()


def test_a_policy_that_says_stop_takes_the_last_version_out_and_it_is_written_down(
    live: Live,
) -> None:
    days_of(live, 0, [*lively(), BAD, BAD])
    live.probe(17, policy=by_tick(on_breach="stop"))
    assert live.stage() == "enabled", "a warning never stops what serves"
    live.probe(18, policy=by_tick(on_breach="stop"))
    assert live.stage() == "demoted"
    *_, (_, moved) = live.events("transition")
    assert "on_breach stop" in moved["note"]


def test_a_policy_that_keeps_the_last_never_moves_what_is_live(live: Live) -> None:
    live.now = day(0)
    upgrade(live)
    days_of(live, 1, [*lively(), BAD, BAD])
    live.probe(19, policy=by_tick(on_breach="keep_last"))
    assert live.place.enabled == "2.0.0"


def test_a_rise_of_golden_accuracy_demotes_no_kind_of_asset(tmp_path: Path) -> None:
    found = Live(str(tmp_path / "store"), tmp_path)
    found.enable(kind="classifier")
    days_of(found, 0, [*lively(), 20.0, 20.0])
    report = found.probe(18, policy=by_tick(on_breach="stop"))
    (signal,) = (one for one in report.signals if one.metric == METRIC)
    assert signal.level == "INFO"
    assert (report.actions, found.stage()) == ((), "enabled")


def test_points_name_versions_as_a_series_of_their_own(live: Live) -> None:
    live.push_lines([point(0, 1.0), point(0, 2.0, version="2.0.0")], day(1))
    names = [one.metric for one in points_of(live.workspace).series(ASSET)]
    assert sorted(names) == [METRIC, f'{METRIC}{{version="2.0.0"}}']


def test_a_version_that_was_measured_as_a_canary_is_judged_from_its_first_day(live: Live) -> None:
    days_of(live, 0, lively())
    live.now = day(0)
    live.to_canary("2.0.0")
    days_of(live, 0, [value + 10 for value in lively()], version="2.0.0")
    live.probe(16)
    live.now = day(16)
    live.do(Promote, "olu", "2.0.0", to="enabled", incident="INC-1", note="urgent")
    days_of(live, 17, [20.0, 10.0])
    found = live.probe(18)
    (signal,) = (one for one in found.signals if one.metric == METRIC)
    assert (signal.level, signal.version, signal.baseline_windows) == ("OK", "2.0.0", 14)
    assert found.notes == (), "its canary windows are not judged again"
    (signal,) = (one for one in live.probe(19).signals if one.metric == METRIC)
    assert signal.level == "WARN", "10 was well for the version before, not for this one"
    assert live.place.enabled == "1.0.0", "the fallback takes over"
    assert verify_ledger(live.workspace.store).issues == ()


def test_a_canary_neither_resets_nor_inherits_the_baseline_of_the_live_version(live: Live) -> None:
    days_of(live, 0, lively())
    live.probe(16)
    live.now = day(16)
    live.to_canary("2.0.0")
    days_of(live, 16, [10.0])
    days_of(live, 16, [BAD], version="2.0.0")
    found = live.probe(17)
    levels = {one.version: (one.level, one.baseline_windows) for one in found.signals}
    assert levels == {"1.0.0": ("OK", 14), "2.0.0": ("INSUFFICIENT_BASELINE", 0)}


def test_points_that_begin_to_name_the_live_version_keep_its_baseline(live: Live) -> None:
    days_of(live, 0, lively())
    live.probe(16)
    days_of(live, 16, [BAD], version="1.0.0")
    found = live.probe(17)
    (signal,) = (one for one in found.signals if one.metric != METRIC)
    assert (signal.level, signal.baseline_windows) == ("WARN", 14)
