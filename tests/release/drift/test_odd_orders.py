"""Points that come late, twice or by another name, and versions that come back."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.release.lifecycle.world import window

from gatemark.core.errors import RefusedError
from gatemark.ledger.checks.ledger_check import verify_ledger
from gatemark.release.drift.close import CloseRequest, close_episode
from gatemark.release.drift.judging.policy import DriftPolicy
from gatemark.release.drift.open_stores import points_of
from gatemark.release.lifecycle.act import act
from gatemark.release.lifecycle.commands import AdoptPolicy, Demote, Promote
from gatemark.release.lifecycle.model.release_policy import ReleasePolicy

from .live import ASSET, METRIC, Live, lively, point
from .series import by_tick, day
from .test_versions import BAD, OTHER, moves, upgrade

BUILT_IN = DriftPolicy()


@pytest.fixture
def live(tmp_path: Path) -> Live:
    found = Live(str(tmp_path / "store"), tmp_path)
    found.enable()
    return found


def demote(live: Live, version: str) -> None:
    act(live.workspace, Demote(actor="olu", asset=ASSET, version=version, note="odd", stop=True))


def bring_back(live: Live, version: str) -> None:
    """Examine a version that fell with new answers, and enable it again."""
    live.promote(version, "evaluating", actor="ann")
    live.promote(version, "eligible", live.seal(version), actor="eve")
    live.promote(version, "shadow")
    live.do(Promote, "olu", version, to="enabled", incident="INC-2", note="it is mended")


@pytest.mark.parametrize("policy", [by_tick(), BUILT_IN], ids=["sigma", "built-in"])
def test_a_version_that_comes_back_is_not_judged_by_the_windows_it_fell_for(
    live: Live, policy: DriftPolicy
) -> None:
    live.now = day(0)
    upgrade(live)
    live.push(1, [*lively(), BAD, BAD])
    live.probe(19, policy=policy)
    assert live.place.enabled == "1.0.0"
    live.push(19, [10.0, 10.1, 9.9])
    live.probe(22, policy=policy)
    live.now = day(22)
    bring_back(live, "2.0.0")
    for number in range(23, 30):
        live.push(number, [10.0 + 0.1 * (number % 3)])
        found = live.probe(number + 1, policy=policy)
        assert moves(found) == [], number
    assert (live.place.enabled, live.stage("1.0.0")) == ("2.0.0", "superseded")


@pytest.mark.parametrize("policy", [by_tick(), BUILT_IN], ids=["sigma", "built-in"])
def test_a_version_that_comes_back_and_fails_again_falls_again(
    live: Live, policy: DriftPolicy
) -> None:
    live.now = day(0)
    upgrade(live)
    live.push(1, [*lively(), BAD, BAD])
    live.probe(19, policy=policy)
    live.now = day(22)
    bring_back(live, "2.0.0")
    live.push(23, [*lively(), BAD, BAD])
    live.probe(41, policy=policy)
    assert (live.stage("2.0.0"), live.place.enabled) == ("demoted", "1.0.0")


def test_points_of_a_version_that_never_existed_move_nobody_and_are_named(live: Live) -> None:
    live.push(0, [*lively(), BAD, BAD], version="9.9.9")
    found = live.probe(18)
    assert (found.episodes, moves(found)) == ((), [])
    assert found.notes == (
        f'{ASSET} {METRIC}{{version="9.9.9"}} is not judged: no such version was added',
    )
    (signal,) = found.signals
    assert (signal.metric, signal.level) == (METRIC, "STALE"), "nothing measures what is live"
    live.now = day(18)
    live.to_canary("2.0.0")
    assert (live.stage("2.0.0"), live.place.enabled) == ("canary_1", "1.0.0")
    assert verify_ledger(live.workspace.store).issues == ()


def test_points_that_come_before_their_version_are_judged_once_it_is_added(live: Live) -> None:
    live.push(0, [*lively(), BAD, BAD], version="2.0.0")
    assert live.probe(18).episodes == ()
    live.now = day(18)
    live.to_shadow("2.0.0")
    found = live.probe(18.1)
    assert [(one.version, one.level) for one in found.episodes] == [("2.0.0", "BREACH")]
    assert live.stage("2.0.0") == "demoted"


def test_a_demoted_version_that_points_name_does_not_hold_its_successor(live: Live) -> None:
    live.now = day(0)
    upgrade(live)
    live.push(1, [*lively(), BAD, BAD], version="2.0.0")
    live.probe(19)
    assert (live.stage("2.0.0"), live.place.enabled) == ("demoted", "1.0.0")
    (closed,) = live.probe(19.1).closed
    assert closed.closed_because is not None
    assert closed.closed_because.startswith("1.0.0 entered enabled")
    live.now = day(20.1)
    live.to_canary("3.0.0")
    assert live.stage("3.0.0") == "canary_1"
    assert verify_ledger(live.workspace.store).issues == ()


def with_a_canary(live: Live) -> None:
    """1.0.0 is the fallback of 2.0.0, and 3.0.0 is its canary as well."""
    policy = ReleasePolicy(name="no-watch", watch_hours=0)
    act(live.workspace, AdoptPolicy(actor="root", policy=policy))
    live.now = day(0)
    upgrade(live)
    live.to_canary("3.0.0")


def test_two_metrics_that_breach_during_a_canary_move_only_what_is_live(live: Live) -> None:
    with_a_canary(live)
    for metric in (METRIC, OTHER):
        live.push(1, [*lively(), BAD, BAD], metric=metric)
    live.probe(19)
    assert (live.stage("2.0.0"), live.place.enabled) == ("demoted", "1.0.0")
    assert live.stage("3.0.0") == "shadow", "what it was compared with is gone"
    live.probe(19.5)
    assert (live.place.enabled, live.stage("3.0.0")) == ("1.0.0", "shadow")


def test_live_and_canary_that_breach_at_once_both_fall_and_the_fallback_stays(live: Live) -> None:
    with_a_canary(live)
    live.push(1, [*lively(), BAD, BAD])
    live.push(1, [*lively(), BAD, BAD], version="3.0.0")
    live.probe(19)
    live.probe(19.1)
    stages = {version: live.stage(version) for version in ("1.0.0", "2.0.0", "3.0.0")}
    assert stages == {"1.0.0": "enabled", "2.0.0": "demoted", "3.0.0": "demoted"}


def test_late_points_about_the_version_before_do_not_touch_the_one_that_serves(
    live: Live,
) -> None:
    live.now = day(0)
    upgrade(live)
    live.push(1, lively())
    live.probe(17)
    live.now = day(19)
    demote(live, "2.0.0")
    live.push(17, [BAD, BAD])
    found = live.probe(19.5)
    assert moves(found) == []
    assert live.place.enabled == "1.0.0"


@pytest.mark.parametrize("first", [16, 17])
def test_a_breach_is_found_in_whatever_order_its_points_come(live: Live, first: int) -> None:
    live.push(0, lively())
    live.probe(16)
    live.push_lines([point(first, BAD)], day(18))
    live.probe(18)
    live.push_lines([point(33 - first, BAD)], day(18))
    live.probe(18)
    assert live.stage() == "demoted"


def test_a_clock_that_jumps_ahead_and_back_loses_no_breach(live: Live) -> None:
    live.push(0, lively())
    live.probe(16)
    assert moves(live.probe(400)) == []
    live.push(16, [BAD, BAD])
    live.probe(18)
    assert live.stage() == "demoted"


def test_the_same_points_again_and_from_another_sender_change_nothing(live: Live) -> None:
    lines: list[dict[str, Any]] = [point(at, value) for at, value in enumerate(lively())]
    live.push_lines(lines, day(16))
    live.push_lines(lines, day(16))
    live.push_lines([{**line, "source": "b"} for line in lines], day(16))
    found = live.probe(16)
    assert (found.episodes, found.actions) == ((), ())
    live.push_lines([point(16, BAD), point(16, BAD), point(17, BAD)], day(18))
    live.probe(18)
    assert live.stage() == "demoted"


def test_named_and_unnamed_points_of_one_version_are_one_action(live: Live) -> None:
    live.now = day(0)
    upgrade(live)
    live.push(1, [*lively(), BAD, BAD])
    live.push(1, [*lively(), BAD, BAD], version="2.0.0")
    found = live.probe(19)
    assert [act for act, _ in moves(found)] == ["demote"]
    live.probe(19.1)
    assert live.place.enabled == "1.0.0"


def test_a_breach_from_before_an_asset_was_added_ends_with_its_first_result(
    tmp_path: Path,
) -> None:
    live = Live(str(tmp_path / "store"), tmp_path)
    live.push(-20, [*lively(), BAD, BAD])
    assert [one.level for one in live.probe(-2).episodes] == ["BREACH"]
    live.now = day(-1)
    with pytest.raises(RefusedError, match="cannot go from shadow to enabled"):
        live.enable()
    assert [one.metric for one in live.probe(-0.9).closed] == [METRIC]
    live.now = day(-0.9)
    live.promote("1.0.0", "enabled")
    assert (moves(live.probe(0)), live.place.enabled) == ([], "1.0.0")


def test_a_result_that_does_not_say_when_it_was_answered_closes_no_breach(live: Live) -> None:
    live.push(0, [*lively(), BAD, BAD])
    (episode,) = live.probe(18, policy=by_tick()).episodes
    live.now = day(19)
    silent = live.seal("1.0.0", is_timed=False)
    request = CloseRequest(episode=episode.id, actor="olu", reason="looks fine", cite=silent)
    with pytest.raises(RefusedError, match="does not say when its answers were given"):
        close_episode(live.workspace, request, live.now)
    assert [one.level for one in live.probe(19.5, policy=by_tick()).episodes] == ["BREACH"]


def test_windows_of_a_canary_are_neither_points_nor_a_baseline(live: Live) -> None:
    live.now = day(0)
    live.to_canary("2.0.0")
    start = day(0) + timedelta(minutes=15)
    live.now += timedelta(hours=5)
    for number in range(16):
        act(live.workspace, window(start + timedelta(minutes=15 * number)))
    live.do(Promote, "olu", "2.0.0", to="enabled", incident="INC-1", note="urgent")
    pushed = {one.metric for one in points_of(live.workspace).series(ASSET)}
    assert pushed == set()
    live.push(1, [10.0])
    (signal,) = (one for one in live.probe(2).signals if one.metric == METRIC)
    assert (signal.level, signal.baseline_windows) == ("INSUFFICIENT_BASELINE", 0)


@pytest.mark.parametrize("last", [[BAD], [BAD, BAD]], ids=["warning", "breach"])
def test_a_version_that_breached_does_not_take_over_again_by_itself(
    live: Live, last: list[float]
) -> None:
    live.push(0, [*lively(), BAD, BAD])
    live.probe(18, policy=by_tick())
    assert live.place.enabled == "1.0.0", "there was nothing else"
    live.now = day(18)
    upgrade(live)
    live.push(19, [*lively(), *last])
    found = live.probe(19 + 16 + len(last), policy=by_tick())
    ((act_name, outcome),) = moves(found)
    assert act_name == "keep"
    assert outcome.startswith("kept live: 1.0.0 breached itself on 2026-03-19 (golden_accuracy);")
    assert live.place.enabled == "2.0.0"
    assert verify_ledger(live.workspace.store).issues == ()
