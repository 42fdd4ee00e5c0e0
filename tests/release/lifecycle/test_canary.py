from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from gatemark.core.errors import InvalidValueError, RefusedError
from gatemark.release.lifecycle.commands import ReportService, ResumeVersion, Tick
from gatemark.release.lifecycle.decisions.canary_judge import judge_window
from gatemark.release.lifecycle.events.canary import WatchClosed, WindowJudged
from gatemark.release.lifecycle.events.fact import fold
from gatemark.release.lifecycle.events.moves import VersionMoved, VersionPaused
from gatemark.release.lifecycle.model.nouns import ArmMetric, SampleMoments, Traffic
from gatemark.release.lifecycle.model.release_policy import CanaryRules, MetricRule, ReleasePolicy
from gatemark.release.lifecycle.model.state import CanaryWindow

from .world import ASSET, World, window


def canary(policy: ReleasePolicy | None = None) -> World:
    world = World(policy)
    world.enable_first()
    world.to_canary("2.0.0")
    return world


def states(facts: list[Any]) -> list[str]:
    return [fact.state for fact in facts if isinstance(fact, WindowJudged)]


def resume(world: World) -> None:
    world.do(ResumeVersion(actor="olu", asset=ASSET, version="2.0.0"))


def test_two_clean_windows_take_a_canary_to_its_next_share() -> None:
    world = canary()
    assert not [f for f in world.clean_windows(1) if isinstance(f, VersionMoved)]
    facts = world.clean_windows(1)
    (step,) = [fact for fact in facts if isinstance(fact, VersionMoved)]
    assert (step.before, step.after, step.cause) == ("canary_1", "canary_5", "ramp")
    judged = [line.seq for line in world.lines if isinstance(line.fact, WindowJudged)]
    assert list(step.windows) == judged
    assert step.result_ids


def test_a_canary_waits_at_its_last_share_for_people() -> None:
    world = canary()
    world.clean_windows(9)
    assert world.stage("2.0.0") == "canary_25"


def test_an_open_window_between_starts_the_count_anew() -> None:
    world = canary()
    world.clean_windows(1)
    world.push(traffic=None)
    assert states(world.tick()) == ["inconclusive"]
    world.clean_windows(1)
    assert world.stage("2.0.0") == "canary_1"
    world.clean_windows(1)
    assert world.stage("2.0.0") == "canary_5"


def test_one_broken_invariant_rolls_back_whatever_else_is_fine() -> None:
    world = canary()
    world.push(violations=1)
    judged, moved = world.tick()
    assert judged.state == "breach"  # type: ignore[union-attr]
    assert isinstance(moved, VersionMoved)
    assert (moved.after, moved.windows) == ("rolled_back", (len(world.lines) - 1,))
    assert world.state.asset.place("production").enabled == "1.0.0"


def test_clear_harm_rolls_back_and_lesser_harm_pauses() -> None:
    world = canary()
    world.push(latency=(110.0, 100.0))
    assert states(world.tick()) == ["breach"]
    assert world.stage("2.0.0") == "rolled_back"
    world = canary()
    for _ in range(40):
        world.push(latency=(101.2, 100.0))
        facts = world.tick()
        if states(facts) == ["warn"]:
            break
    assert isinstance(facts[-1], VersionPaused)
    assert facts[-1].reason == "warn"
    assert world.stage("2.0.0").startswith("canary")


def test_a_paused_canary_does_not_ramp_but_still_rolls_back() -> None:
    world = canary()
    while world.state.asset.track("production", "2.0.0").paused is None:
        world.push(latency=(101.2, 100.0))
        world.tick()
    stage = world.stage("2.0.0")
    world.clean_windows(3)
    assert world.stage("2.0.0") == stage
    world.push(violations=1)
    world.tick()
    assert world.stage("2.0.0") == "rolled_back"


def test_after_a_resume_the_same_warning_does_not_pause_again() -> None:
    world = canary()
    while world.state.asset.track("production", "2.0.0").paused is None:
        world.push(latency=(101.2, 100.0))
        world.tick()
    resume(world)
    assert world.tick() == []
    assert world.state.asset.track("production", "2.0.0").paused is None


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"n": 49}, "must have 50 samples, got 49"),
        ({"invariants": ("schema", "authority")}, "invariant privacy was not checked"),
        ({"traffic": None}, "no traffic counts"),
    ],
)
def test_a_window_that_lacks_something_stays_open(change: dict[str, Any], reason: str) -> None:
    world = canary()
    world.push(**change)
    (judged,) = world.tick()
    assert isinstance(judged, WindowJudged)
    assert judged.state == "inconclusive"
    assert any(reason in words for words in judged.reasons)
    assert world.stage("2.0.0") == "canary_1"


