from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatemark.core.errors import UsageError
from gatemark.release.lifecycle.commands import Demote, PauseVersion, ReviewBreakGlass
from gatemark.release.lifecycle.decisions.citation import citation_problems
from gatemark.release.lifecycle.model.nouns import Pins
from gatemark.release.lifecycle.model.release_policy import ReleasePolicy
from gatemark.release.lifecycle.routing import Route, assign_key, place_of, route_of

from .world import ASSET, World


def route(world: World, *invalid: str) -> Route:
    def is_valid(version: str) -> bool:
        track = world.state.asset.track("production", version)
        digest = world.state.asset.versions[version].digest
        good = not citation_problems(track.result_ids, world.results, digest)
        return version not in invalid and bool(track.result_ids) and good

    return route_of(world.state, "production", is_valid, world.now)


def canary() -> World:
    world = World()
    world.enable_first()
    world.to_canary("2.0.0")
    return world


def test_nothing_is_routed_before_something_is_enabled() -> None:
    world = World()
    assert route(world).reason == "the asset is not known"
    world.to_shadow("1.0.0")
    found = route(world)
    assert found.primary is None
    assert found.reason == "no version is enabled"
    assert [sampled.target.version for sampled in found.shadow] == ["1.0.0"]
    with pytest.raises(UsageError, match="no version may serve"):
        assign_key(found, "k")


def test_a_route_carries_the_whole_pin_set_and_the_results() -> None:
    world = World()
    pins = Pins(model="m-7", prompt="p-3", tools={"search": "2"}, retrieval="snap-9")
    world.to_shadow("1.0.0", pins=pins)
    world.approve("1.0.0", "enabled")
    world.promote("1.0.0", "enabled")
    target = route(world).primary
    assert target is not None
    assert target.pins == pins
    assert target.pins_digest == pins.digest
    assert target.result_ids == world.state.asset.track("production", "1.0.0").result_ids


def test_a_version_whose_evidence_does_not_verify_is_never_routed() -> None:
    world = canary()
    found = route(world, "2.0.0")
    assert found.canary is None
    assert "2.0.0 is left out: its evidence does not verify" in found.warnings
    world.clean_windows(6)
    world.approve("2.0.0", "enabled")
    world.promote("2.0.0", "enabled")
    found = route(world, "2.0.0")
    assert found.primary is not None
    assert found.primary.version == "1.0.0"
    found = route(world, "2.0.0", "1.0.0")
    assert found.primary is None
    assert "does not verify and nothing can take its place" in str(found.reason)


def test_the_fallback_is_the_version_before() -> None:
    world = canary()
    assert route(world).fallback is None
    world.clean_windows(6)
    world.approve("2.0.0", "enabled")
    world.promote("2.0.0", "enabled")
    fallback = route(world).fallback
    assert fallback is not None
    assert fallback.version == "1.0.0"


def test_a_canary_grows_without_moving_anybody_back() -> None:
    world = canary()
    keys = [f"conversation-{at}" for at in range(4000)]
    members: set[str] = set()
    for share in (0.01, 0.05, 0.25):
        found = route(world)
        assert found.canary is not None
        assert found.canary.share == share
        now = {key for key in keys if assign_key(found, key).lane == "canary"}
        assert members <= now
        assert abs(len(now) / len(keys) - share) < 4 * (share / len(keys)) ** 0.5
        members = now
        world.clean_windows(2)


def test_both_arms_are_equally_large_and_only_the_canary_differs() -> None:
    world = canary()
    world.clean_windows(4)
    found = route(world)
    lanes = Counter(assign_key(found, f"key-{at}").lane for at in range(20_000))
    assert abs(lanes["canary"] - lanes["baseline"]) < 4 * (10_000 * 0.5) ** 0.5
    versions = {assign_key(found, f"key-{at}").target.version: 1 for at in range(200)}
    assert set(versions) == {"1.0.0", "2.0.0"}


