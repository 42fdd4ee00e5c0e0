"""Histories that somebody wrote past the rules, each told by the number of its first bad event."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from gatemark.core.canonical import digest
from gatemark.ledger.event_kinds import SYSTEM
from gatemark.release.lifecycle.commands import AdoptPolicy, Demote, PauseVersion, RollBack, Waive
from gatemark.release.lifecycle.decisions.inspection import EventFinding, Inspector
from gatemark.release.lifecycle.events.approvals import (
    ApprovalGiven,
    BreakGlassUsed,
    GateOverridden,
)
from gatemark.release.lifecycle.events.canary import WindowJudged
from gatemark.release.lifecycle.events.fact import Fact, LifecycleEvent, advance
from gatemark.release.lifecycle.events.governance import PolicyAdopted, RolesGranted
from gatemark.release.lifecycle.events.moves import VersionMoved, VersionPaused
from gatemark.release.lifecycle.events.versions import RequiredPackSet, VersionAdded
from gatemark.release.lifecycle.model.nouns import CitedSuite
from gatemark.release.lifecycle.model.release_policy import CanaryRules, ReleasePolicy

from .world import ASSET, SUITES, World, candidate, pack_identity


def inspected(world: World) -> list[EventFinding]:
    """What the inspector says about everything that happened in a world."""
    inspector = Inspector(lambda _: world.results)
    found = [finding for line in world.lines for finding in inspector.step(line)]
    return [*found, *inspector.finish()]


def write(world: World, actor: str, *facts: Fact) -> int:
    """Put facts into the ledger without asking anybody; gives the number of the last."""
    for fact in facts:
        world.lines.append(LifecycleEvent(len(world.lines) + 1, actor, world.now, fact, world.by))
        advance(world.state, world.lines[-1])
    return len(world.lines)


def moved(world: World, version: str, after: Any, **more: Any) -> VersionMoved:
    """A move as somebody would make it up."""
    fields: dict[str, Any] = {
        "asset": ASSET,
        "environment": "production",
        "version": version,
        "candidate_digest": candidate(version),
        "before": world.stage(version),
        "after": after,
        "cause": "promote",
        "policy_digest": world.state.governance.policy_digest,
        "result_ids": world.state.asset.track("production", version).result_ids,
        **more,
    }
    return VersionMoved(**fields)


def vote(world: World, version: str, stage: Any, **more: Any) -> ApprovalGiven:
    fields: dict[str, Any] = {
        "asset": ASSET,
        "environment": "production",
        "version": version,
        "stage": stage,
        "candidate_digest": candidate(version),
        "result_ids": world.state.asset.track("production", version).result_ids,
        "policy_digest": world.state.governance.policy_digest,
        "decision": "approve",
        "note": "read it",
        "expires_at": world.now + timedelta(hours=72),
        **more,
    }
    return ApprovalGiven(**fields)


def test_a_whole_life_by_the_rules_is_explained() -> None:
    world = World(ReleasePolicy(watch_hours=24))
    world.enable_first()
    world.end_watch()
    world.to_shadow("1.1.0")
    world.promote("1.1.0", "retired")
    world.to_canary("2.0.0")
    world.clean_windows(6)
    world.approve("2.0.0", "enabled", actor="cat")
    world.promote("2.0.0", "enabled")
    world.do(Demote(actor=SYSTEM, asset=ASSET, note="drift"))
    world.to_shadow("3.0.0")
    world.promote("3.0.0", "enabled", incident="INC-1", note="now")
    world.later(hours=5)
    world.tick()
    world.to_canary("4.0.0")
    world.push(violations=1)
    world.tick()
    assert world.stage("4.0.0") == "rolled_back"
    assert len(world.lines) > 40
    assert inspected(world) == []


def test_an_override_and_a_rollback_to_a_named_version_are_explained() -> None:
    world = World(ReleasePolicy(watch_hours=0))
    for version in ("1.0.0", "2.0.0"):
        world.add(version)
        world.promote(version, "evaluating", actor="ann")
        waiver = Waive(
            actor="olu",
            asset=ASSET,
            version=version,
            gate="replay",
            note="known noise",
            expires_at=world.now + timedelta(days=1),
        )
        world.do(waiver)
        excused = CitedSuite("recent", "replay", ("recent.regression",))
        suites = (SUITES[0], excused, SUITES[2])
        world.promote(version, "eligible", world.result(version, suites=suites), actor="eve")
        world.promote(version, "shadow")
    world.approve("1.0.0", "enabled")
    world.promote("1.0.0", "enabled")
    world.promote("2.0.0", "enabled", incident="INC-2", note="now")
    world.do(RollBack(actor="bob", asset=ASSET, to="1.0.0"))
    assert sum(isinstance(line.fact, GateOverridden) for line in world.lines) == 5
    assert inspected(world) == []


Story = Callable[[World], int]


def grants_herself(world: World) -> int:
    return write(world, "mal", RolesGranted(actor="mal", roles=("approver",)))


def adopts_a_policy_without_being_admin(world: World) -> int:
    policy = ReleasePolicy(watch_hours=1)
    plain = msgspec.to_builtins(policy)
    return write(world, "olu", PolicyAdopted(policy=plain, policy_digest=policy.digest))


def adopts_one_policy_and_names_another(world: World) -> int:
    plain = msgspec.to_builtins(ReleasePolicy(watch_hours=1))
    named = ReleasePolicy(watch_hours=2).digest
    return write(world, "root", PolicyAdopted(policy=plain, policy_digest=named))


def registers_in_anothers_name(world: World) -> int:
    added = VersionAdded(
        asset=ASSET, kind="prompt", version="9", digest=candidate("9"), author="bob"
    )
    return write(world, "ann", added)


def names_a_required_pack_without_being_pack_owner(world: World) -> int:
    world.add("1.0.0")
    return write(world, "ann", RequiredPackSet(asset=ASSET, required_pack=pack_identity("lax")))


def jumps_from_draft_to_enabled(world: World) -> int:
    world.add("1.0.0")
    cited = (world.result("1.0.0"),)
    approval = write(world, "bob", vote(world, "1.0.0", "enabled", result_ids=cited))
    step = moved(world, "1.0.0", "enabled", result_ids=cited, approvals=(approval,))
    write(world, "olu", step)
    return approval


def moves_by_the_wrong_hand(world: World) -> int:
    world.add("1.0.0")
    world.promote("1.0.0", "evaluating", actor="ann")
    step = moved(world, "1.0.0", "eligible", result_ids=(world.result("1.0.0"),))
    return write(world, "ann", step)


def approves_without_the_role(world: World) -> int:
    world.to_shadow("1.0.0")
    return write(world, "olu", vote(world, "1.0.0", "enabled"))


def approves_for_a_year(world: World) -> int:
    world.to_shadow("1.0.0")
    late = world.now + timedelta(days=365)
    return write(world, "bob", vote(world, "1.0.0", "enabled", expires_at=late))


def enables_a_risky_version_with_one_approval(world: World) -> int:
    world.to_shadow("1.0.0", risk="high")
    world.approve("1.0.0", "enabled")
    step = moved(world, "1.0.0", "enabled", approvals=(len(world.lines),))
    return write(world, "olu", step)


def cites_a_result_of_another_exam(world: World) -> int:
    world.add("1.0.0")
    world.promote("1.0.0", "evaluating", actor="ann")
    other = world.result("1.0.0", sat=pack_identity("lax"))
    return write(world, "eve", moved(world, "1.0.0", "eligible", result_ids=(other,)))


def returns_from_a_fall_by_an_old_result(world: World) -> int:
    world.to_shadow("1.0.0")
    old = world.state.asset.track("production", "1.0.0").result_ids
    world.later(hours=1)
    world.do(Demote(actor="olu", asset=ASSET, version="1.0.0", note="complaints"))
    world.promote("1.0.0", "evaluating", actor="ann")
    return write(world, "eve", moved(world, "1.0.0", "eligible", result_ids=old))


def promotes_past_a_pause(world: World) -> int:
    world.to_shadow("1.0.0")
    world.approve("1.0.0", "enabled")
    approval = len(world.lines)
    world.do(PauseVersion(actor="olu", asset=ASSET, version="1.0.0", reason="freeze"))
    return write(world, "olu", moved(world, "1.0.0", "enabled", approvals=(approval,)))


def resumes_as_the_system(world: World) -> int:
    world.to_shadow("1.0.0")
    world.do(PauseVersion(actor="olu", asset=ASSET, version="1.0.0", reason="freeze"))
    going_on = VersionPaused(
        asset=ASSET, environment="production", version="1.0.0", reason=None, note=""
    )
    return write(world, SYSTEM, going_on)


def clean_window(start: datetime) -> WindowJudged:
    return WindowJudged(
        asset=ASSET,
        environment="production",
        version="2.0.0",
        start=start,
        end=start + timedelta(minutes=15),
        stage="canary_1",
        state="clean",
        judge="sequential",
        reasons=("all is well",),
    )


def calls_a_harmful_window_clean(world: World) -> int:
    world.enable_first()
    world.to_canary("2.0.0")
    start = world.next_start()
    world.push(errors=(150, 2))
    return write(world, SYSTEM, clean_window(start))


def calls_a_window_clean_that_nobody_measured(world: World) -> int:
    world.enable_first()
    world.to_canary("2.0.0")
    start = world.next_start()
    world.later(hours=1)
    return write(world, SYSTEM, clean_window(start))


def ramps_by_one_window(world: World) -> int:
    world.enable_first()
    world.to_canary("2.0.0")
    world.clean_windows(1)
    windows = (len(world.lines),)
    step = moved(world, "2.0.0", "canary_5", cause="ramp", windows=windows, baseline="1.0.0")
    return write(world, SYSTEM, step)


def ramps_by_windows_of_a_kinder_policy(world: World) -> int:
    world.do(AdoptPolicy(actor="root", policy=ReleasePolicy(canary=CanaryRules(clean_windows=9))))
    world.enable_first()
    world.to_canary("2.0.0")
    world.clean_windows(2)
    windows = tuple(n.seq for n in world.lines if isinstance(n.fact, WindowJudged))
    world.do(AdoptPolicy(actor="root", policy=ReleasePolicy()))
    step = moved(world, "2.0.0", "canary_5", cause="ramp", windows=windows, baseline="1.0.0")
    return write(world, SYSTEM, step)


def enables_beside_the_live_version(world: World) -> int:
    world.enable_first()
    world.to_canary("2.0.0")
    world.clean_windows(6)
    world.approve("2.0.0", "enabled")
    approval = len(world.lines)
    windows = tuple(n.seq for n in world.lines if isinstance(n.fact, WindowJudged))[-2:]
    step = moved(world, "2.0.0", "enabled", approvals=(approval,), windows=windows)
    return write(world, "olu", msgspec.structs.replace(step, baseline="1.0.0"))


def breaks_glass_that_lasts(world: World) -> int:
    world.to_shadow("1.0.0")
    glass = BreakGlassUsed(
        asset=ASSET,
        environment="production",
        version="1.0.0",
        incident="INC-3",
        note="now",
        until=world.now + timedelta(days=40),
        review_due=world.now + timedelta(hours=24),
    )
    first = len(world.lines) + 1
    write(world, "olu", glass, moved(world, "1.0.0", "enabled", cause="break_glass", note="now"))
    return first


def breaks_glass_without_telling(world: World) -> int:
    world.to_shadow("1.0.0")
    return write(world, "olu", moved(world, "1.0.0", "enabled", cause="break_glass", note="now"))


def overrides_by_a_waiver_that_is_not_there(world: World) -> int:
    world.add("1.0.0")
    world.promote("1.0.0", "evaluating", actor="ann")
    override = GateOverridden(
        asset=ASSET,
        environment="production",
        version="1.0.0",
        stage="eligible",
        gate="replay",
        waiver=1,
        reason="known noise",
    )
    cited = world.result("1.0.0", suites=SUITES[:1])
    return write(world, "eve", override, moved(world, "1.0.0", "eligible", result_ids=(cited,)))


def rolls_back_to_whom_it_likes(world: World) -> int:
    world.enable_first()
    world.to_shadow("2.0.0")
    fall = moved(world, "1.0.0", "rolled_back", cause="rollback", result_ids=())
    back = moved(world, "2.0.0", "enabled", cause="rollback")
    seq = write(world, "olu", fall) + 1
    world.lines.append(LifecycleEvent(seq, "olu", world.now, back, world.by))
    return seq


def supersedes_for_nobody(world: World) -> int:
    world.enable_first()
    write(world, "olu", moved(world, "1.0.0", "superseded", cause="supersede"))
    return len(world.lines) + 1


def invents_a_result(world: World) -> int:
    world.add("1.0.0")
    world.promote("1.0.0", "evaluating", actor="ann")
    return write(world, "eve", moved(world, "1.0.0", "eligible", result_ids=(digest("x"),)))


@pytest.mark.parametrize(
    ("story", "words"),
    [
        (grants_herself, "mal must be admin to grant roles"),
        (adopts_a_policy_without_being_admin, "olu must be admin"),
        (adopts_one_policy_and_names_another, "the rules say PolicyAdopted"),
        (registers_in_anothers_name, "the rules say VersionAdded"),
        (names_a_required_pack_without_being_pack_owner, "ann must be pack_owner"),
        (jumps_from_draft_to_enabled, "cannot go from draft to enabled"),
        (moves_by_the_wrong_hand, "ann must be evaluator or system"),
        (approves_without_the_role, "olu must be approver"),
        (approves_for_a_year, "expires_at must be"),
        (enables_a_risky_version_with_one_approval, "1 of 2 approvals"),
        (cites_a_result_of_another_exam, "has other rules"),
        (
            returns_from_a_fall_by_an_old_result,
            "only a new required-pack result can promote it again",
        ),
        (promotes_past_a_pause, "it is paused (freeze)"),
        (resumes_as_the_system, "system must be operator to resume"),
        (calls_a_harmful_window_clean, "is clean, the rules say the window"),
        (calls_a_window_clean_that_nobody_measured, "is clean, the rules say the window"),
        (ramps_by_one_window, "the rules would have changed nothing"),
        (ramps_by_windows_of_a_kinder_policy, "the rules would have changed nothing"),
        (enables_beside_the_live_version, "the rules say 1.0.0 goes from enabled to superseded"),
        (breaks_glass_that_lasts, "until must be"),
        (breaks_glass_without_telling, "no command leads to it"),
        (overrides_by_a_waiver_that_is_not_there, "the required pack has no replay suite"),
        (rolls_back_to_whom_it_likes, "cannot go from shadow to rolled_back"),
        (supersedes_for_nobody, "is not the end of its act"),
        (invents_a_result, "is not in the store"),
    ],
)
def test_what_was_written_past_the_rules_is_found(story: Story, words: str) -> None:
    world = World()
    seq = story(world)
    found = inspected(world)
    assert found[0].seq == seq, found
    assert words in found[0].message


def test_events_that_no_state_can_follow_are_told_once() -> None:
    world = World()
    world.to_shadow("1.0.0")
    unreadable = PolicyAdopted(policy={"name": 7}, policy_digest="sha256:" + "0" * 64)
    for seq in (len(world.lines) + 1, len(world.lines) + 2):
        world.lines.append(LifecycleEvent(seq, "olu", world.now, unreadable, world.by))
    (found,) = inspected(world)
    assert found.seq == len(world.lines) - 1
    assert "events of * cannot be checked from here on" in found.message