def test_exactly_the_minimum_of_samples_is_enough() -> None:
    world = canary()
    world.push(n=50, traffic=(50, 50))
    assert states(world.tick()) == ["clean"]


@pytest.mark.parametrize(
    ("change", "state"),
    [
        ({"canary_n": 120, "errors": (1, 2)}, "inconclusive"),
        ({"canary_n": 181, "errors": (1, 2)}, "clean"),
        ({"canary_n": 300, "errors": (3, 2)}, "clean"),
        # As many samples per key as the baseline, and a gap that chance makes now and then.
        ({"n": 60, "canary_n": 52, "errors": (0, 0), "traffic": (60, 60)}, "clean"),
    ],
    ids=["lost", "nearly all", "more", "by chance"],
)
def test_samples_that_only_the_canary_lost_leave_a_window_open(
    change: dict[str, Any], state: str
) -> None:
    world = canary()
    world.push(**change)
    (judged,) = world.tick()
    assert isinstance(judged, WindowJudged)
    assert judged.state == state
    assert any("crashed" in reason for reason in judged.reasons) is (state == "inconclusive")


def test_a_window_in_which_the_canary_lost_samples_is_not_clean() -> None:
    world = canary()
    lost = window(world.next_start(), canary_n=120, errors=(1, 2))
    moments: dict[str, dict[str, SampleMoments]] = {}
    for one in lost.metrics:
        moments.setdefault(one.metric, {})[one.arm] = one.moments
    seen = CanaryWindow(
        start=lost.start,
        end=lost.end,
        moments=moments,
        invariants={one.name: (one.checked, one.violations) for one in lost.invariants},
        traffic=lost.traffic,
    )
    rules = world.state.policy.canary
    found = judge_window(rules, (), seen, has_baseline=True)
    assert found.state == "inconclusive"
    assert "error_rate: the canary has 0.6 samples per key, the baseline 1;" in found.reasons[0]


def test_traffic_that_is_split_wrongly_pauses() -> None:
    world = canary()
    world.push(traffic=(320, 200))
    judged, paused = world.tick()
    assert isinstance(judged, WindowJudged)
    assert judged.is_ratio_off
    assert isinstance(paused, VersionPaused)
    assert paused.reason == "sample_ratio"


def test_windows_that_never_arrive_hold_and_then_pause() -> None:
    world = canary()
    world.later(minutes=60)
    (judged,) = world.tick()
    assert isinstance(judged, WindowJudged)
    assert judged.state == "inconclusive"
    assert judged.missing_count == 3
    world.later(minutes=15 * 5)
    facts = world.tick()
    assert isinstance(facts[-1], VersionPaused)
    assert facts[-1].reason == "inconclusive"
    resume(world)
    world.clean_windows(2)
    assert world.stage("2.0.0") == "canary_5"


def test_a_tick_without_anything_due_does_nothing() -> None:
    world = canary()
    assert world.tick() == []
    world.push()
    world.tick()
    assert world.tick() == []


def test_only_the_system_ticks() -> None:
    world = canary()
    with pytest.raises(RefusedError, match="must be system"):
        world.do(Tick(actor="olu", asset=ASSET))


def test_the_same_window_twice_changes_nothing_and_other_numbers_are_refused() -> None:
    world = canary()
    (fact,) = world.push()
    again = window(fact.start)
    assert world.do(again) == ()
    with pytest.raises(RefusedError, match="already has other numbers for error_rate"):
        world.do(window(fact.start, errors=(9, 2)))
    with pytest.raises(RefusedError, match="other numbers for invariant schema"):
        world.do(window(fact.start, violations=1))
    with pytest.raises(RefusedError, match="other numbers for traffic"):
        world.do(window(fact.start, traffic=(1, 1)))


def test_a_window_can_come_in_parts() -> None:
    world = canary()
    (fact,) = world.push()
    later = window(fact.start + timedelta(minutes=15))
    world.later(minutes=30)
    for metric in later.metrics:
        world.do(msgspec.structs.replace(later, metrics=(metric,), invariants=(), traffic=None))
    world.do(msgspec.structs.replace(later, metrics=()))
    world.tick()
    assert world.stage("2.0.0") == "canary_5"