def test_a_new_rollout_deals_anew() -> None:
    world = canary()
    first = route(world).canary
    world.do(Demote(actor="olu", asset=ASSET, version="2.0.0", to="shadow", note="complaints"))
    world.later(minutes=1)
    compared = world.result("2.0.0", baseline="1.0.0")
    world.approve("2.0.0", "canary_1", compared)
    world.promote("2.0.0", "canary_1", compared)
    second = route(world).canary
    assert first is not None
    assert second is not None
    assert first.salt != second.salt


def test_the_watch_keeps_a_small_baseline_arm_and_ends() -> None:
    world = canary()
    world.clean_windows(6)
    world.approve("2.0.0", "enabled")
    world.promote("2.0.0", "enabled")
    split = route(world).canary
    assert split is not None
    assert (split.is_watch, split.share) == (True, 0.05)
    assert split.baseline is not None
    assert split.baseline.version == "1.0.0"
    world.end_watch()
    assert route(world).canary is None


def test_a_paused_shadow_is_not_sampled_and_a_paused_canary_says_so() -> None:
    world = canary()
    world.to_shadow("3.0.0")
    for version in ("2.0.0", "3.0.0"):
        world.do(PauseVersion(actor="olu", asset=ASSET, version=version, reason="operator"))
    found = route(world)
    assert found.shadow == ()
    assert found.canary is not None
    assert found.canary.is_paused


def test_shadows_are_sampled_at_the_rate_of_the_policy() -> None:
    world = World(ReleasePolicy(shadow_sample_rate=0.3))
    world.enable_first()
    world.to_shadow("2.0.0")
    found = route(world)
    sampled = sum(bool(assign_key(found, f"key-{at}").shadow) for at in range(5000))
    assert abs(sampled / 5000 - 0.3) < 0.03


def test_broken_glass_is_on_the_route() -> None:
    world = World()
    world.to_shadow("1.0.0")
    world.promote("1.0.0", "enabled", incident="INC-9", note="now")
    assert "1.0.0 is live by break-glass of olu (INC-9), not reviewed" in route(world).warnings[0]
    world.later(hours=25)
    assert "review is overdue" in route(world).warnings[-1]


def test_a_version_behind_glass_is_routed_for_as_long_as_the_glass_counts() -> None:
    world = World()
    world.enable_first()
    world.to_shadow("2.0.0")
    world.promote("2.0.0", "enabled", incident="INC-9", note="now")
    world.later(hours=3.99)
    served = route(world).primary
    assert served is not None
    assert served.version == "2.0.0"
    world.later(hours=0.01)
    found = route(world)
    assert found.primary is not None
    assert found.primary.version == "1.0.0"
    assert "2.0.0 is left out: its break-glass time was over" in found.warnings[0]
    # A look that comes too late does not bring it back.
    world.do(ReviewBreakGlass(actor="bob", asset=ASSET, version="2.0.0", note="read the incident"))
    late = route(world).primary
    assert late is not None
    assert late.version == "1.0.0"


def test_nothing_is_routed_when_the_only_version_is_behind_glass_that_no_longer_counts() -> None:
    world = World()
    world.to_shadow("1.0.0")
    world.promote("1.0.0", "enabled", incident="INC-9", note="now")
    world.later(hours=4)
    found = route(world)
    assert found.primary is None
    assert "nobody had reviewed it and nothing can take its place" in str(found.reason)


@settings(deadline=None, max_examples=50)
@given(st.text(), st.text())
def test_a_place_is_fixed_and_inside_the_unit(salt: str, key: str) -> None:
    place = place_of(
        salt.encode("utf-8", "ignore").decode(), key.encode("utf-8", "ignore").decode()
    )
    assert 0 <= place < 1


def test_places_are_what_any_language_computes() -> None:
    # The hex digits are those of `printf 'salt\0key' | sha256sum`.
    assert place_of("salt", "key") == (0x6E5D6C6F47D14756 >> 11) / 2**53
