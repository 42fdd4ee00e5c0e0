from __future__ import annotations

import msgspec
import pytest

from gatemark.core.errors import InvalidValueError, RefusedError
from gatemark.release.lifecycle.commands import AddVersion, AdoptPolicy, GrantRoles, SetRequiredPack
from gatemark.release.lifecycle.decisions.decide import decide
from gatemark.release.lifecycle.events.fact import fold
from gatemark.release.lifecycle.events.governance import RolesGranted
from gatemark.release.lifecycle.model.release_policy import Approvals, ReleasePolicy

from .world import ASSET, START, World, candidate, pack_identity


def ready() -> World:
    world = World()
    world.to_shadow("1.0.0")
    return world


def refusal(world: World) -> str:
    with pytest.raises(RefusedError) as refused:
        world.promote("1.0.0", "enabled")
    return "\n".join(refused.value.lines())


@pytest.mark.parametrize("person", ["BOB", "b\u043eb", "bob\u200b"])
def test_nobody_gets_a_role_under_a_name_that_looks_like_anothers(person: str) -> None:
    world = World()
    with pytest.raises((RefusedError, InvalidValueError)):
        world.do(GrantRoles(actor="root", person=person, roles=("approver",)))
    world.do(GrantRoles(actor="root", person="bob", roles=()))
    with pytest.raises((RefusedError, InvalidValueError)):
        world.do(GrantRoles(actor="root", person=person, roles=("approver",)))


def test_nobody_approves_their_own_version() -> None:
    world = ready()
    world.do(GrantRoles(actor="root", person="ann", roles=("author", "approver")))
    with pytest.raises(RefusedError, match=r"ann is the author of triage@1\.0\.0"):
        world.approve("1.0.0", "enabled", actor="ann")


def test_the_author_of_the_same_content_under_another_name_cannot_approve_either() -> None:
    world = ready()
    world.do(GrantRoles(actor="root", person="bob", roles=("author", "approver")))
    twin = AddVersion(
        actor="bob", asset=ASSET, kind="prompt", version="1.0.1", digest=candidate("1.0.0")
    )
    world.do(twin)
    with pytest.raises(RefusedError, match="bob is the author"):
        world.approve("1.0.0", "enabled")


def test_the_last_editor_of_the_pack_cannot_approve() -> None:
    world = ready()
    with pytest.raises(RefusedError, match="pam last edited the required pack"):
        world.approve("1.0.0", "enabled", actor="pam")


def test_a_vote_is_void_when_its_giver_becomes_the_editor_afterwards() -> None:
    world = ready()
    world.approve("1.0.0", "enabled")
    world.do(GrantRoles(actor="root", person="bob", roles=("approver", "pack_owner")))
    world.do(SetRequiredPack(actor="bob", asset=ASSET, required_pack=pack_identity("other")))
    world.do(SetRequiredPack(actor="bob", asset=ASSET, required_pack=pack_identity()))
    assert "bob last edited the required pack" in refusal(world)


@pytest.mark.parametrize("actor", ["ann", "eve", "olu", "root", "nobody"])
def test_only_approvers_approve(actor: str) -> None:
    with pytest.raises(RefusedError):
        ready().approve("1.0.0", "enabled", actor=actor)


def test_the_system_cannot_approve() -> None:
    with pytest.raises(RefusedError, match="the system cannot approve"):
        ready().approve("1.0.0", "enabled", actor="system")


def test_an_approval_expires_after_72_hours() -> None:
    world = ready()
    world.approve("1.0.0", "enabled")
    world.later(hours=72)
    assert "it expired at" in refusal(world)
    world = ready()
    world.approve("1.0.0", "enabled")
    world.later(hours=71.99)
    assert world.promote("1.0.0", "enabled")


def test_an_approval_is_void_when_the_cited_results_change() -> None:
    world = ready()
    world.approve("1.0.0", "enabled")
    with pytest.raises(RefusedError) as refused:
        world.promote("1.0.0", "enabled", world.result("1.0.0"))
    assert "the cited results changed since" in "\n".join(refused.value.lines())


def test_an_approval_is_void_when_the_policy_changes() -> None:
    world = ready()
    world.approve("1.0.0", "enabled")
    world.do(AdoptPolicy(actor="root", policy=ReleasePolicy(name="newer")))
    assert "the release policy changed since" in refusal(world)