@pytest.mark.parametrize(
    ("shift", "length", "message"),
    [
        (timedelta(minutes=7), 15, "start at a multiple"),
        (timedelta(0), 10, "must be 15 min long"),
        (timedelta(days=1), 15, "is not over yet"),
        (timedelta(minutes=-15), 15, "comes too late"),
    ],
)
def test_a_window_out_of_place_is_refused(shift: timedelta, length: int, message: str) -> None:
    world = canary()
    start = world.push()[0].start + shift
    moved = msgspec.structs.replace(window(start), end=start + timedelta(minutes=length))
    with pytest.raises(RefusedError, match=message):
        world.do(moved)


def test_a_window_that_was_judged_comes_too_late() -> None:
    world = canary()
    (fact,) = world.push()
    world.tick()
    with pytest.raises(RefusedError, match="comes too late"):
        world.do(window(fact.start, errors=(9, 9)))


def test_a_window_of_the_step_before_comes_too_late() -> None:
    world = canary()
    world.clean_windows(2)
    rollout = world.state.asset.place("production").rollout
    assert rollout is not None
    assert rollout.judged_until is not None
    world.later(hours=1)
    early = window(rollout.judged_until - timedelta(minutes=15))
    with pytest.raises(RefusedError, match="comes too late"):
        world.do(early)


def test_an_unknown_metric_is_refused_and_an_unknown_invariant_counts() -> None:
    world = canary()
    (fact,) = world.push()
    strange = ArmMetric(
        metric="mood", arm="canary", moments=SampleMoments(n=1, sum=1, sum_squares=1)
    )
    with pytest.raises(RefusedError, match="watches no metric mood"):
        world.do(msgspec.structs.replace(window(fact.start), metrics=(strange,)))
    world = canary()
    world.push(invariants=("schema", "authority", "privacy", "surprise"), violations=1)
    assert states(world.tick()) == ["breach"]


@pytest.mark.parametrize(("total", "squares"), [(math.nan, 1.0), (1.0, math.inf), (9.0, 1.0)])
def test_numbers_that_no_sample_has_are_refused(total: float, squares: float) -> None:
    with pytest.raises(InvalidValueError, match="sum_squares"):
        SampleMoments(n=2, sum=total, sum_squares=squares)


def test_measurements_without_a_canary_are_refused() -> None:
    world = World()
    world.to_shadow("1.0.0")
    with pytest.raises(RefusedError, match="there is no canary or watch"):
        world.do(window(datetime(2027, 3, 1, 8, tzinfo=UTC)))


def watched() -> World:
    world = canary()
    world.clean_windows(6)
    world.approve("2.0.0", "enabled")
    world.promote("2.0.0", "enabled")
    return world


def test_the_watch_after_enabling_rolls_back_on_a_breach() -> None:
    world = watched()
    world.push(latency=(130.0, 100.0))
    world.tick()
    assert (world.stage("2.0.0"), world.stage("1.0.0")) == ("rolled_back", "enabled")


def test_the_watch_ends_after_a_day_and_counts_what_it_saw() -> None:
    world = watched()
    world.clean_windows(4)
    world.push(n=3)
    world.tick()
    world.later(hours=22)
    assert world.tick() == []
    world.later(hours=3)
    (closed,) = world.tick()
    assert isinstance(closed, WatchClosed)
    assert (closed.clean_count, closed.other_count) == (4, 92)
    assert world.state.asset.place("production").rollout is None


def test_a_watch_that_got_no_measurements_pauses_its_version_before_it_ends() -> None:
    world = watched()
    world.later(hours=25)
    paused, closed = world.tick()
    assert isinstance(paused, VersionPaused)
    assert (paused.reason, "no measurements" in paused.note) == ("inconclusive", True)
    assert isinstance(closed, WatchClosed)
    assert world.stage("2.0.0") == "enabled"


def test_an_approval_from_before_the_clean_windows_does_not_count() -> None:
    world = canary()
    world.approve("2.0.0", "enabled")
    world.clean_windows(6)
    with pytest.raises(RefusedError) as refused:
        world.promote("2.0.0", "enabled")
    assert "given before the 2 clean windows" in " ".join(refused.value.lines())
    world.approve("2.0.0", "enabled")
    world.clean_windows(1)
    world.promote("2.0.0", "enabled")
    assert world.stage("2.0.0") == "enabled"


