from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from gatemark.core.errors import RefusedError
from gatemark.release.lifecycle.commands import Demote, PauseVersion, RollBack
from gatemark.release.lifecycle.events.moves import VersionMoved
from gatemark.release.lifecycle.model.release_policy import ReleasePolicy

from .world import ASSET, World


def live(world: World) -> str | None:
    return world.state.asset.place("production").enabled


def with_two(policy: ReleasePolicy | None = None) -> World:
    """1.0.0 enabled once, 2.0.0 enabled now."""
    world = World(policy)
    world.enable_first()
    world.to_canary("2.0.0")
    world.clean_windows(6)
    world.approve("2.0.0", "enabled")
    world.promote("2.0.0", "enabled")
    world.end_watch()
    return world


def roll_back(world: World, actor: str = "olu", **more: Any) -> Any:
    return world.do(RollBack(actor=actor, asset=ASSET, **{"stop": True, **more}))


def demote(world: World, actor: str = "system", **more: Any) -> Any:
    said: dict[str, Any] = {"note": "complaints", "stop": True, **more}
    return world.do(Demote(actor=actor, asset=ASSET, **said))


def test_rollback_restores_the_version_before_citing_its_original_results() -> None:
    world = with_two()
    original = world.state.asset.track("production", "1.0.0").result_ids
    left, restored = roll_back(world)
    assert (left.version, left.after) == ("2.0.0", "rolled_back")
    assert (restored.version, restored.after, restored.cause) == ("1.0.0", "enabled", "rollback")
    assert restored.result_ids == original
    assert original


def test_rolling_back_twice_changes_nothing() -> None:
    world = with_two()
    roll_back(world)
    assert roll_back(world) == ()
    assert roll_back(world, version="2.0.0") == ()
    assert roll_back(world, to="1.0.0") == ()
    assert live(world) == "1.0.0"


def test_the_version_to_leave_can_be_named_to_go_back_further() -> None:
    world = with_two()
    roll_back(world)
    roll_back(world, version="1.0.0")
    assert live(world) is None
    assert world.stage("1.0.0") == "rolled_back"


def test_rollback_ends_a_canary_and_leaves_the_live_version_alone() -> None:
    world = World()
    world.enable_first()
    world.to_canary("2.0.0")
    (left,) = roll_back(world)
    assert (left.version, left.after) == ("2.0.0", "rolled_back")
    assert live(world) == "1.0.0"
    assert roll_back(world) == ()


def test_rolling_back_the_live_version_sends_a_canary_to_shadow() -> None:
    world = with_two()
    world.to_canary("3.0.0")
    facts = roll_back(world, version="2.0.0")
    assert [(fact.version, fact.after) for fact in facts] == [
        ("2.0.0", "rolled_back"),
        ("3.0.0", "shadow"),
        ("1.0.0", "enabled"),
    ]
    assert world.state.asset.track("production", "3.0.0").result_ids


def test_an_earlier_version_whose_results_are_gone_is_passed_over() -> None:
    world = with_two()
    for result_id in world.state.asset.track("production", "1.0.0").result_ids:
        del world.results[result_id]
    (left,) = roll_back(world)
    assert left.version == "2.0.0"
    assert live(world) is None


def test_a_named_target_must_be_reachable_and_valid() -> None:
    world = with_two()
    with pytest.raises(RefusedError, match="no version"):
        roll_back(world, to="9.9.9")
    world.to_shadow("3.0.0")
    with pytest.raises(RefusedError, match=r"reachable: 1\.0\.0"):
        roll_back(world, to="3.0.0")
    for result_id in world.state.asset.track("production", "1.0.0").result_ids:
        del world.results[result_id]
    with pytest.raises(RefusedError, match=r"1\.0\.0 cannot be rolled back to"):
        roll_back(world, to="1.0.0")


def test_a_policy_without_fallback_leaves_nothing_live() -> None:
    world = with_two(ReleasePolicy(fallback="none"))
    roll_back(world)
    assert live(world) is None


def test_no_approval_and_no_second_person_is_needed_to_go_back() -> None:
    for actor in ("olu", "bob", "system"):
        assert roll_back(with_two(), actor=actor)