def test_an_approval_is_void_when_the_role_is_taken_away() -> None:
    world = ready()
    world.approve("1.0.0", "enabled")
    world.do(GrantRoles(actor="root", person="bob", roles=()))
    assert "the role was taken away" in refusal(world)


def test_an_approval_of_one_stage_is_none_for_another() -> None:
    world = World()
    world.enable_first()
    world.to_canary("2.0.0")
    world.clean_windows(6)
    with pytest.raises(RefusedError) as refused:
        world.promote("2.0.0", "enabled")
    assert "sign_off: 0 of 1 approvals" in refused.value.lines()


def test_a_rejection_stands_against_an_approval_until_it_is_taken_back() -> None:
    world = ready()
    world.approve("1.0.0", "enabled")
    world.approve("1.0.0", "enabled", actor="cat", decision="reject")
    assert "rejected by cat" in refusal(world)
    world.approve("1.0.0", "enabled", actor="cat", decision="abstain")
    assert world.promote("1.0.0", "enabled")


def test_a_vote_dated_later_than_now_does_not_count() -> None:
    world = ready()
    world.approve("1.0.0", "enabled")
    vote = world.state.asset.approvals[0]
    late = msgspec.structs.replace(vote, at=world.now.replace(year=2030))
    world.state.asset.approvals[0] = late
    assert "yet to come" in refusal(world)


def test_a_policy_can_name_its_approvers() -> None:
    world = World(ReleasePolicy(approvals=Approvals(approvers=("cat",))))
    world.to_shadow("1.0.0")
    with pytest.raises(RefusedError, match="bob is not among the approvers: cat"):
        world.approve("1.0.0", "enabled")
    assert world.approve("1.0.0", "enabled", actor="cat")


def test_approving_something_that_cites_nothing_valid_is_refused() -> None:
    world = ready()
    with pytest.raises(RefusedError, match="cannot be approved"):
        world.approve("1.0.0", "enabled", world.result("1.0.0", verdict="fail"))


def test_the_first_admin_takes_the_role_and_then_only_admins_grant() -> None:
    state = fold(ASSET, ())
    with pytest.raises(RefusedError, match="no admin yet"):
        decide(state, GrantRoles(actor="ada", person="bob", roles=("author",)), START)
    decided = decide(state, GrantRoles(actor="ada", person="ada", roles=("admin",)), START)
    assert decided.facts == (RolesGranted(actor="ada", roles=("admin",)),)
    with pytest.raises(RefusedError, match="must be admin to grant roles"):
        World().do(GrantRoles(actor="bob", person="bob", roles=("admin",)))


def test_an_admin_takes_no_part_in_a_release() -> None:
    world = World()
    for other in ("author", "evaluator", "operator", "approver", "security_approver"):
        roles = ("admin", other)
        with pytest.raises(RefusedError, match=f"admin cannot be combined with {other}"):
            world.do(GrantRoles(actor="root", person="bob", roles=roles))  # type: ignore[arg-type]


def test_the_last_admin_stays() -> None:
    with pytest.raises(RefusedError, match="root is the last admin"):
        World().do(GrantRoles(actor="root", person="root", roles=()))


def test_nobody_becomes_the_system() -> None:
    for person, roles in (("system", ("author",)), ("bob", ("system",))):
        with pytest.raises(RefusedError, match="the role of the system cannot be granted"):
            World().do(GrantRoles(actor="root", person=person, roles=roles))  # type: ignore[arg-type]


def test_only_an_admin_adopts_a_policy() -> None:
    with pytest.raises(RefusedError, match="must be admin"):
        World().do(AdoptPolicy(actor="bob", policy=ReleasePolicy(name="mine")))


def test_granting_the_same_again_changes_nothing() -> None:
    assert World().do(GrantRoles(actor="root", person="bob", roles=("approver",))) == ()


def test_a_version_is_added_once_and_never_changed() -> None:
    world = World()
    world.add("1.0.0")
    same = AddVersion(
        actor="ann", asset=ASSET, kind="prompt", version="1.0.0", digest=candidate("1.0.0")
    )
    assert world.do(same) == ()
    with pytest.raises(RefusedError, match="already exists with other content"):
        world.do(msgspec.structs.replace(same, digest=candidate("other")))
    with pytest.raises(RefusedError, match="is a prompt of normal risk"):
        world.do(msgspec.structs.replace(same, version="2.0.0", kind="model"))
    with pytest.raises(RefusedError, match=r"has no version 0\.1"):
        world.do(msgspec.structs.replace(same, version="2.0.0", parent="0.1"))