def test_a_warning_in_the_watch_is_a_flag_on_the_enabled_version() -> None:
    world = watched()
    for _ in range(40):
        world.push(latency=(101.2, 100.0))
        world.tick()
        if world.state.asset.track("production", "2.0.0").paused is not None:
            break
    assert world.state.asset.track("production", "2.0.0").paused.reason == "warn"  # type: ignore[union-attr]
    assert world.stage("2.0.0") == "enabled"


def test_samples_of_small_windows_count_together() -> None:
    world = World()
    world.enable_first()
    world.end_watch()
    world.to_canary("2.0.0")
    states = []
    for _ in range(6):
        world.push(n=20, errors=(0, 0), traffic=(20, 20))
        states += [fact.state for fact in world.tick() if isinstance(fact, WindowJudged)]
    few, clean = "inconclusive", "clean"
    assert states == [few, few, clean, few, few, clean]
    assert world.stage("2.0.0") == "canary_5"
    # The next share starts from nothing.
    world.push(n=20, errors=(0, 0), traffic=(20, 20))
    (judged,) = [fact for fact in world.tick() if isinstance(fact, WindowJudged)]
    assert judged.is_pooled
    assert any("must have 50 samples, got 20" in reason for reason in judged.reasons)


def test_a_small_window_with_another_gap_starts_the_streak_again() -> None:
    world = World()
    world.enable_first()
    world.end_watch()
    world.to_canary("2.0.0")
    world.push()
    world.tick()
    world.push(n=20, errors=(0, 0), traffic=(20, 20), invariants=())
    (judged,) = [fact for fact in world.tick() if isinstance(fact, WindowJudged)]
    assert (judged.state, judged.is_pooled) == ("inconclusive", None)
    rollout = world.state.asset.place("production").rollout
    assert rollout is not None
    assert rollout.streak == []


def test_a_watch_without_a_baseline_still_sees_broken_invariants() -> None:
    world = World()
    world.enable_first()
    world.push()
    assert states(world.tick()) == ["inconclusive"]
    world.push(violations=1)
    assert states(world.tick()) == ["breach"]
    assert world.stage("1.0.0") == "enabled", "nothing else could serve"
    paused = world.state.asset.track("production", "1.0.0").paused
    assert paused is not None
    assert "no earlier version can take over" in paused.note


def test_a_burning_error_budget_pauses_a_canary() -> None:
    world = canary()
    end = world.now
    for minutes in range(0, 60, 5):
        span = end - timedelta(minutes=60 - minutes)
        world.do(
            ReportService(
                actor="eve",
                asset=ASSET,
                start=span,
                end=span + timedelta(minutes=5),
                good=97,
                total=100,
            )
        )
    (paused,) = world.tick()
    assert isinstance(paused, VersionPaused)
    assert paused.reason == "error_budget"


def test_every_judge_can_be_chosen_and_replays() -> None:
    for judge in ("sequential", "mann_whitney", "sigma"):
        rules = CanaryRules(
            judge=judge,  # type: ignore[arg-type]
            metrics={"latency_ms": MetricRule(harm="up")},
            invariants=(),
            min_samples=20,
            sigma_min_windows=3,
        )
        world = canary(ReleasePolicy(canary=rules))
        for step in range(8):
            _push_values(world, 100.0 + step % 3, shift=40.0 if step == 7 else 0.0)
            world.tick()
        assert world.stage("2.0.0") == "rolled_back", judge
        assert fold(ASSET, world.lines) == world.state


def _push_values(world: World, mean: float, *, shift: float) -> None:
    values = [mean + (at % 10) - 4.5 for at in range(40)]
    parts = []
    for arm, offset in (("canary", shift), ("baseline", 0.0)):
        own = tuple(value + offset for value in values)
        moments = SampleMoments(n=40, sum=sum(own), sum_squares=sum(one * one for one in own))
        parts.append(ArmMetric(metric="latency_ms", arm=arm, moments=moments, values=own))  # type: ignore[arg-type]
    world.do(
        msgspec.structs.replace(
            window(world.next_start()),
            metrics=tuple(parts),
            traffic=Traffic(canary=40, baseline=40),
        )
    )