def test_authors_and_viewers_cannot_roll_back() -> None:
    for actor in ("ann", "eve", "root", "stranger"):
        with pytest.raises(RefusedError, match="to roll back"):
            roll_back(with_two(), actor=actor)


def test_nothing_live_cannot_be_rolled_back() -> None:
    world = World()
    world.add("1.0.0")
    with pytest.raises(RefusedError, match="nothing is live"):
        roll_back(world)


def test_a_rolled_back_version_returns_only_with_a_fresh_required_pack_result() -> None:
    world = with_two()
    old = world.state.asset.track("production", "2.0.0").result_ids[0]
    roll_back(world)
    world.promote("2.0.0", "evaluating", actor="ann")
    with pytest.raises(RefusedError, match="cannot go"):
        world.promote("2.0.0", "eligible", old, actor="eve")
    world.later(minutes=1)
    assert world.promote("2.0.0", "eligible", world.result("2.0.0"), actor="eve")


def test_a_demotion_to_shadow_keeps_the_version_watched_and_hands_over() -> None:
    world = with_two()
    facts = demote(world, to="shadow", signals=(7,), note="accuracy 2.3 sigma down")
    assert [(fact.version, fact.after) for fact in facts] == [
        ("2.0.0", "shadow"),
        ("1.0.0", "enabled"),
    ]
    assert facts[0].signals == (7,)
    assert world.state.asset.track("production", "2.0.0").result_ids


def test_a_demotion_twice_changes_nothing() -> None:
    world = with_two()
    demote(world, version="2.0.0")
    assert demote(world, version="2.0.0") == ()
    assert demote(world, version="2.0.0", to="shadow") == ()
    assert live(world) == "1.0.0"


def test_a_shadow_and_a_canary_can_be_demoted_too() -> None:
    world = World()
    world.enable_first()
    world.to_canary("2.0.0")
    assert demote(world, version="2.0.0", to="shadow")
    assert demote(world, version="2.0.0")
    assert world.stage("2.0.0") == "demoted"
    assert live(world) == "1.0.0"


def test_a_demotion_goes_to_shadow_or_demoted_only() -> None:
    world = with_two()
    with pytest.raises(RefusedError, match="to shadow or demoted"):
        demote(world, to="retired")
    with pytest.raises(RefusedError, match="legal from superseded"):
        demote(world, version="1.0.0")


def test_a_clock_behind_the_ledger_stops_steps_up_but_no_fall() -> None:
    world = with_two()
    world.to_shadow("3.0.0")
    last = world.now
    world.now = last - timedelta(hours=1)
    with pytest.raises(RefusedError, match="set the clock right first"):
        world.promote("3.0.0", "retired")
    with pytest.raises(RefusedError, match="set the clock right first"):
        world.approve("3.0.0", "canary_1")
    pause = PauseVersion(actor="olu", asset=ASSET, version="3.0.0", reason="operator")
    assert world.do(pause)
    (left, _) = roll_back(world)
    assert isinstance(left, VersionMoved)
    assert left.clock_behind_ms == 3_600_000
    assert world.lines[-1].at == last


def test_a_clock_a_little_behind_takes_the_time_of_the_ledger() -> None:
    world = with_two()
    world.to_shadow("3.0.0")
    last = world.now
    world.now = last - timedelta(seconds=10)
    world.promote("3.0.0", "retired")
    assert world.lines[-1].at == last
    world.now = last - timedelta(seconds=11)
    with pytest.raises(RefusedError):
        world.promote("1.0.0", "retired")


def test_setting_the_clock_back_does_not_bring_an_expired_approval_back() -> None:
    world = World()
    world.to_shadow("1.0.0")
    world.approve("1.0.0", "enabled")
    world.later(hours=73)
    world.add("1.1.0")
    world.now -= timedelta(hours=2)
    with pytest.raises(RefusedError, match="set the clock right first"):
        world.promote("1.0.0", "enabled")


def test_retired_is_the_end() -> None:
    world = with_two()
    world.promote("2.0.0", "retired")
    assert live(world) is None
    with pytest.raises(RefusedError, match="nothing leads out of retired"):
        world.promote("2.0.0", "evaluating", actor="ann")
