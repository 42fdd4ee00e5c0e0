"""Steps up that rest on nothing, each found at its own event by deciding it again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from gatemark.core.canonical import digest
from gatemark.ledger.event_kinds import SYSTEM
from gatemark.release.lifecycle.commands import SetRequiredPack
from gatemark.release.lifecycle.events.fact import Fact, LifecycleEvent
from gatemark.release.lifecycle.events.versions import VersionAdded

from .test_inspection import clean_window, inspected, moved, vote, write
from .world import ASSET, World, candidate, pack_identity

Story = Callable[[World], int]


def step_up(**more: Any) -> Story:
    """From the shadow to enabled, with something about the approval or the move made up."""

    def story(world: World) -> int:
        world.to_shadow("1.0.0")
        world.later(minutes=1)
        person = more.get("vote_actor", "bob")
        forged = {k.removeprefix("vote_"): v for k, v in more.items() if k.startswith("vote_")}
        forged.pop("actor", None)
        approval = write(world, person, vote(world, "1.0.0", **{"stage": "enabled", **forged}))
        world.later(minutes=more.get("minutes", 1))
        step = {k: v for k, v in more.items() if not k.startswith("vote_") and k != "minutes"}
        return write(
            world, "olu", moved(world, "1.0.0", "enabled", **{"approvals": (approval,), **step})
        )

    return story


def cites(**result: Any) -> Story:
    """Eligible by a result that cannot carry it."""

    def story(world: World) -> int:
        world.add("1.0.0")
        world.promote("1.0.0", "evaluating", actor="ann")
        cited = (world.result(**{"version": "1.0.0", **result}),) if result else ()
        return write(world, "eve", moved(world, "1.0.0", "eligible", result_ids=cited))

    return story


def counts_one_person_twice(world: World) -> int:
    world.to_shadow("1.0.0", risk="high")
    votes = tuple(write(world, "bob", vote(world, "1.0.0", "enabled")) for _ in range(2))
    return write(world, "olu", moved(world, "1.0.0", "enabled", approvals=votes))


def lets_the_editor_of_the_pack_approve(world: World) -> int:
    world.to_shadow("1.0.0")
    world.do(SetRequiredPack(actor="pam", asset=ASSET, required_pack=pack_identity()))
    approval = write(world, "pam", vote(world, "1.0.0", "enabled"))
    return write(world, "olu", moved(world, "1.0.0", "enabled", approvals=(approval,)))


def rolls_back_citing_another_result(world: World) -> int:
    world.enable_first()
    world.to_canary("2.0.0")
    world.clean_windows(6)
    world.approve("2.0.0", "enabled")
    world.promote("2.0.0", "enabled")
    other = world.result("1.0.0")
    fall = moved(world, "2.0.0", "rolled_back", cause="rollback", result_ids=())
    back = moved(world, "1.0.0", "enabled", cause="rollback", result_ids=(other,))
    return write(world, "olu", fall, back)


def registers_twice(world: World) -> int:
    world.add("1.0.0")
    again = VersionAdded(
        asset=ASSET, kind="prompt", version="1.0.0", digest=candidate("1.0.0"), author="ann"
    )
    return write_only(world, "ann", again)


def ramp(*windows: str) -> Story:
    """To the next step of a canary by windows that are not clean ones of this step."""

    def story(world: World) -> int:
        world.enable_first()
        world.to_canary("2.0.0")
        world.clean_windows(1)
        clean = len(world.lines)
        seqs = {"clean": clean, "vote": clean - 4, "none": 9_999}
        cited = tuple(seqs[name] for name in windows)
        step = moved(world, "2.0.0", "canary_5", cause="ramp", windows=cited, baseline="1.0.0")
        return write(world, SYSTEM, step)

    return story


def write_only(world: World, actor: str, fact: Fact) -> int:
    """Put a fact that no state can follow into the ledger."""
    world.lines.append(LifecycleEvent(len(world.lines) + 1, actor, world.now, fact, world.by))
    return len(world.lines)


def only(**more: Any) -> Story:
    """A single move that cannot be, by a version in the shadow."""

    def story(world: World) -> int:
        world.to_shadow("1.0.0")
        fields = {"version": "1.0.0", "after": "enabled", **more}
        return write_only(world, "olu", moved(world, **fields))

    return story


@pytest.mark.parametrize(
    ("story", "words"),
    [
        (cites(), "eval: a result must be cited"),
        (cites(verdict="fail"), "must be pass, got fail"),
        (cites(version="2.0.0"), "is about another candidate"),
        (step_up(approvals=()), "(promote, citing 1 results) with other approvals"),
        (step_up(approvals=(99,)), "(promote, citing 1 results) with other approvals"),
        (step_up(approvals=(5,)), "(promote, citing 1 results) with other approvals"),
        (step_up(vote_stage="canary_1"), "0 of 1 approvals"),
        (step_up(vote_decision="reject"), "rejected by bob"),
        (step_up(minutes=73 * 60), "it expired at"),
        (counts_one_person_twice, "1 of 2 approvals"),
        (rolls_back_citing_another_result, "(rollback, citing 1 results) with other result_ids"),
        (registers_twice, "the rules would have changed nothing here"),
        (ramp(), "the rules would have changed nothing here"),
        (ramp("vote", "clean"), "the rules would have changed nothing here"),
        (ramp("none", "clean"), "the rules would have changed nothing here"),
        (ramp("clean", "clean"), "the rules would have changed nothing here"),
        (only(version="3.0.0", before="draft", after="evaluating"), "has no version 3.0.0"),
        (only(before="eligible", after="shadow"), "cannot go from shadow to shadow"),
        (only(after="heaven"), "cannot go from shadow to heaven"),
        (only(cause="rollback"), "cannot go from shadow to rolled_back"),
    ],
)
def test_a_step_up_that_rests_on_nothing_is_found(story: Story, words: str) -> None:
    world = World()
    seq = story(world)
    found = inspected(world)
    assert found[0].seq == seq, found
    assert words in found[0].message


@pytest.mark.parametrize(
    ("forged", "approval", "step"),
    [
        ({"vote_actor": "ann"}, "ann is the author", "0 of 1 approvals"),
        ({"vote_actor": SYSTEM}, "the system cannot approve", "0 of 1 approvals"),
        (
            {"vote_policy_digest": digest("old")},
            "with other policy_digest",
            "the release policy changed since",
        ),
        (
            {"vote_candidate_digest": candidate("2.0.0")},
            "with other candidate_digest",
            "the candidate changed since",
        ),
        (
            {"vote_result_ids": (digest("x"),)},
            "is not in the store",
            "the cited results changed since",
        ),
    ],
)
def test_a_vote_that_cannot_be_is_found_and_does_not_count(
    forged: dict[str, Any], approval: str, step: str
) -> None:
    world = World()
    seq = step_up(**forged)(world)
    vote_found, step_found = inspected(world)
    assert (vote_found.seq, step_found.seq) == (seq - 1, seq)
    assert approval in vote_found.message
    assert step in step_found.message


def test_who_last_edited_the_required_pack_does_not_approve_by_it() -> None:
    world = World()
    seq = lets_the_editor_of_the_pack_approve(world)
    vote_found, step_found = inspected(world)
    assert (vote_found.seq, step_found.seq) == (seq - 1, seq)
    assert "pam last edited the required pack" in vote_found.message


def test_a_move_is_about_the_digest_that_was_registered() -> None:
    world = World()
    seq = step_up(candidate_digest=candidate("2.0.0"))(world)
    (found,) = inspected(world)
    assert found.seq == seq
    assert "(promote, citing 1 results) with other candidate_digest" in found.message


def test_a_clean_window_of_another_step_does_not_count() -> None:
    world = World()
    world.enable_first()
    world.to_canary("2.0.0")
    start = world.next_start()
    world.push()
    judged = msgspec.structs.replace(clean_window(start), stage="canary_25")
    assert "with other stage" in _first(world, write(world, SYSTEM, judged))


def test_a_step_by_an_approval_that_holds_is_explained() -> None:
    world = World()
    step_up()(world)
    assert inspected(world) == []


def test_an_author_does_not_reject_either() -> None:
    world = World()
    world.to_shadow("1.0.0")
    seq = write(world, "ann", vote(world, "1.0.0", "enabled", decision="reject"))
    assert "ann is the author" in _first(world, seq)


def _first(world: World, seq: int) -> str:
    found = inspected(world)
    assert found[0].seq == seq, found
    return found[0].message
