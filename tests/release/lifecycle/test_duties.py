"""Separation of duties that an admin cannot walk around, and the one-person mode."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from gatemark.core.errors import NotAllowedError, RefusedError
from gatemark.release.lifecycle.commands import (
    AddVersion,
    AdoptPolicy,
    Approve,
    GrantRoles,
    Promote,
    ReviewBreakGlass,
    SetRequiredPack,
    Waive,
)
from gatemark.release.lifecycle.events.fact import LifecycleEvent, advance, fold
from gatemark.release.lifecycle.events.governance import AccessGiven
from gatemark.release.lifecycle.model.release_policy import Approvals, ReleasePolicy

from .world import ASSET, START, World, candidate, pack_identity

ONE_PERSON = ReleasePolicy(one_person=True)


def grant(world: World, person: str, *roles: Any, by: str = "root") -> None:
    world.do(GrantRoles(actor=by, person=person, roles=roles))


def give_link(world: World, person: str, by: str) -> None:
    """As a server writes it when an admin makes a link."""
    line = LifecycleEvent(len(world.lines) + 1, by, world.now, AccessGiven(person=person))
    world.lines.append(line)
    advance(world.state, line)


def to_shadow(
    world: World,
    version: str = "1.0.0",
    *,
    author: str = "ann",
    evaluator: str = "eve",
    operator: str = "olu",
    owner: str = "pam",
) -> None:
    digest = candidate(version)
    world.do(AddVersion(actor=author, asset=ASSET, version=version, kind="prompt", digest=digest))
    world.do(SetRequiredPack(actor=owner, asset=ASSET, required_pack=pack_identity()))
    world.promote(version, "evaluating", actor=author)
    world.promote(version, "eligible", world.result(version), actor=evaluator)
    world.promote(version, "shadow", actor=operator)


def ready() -> World:
    world = World()
    world.to_shadow("1.0.0")
    return world


def refusal(world: World) -> str:
    with pytest.raises(RefusedError) as refused:
        world.promote("1.0.0", "enabled")
    return "\n".join(refused.value.lines())


@pytest.mark.parametrize("role", ["author", "evaluator", "operator", "approver"])
def test_an_admin_holds_no_role_that_takes_part_in_a_release(role: Any) -> None:
    with pytest.raises(RefusedError, match=f"admin cannot be combined with {role}"):
        grant(World(), "root", "admin", role)


def admin_turned_author() -> World:
    """Adam was admin, made dan an approver, and then became an author and wrote a version."""
    world = World()
    grant(world, "adam", "admin")
    grant(world, "dan", "approver", by="adam")
    grant(world, "adam", "author")
    to_shadow(world, author="adam")
    return world


def test_a_vote_does_not_count_when_its_role_came_from_the_author() -> None:
    world = admin_turned_author()
    with pytest.raises(NotAllowedError, match="dan got the role approver from adam"):
        world.approve("1.0.0", "enabled", actor="dan")


def test_a_role_from_the_author_counts_after_the_time_of_the_policy() -> None:
    world = admin_turned_author()
    world.later(hours=71)
    with pytest.raises(NotAllowedError):
        world.approve("1.0.0", "enabled", actor="dan")
    world.later(hours=1)
    world.approve("1.0.0", "enabled", actor="dan")
    world.promote("1.0.0", "enabled")


def test_the_time_is_the_policys() -> None:
    world = World(ReleasePolicy(approvals=Approvals(access_hours=1)))
    grant(world, "adam", "admin")
    grant(world, "dan", "approver", by="adam")
    grant(world, "adam", "author")
    to_shadow(world, author="adam")
    world.later(hours=1)
    world.approve("1.0.0", "enabled", actor="dan")


def test_a_link_from_the_author_spoils_the_vote_as_well() -> None:
    world = World()
    grant(world, "adam", "admin")
    give_link(world, "bob", "adam")
    grant(world, "adam", "author")
    to_shadow(world, author="adam")
    with pytest.raises(NotAllowedError, match="bob got a link to set the password from adam"):
        world.approve("1.0.0", "enabled")


def test_a_vote_given_before_the_access_still_counts() -> None:
    world = ready()
    world.approve("1.0.0", "enabled")
    give_link(world, "bob", "ann")
    world.promote("1.0.0", "enabled")


def test_access_that_came_by_a_third_name_is_followed() -> None:
    world = World()
    grant(world, "adam", "admin")
    grant(world, "made-up", "admin", by="adam")
    grant(world, "dan", "approver", by="made-up")
    grant(world, "adam", "author")
    to_shadow(world, author="adam")
    with pytest.raises(NotAllowedError, match="from made-up, who got the role admin from adam"):
        world.approve("1.0.0", "enabled", actor="dan")


def test_a_vote_does_not_count_when_its_role_came_from_whoever_promotes() -> None:
    world = World()
    grant(world, "olu", "admin")
    grant(world, "dan", "approver", by="olu")
    grant(world, "olu", "operator")
    world.to_shadow("1.0.0")
    world.approve("1.0.0", "enabled", actor="dan")
    assert "the vote of dan does not count: dan got the role approver from olu" in refusal(world)


def test_whoever_got_access_from_the_breaker_of_glass_does_not_review_it() -> None:
    world = ready()
    world.approve("1.0.0", "enabled")
    world.promote("1.0.0", "enabled")
    world.to_shadow("2.0.0")
    grant(world, "olu", "admin")
    grant(world, "dan", "approver", by="olu")
    grant(world, "olu", "operator")
    cited = world.state.asset.track("production", "2.0.0").result_ids
    world.do(
        Promote(
            actor="olu",
            asset=ASSET,
            version="2.0.0",
            to="enabled",
            result_ids=cited,
            incident="INC-1",
            note="the live one fails",
        )
    )
    with pytest.raises(RefusedError, match="dan got the role approver from olu"):
        world.do(
            ReviewBreakGlass(actor="dan", asset=ASSET, version="2.0.0", note="read the incident")
        )


def alone() -> World:
    world = World.__new__(World)
    world.now, world.lines, world.state, world.results = START, [], fold(ASSET, ()), {}
    grant(world, "sam", "admin", by="sam")
    return world


def test_one_person_alone_can_do_everything_in_the_mode_that_says_so() -> None:
    world = alone()
    world.do(AdoptPolicy(actor="sam", policy=ONE_PERSON))
    grant(world, "sam", *ALL, by="sam")
    to_shadow(world, author="sam", evaluator="sam", operator="sam", owner="sam")
    world.do(_vote(world, "sam"))
    facts = world.promote("1.0.0", "enabled", actor="sam")
    assert facts


ALL = ("admin", "author", "evaluator", "pack_owner", "approver", "operator")


def _vote(world: World, actor: str) -> Approve:
    cited = world.state.asset.track("production", "1.0.0").result_ids
    return Approve(
        actor=actor,
        asset=ASSET,
        version="1.0.0",
        stage="enabled",
        result_ids=cited,
        note="read the results",
    )


def test_the_one_person_mode_is_refused_where_somebody_else_ever_had_a_role() -> None:
    world = alone()
    grant(world, "bob", "viewer", by="sam")
    grant(world, "bob", by="sam")
    with pytest.raises(RefusedError, match="bob has or had a role"):
        world.do(AdoptPolicy(actor="sam", policy=ONE_PERSON))


def test_a_second_person_ends_the_one_person_mode_first() -> None:
    world = alone()
    world.do(AdoptPolicy(actor="sam", policy=ONE_PERSON))
    with pytest.raises(RefusedError, match="one-person mode"):
        grant(world, "bob", "approver", by="sam")
    world.do(AdoptPolicy(actor="sam", policy=ReleasePolicy()))
    grant(world, "bob", "approver", by="sam")


def test_roles_of_the_one_person_mode_do_not_approve_once_it_has_ended() -> None:
    world = alone()
    world.do(AdoptPolicy(actor="sam", policy=ONE_PERSON))
    grant(world, "sam", *ALL, by="sam")
    world.do(AdoptPolicy(actor="sam", policy=ReleasePolicy()))
    grant(world, "ann", "author", "evaluator", "operator", by="sam")
    grant(world, "pam", "pack_owner", by="sam")
    to_shadow(world, evaluator="ann", operator="ann")
    with pytest.raises(NotAllowedError, match="sam is admin and cannot approve"):
        world.do(_vote(world, "sam"))


def add(world: World, version: str, author: str) -> None:
    """A version by somebody; all of them have the same content."""
    said: dict[str, Any] = {"kind": "prompt", "digest": candidate("1.0.0")}
    world.do(AddVersion(actor=author, asset=ASSET, version=version, **said))


def waive(world: World, actor: str, version: str = "1.0.0") -> None:
    until = world.now + timedelta(hours=5)
    more: dict[str, Any] = {"gate": "replay", "expires_at": until, "note": "traffic moved"}
    world.do(Waive(actor=actor, asset=ASSET, version=version, **more))


def test_who_wrote_the_same_content_under_another_name_cannot_waive_a_gate_for_it() -> None:
    world = World()
    grant(world, "adam", "author", "operator")
    add(world, "1.0.0", author="adam")
    add(world, "1.0.1", author="ann")
    with pytest.raises(RefusedError, match="adam is the author"):
        waive(world, "adam", "1.0.1")
    waive(world, "olu", "1.0.1")


def test_who_got_access_from_the_author_cannot_waive_a_gate_for_them() -> None:
    world = World()
    grant(world, "adam", "admin")
    grant(world, "dan", "operator", by="adam")
    grant(world, "adam", "author")
    add(world, "1.0.0", author="adam")
    with pytest.raises(RefusedError, match="dan got the role operator from adam"):
        waive(world, "dan")
    world.later(hours=72)
    waive(world, "dan")
