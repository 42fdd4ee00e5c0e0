from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from gatemark.core.canonical import digest
from gatemark.core.errors import RefusedError
from gatemark.release.lifecycle.commands import (
    AdoptPolicy,
    Approve,
    PauseVersion,
    Promote,
    ResumeVersion,
    ReviewBreakGlass,
    RollBack,
    Waive,
)
from gatemark.release.lifecycle.events.approvals import BreakGlassUsed, GateOverridden
from gatemark.release.lifecycle.events.fact import fold
from gatemark.release.lifecycle.events.moves import VersionMoved
from gatemark.release.lifecycle.model.nouns import CitedSuite
from gatemark.release.lifecycle.model.release_policy import Approvals, CanaryRules, ReleasePolicy
from gatemark.release.lifecycle.model.stages import MOVES

from .world import ASSET, SUITES, World, pack_identity


def test_a_first_version_climbs_to_enabled_with_two_people() -> None:
    world = World()
    world.enable_first()
    assert world.stage("1.0.0") == "enabled"
    move = world.lines[-1].fact
    assert isinstance(move, VersionMoved)
    assert [world.lines[seq - 1].actor for seq in move.approvals] == ["bob"]
    assert {gate.gate: gate.state for gate in move.gates} == {
        "schema": "not_applicable",
        "eval": "pass",
        "replay": "pass",
        "adversarial": "pass",
        "drift": "unjudged",
        "error_budget": "unjudged",
        "sign_off": "pass",
        "security_review": "not_applicable",
    }


def test_the_same_events_give_the_same_state() -> None:
    world = World()
    world.enable_first()
    world.to_canary("2.0.0")
    world.clean_windows(3)
    assert fold(ASSET, world.lines) == world.state


def test_an_illegal_move_lists_the_legal_ones() -> None:
    world = World()
    world.add("1.0.0")
    with pytest.raises(RefusedError, match=r"draft to shadow; legal from draft: evaluating"):
        world.promote("1.0.0", "shadow")


def test_every_move_that_is_not_in_the_table_is_refused() -> None:
    world = World()
    world.enable_first()
    legal = {(row.before, row.after) for row in MOVES if row.cause == "promote"}
    stages = {row.before for row in MOVES} | {row.after for row in MOVES}
    for after in sorted(stages):
        if ("enabled", after) not in legal:
            with pytest.raises(RefusedError, match="legal from enabled"):
                world.promote("1.0.0", after)


def test_a_missing_result_is_refused() -> None:
    world = World()
    world.add("1.0.0")
    world.promote("1.0.0", "evaluating", actor="ann")
    with pytest.raises(RefusedError) as refused:
        world.promote("1.0.0", "eligible", digest("nowhere"), actor="eve")
    assert "is not in the store" in refused.value.lines()[1]


@pytest.mark.parametrize("verdict", ["fail", "inconclusive"])
def test_a_result_that_did_not_pass_is_refused(verdict: str) -> None:
    world = World()
    world.add("1.0.0")
    world.promote("1.0.0", "evaluating", actor="ann")
    with pytest.raises(RefusedError) as refused:
        world.promote("1.0.0", "eligible", world.result("1.0.0", verdict=verdict), actor="eve")
    assert f"must be pass, got {verdict}" in refused.value.lines()[1]


def test_a_result_about_another_candidate_is_refused() -> None:
    world = World()
    world.add("1.0.0")
    world.promote("1.0.0", "evaluating", actor="ann")
    with pytest.raises(RefusedError) as refused:
        world.promote("1.0.0", "eligible", world.result("9.9.9"), actor="eve")
    assert "is about another candidate" in refused.value.lines()[1]


def test_a_result_of_another_exam_is_refused() -> None:
    world = World()
    world.add("1.0.0")
    world.promote("1.0.0", "evaluating", actor="ann")
    other = world.result("1.0.0", sat=pack_identity("laxer"))
    with pytest.raises(RefusedError) as refused:
        world.promote("1.0.0", "eligible", other, actor="eve")
    assert "no cited result ran the required pack triage v3" in refused.value.lines()[1]


def test_a_result_that_is_too_old_is_refused() -> None:
    world = World()
    world.add("1.0.0")
    world.promote("1.0.0", "evaluating", actor="ann")
    old = world.result("1.0.0")
    world.later(hours=30 * 24)
    assert world.promote("1.0.0", "eligible", old, actor="eve")
    world.later(hours=1)
    with pytest.raises(RefusedError) as refused:
        world.promote("1.0.0", "shadow")
    assert "must be at most 720 h old, got 721.0 h" in refused.value.lines()[1]


def test_a_failed_result_rejects_and_only_a_fresh_one_leads_back() -> None:
    world = World()
    world.add("1.0.0")
    world.promote("1.0.0", "evaluating", actor="ann")
    passed_before = world.result("1.0.0")
    world.later(hours=1)
    world.promote("1.0.0", "rejected", world.result("1.0.0", verdict="fail"), actor="eve")
    world.promote("1.0.0", "evaluating", actor="ann")
    with pytest.raises(RefusedError) as refused:
        world.promote("1.0.0", "eligible", passed_before, actor="eve")
    assert "only a new required-pack result can promote it again" in refused.value.lines()[1]
    world.later(hours=1)
    world.promote("1.0.0", "eligible", world.result("1.0.0"), actor="eve")
    assert world.stage("1.0.0") == "eligible"


def test_a_passing_result_cannot_reject() -> None:
    world = World()
    world.add("1.0.0")
    world.promote("1.0.0", "evaluating", actor="ann")
    with pytest.raises(RefusedError):
        world.promote("1.0.0", "rejected", world.result("1.0.0"), actor="eve")


def test_a_canary_needs_a_comparison_made_in_shadow_with_the_live_version() -> None:
    world = World()
    world.enable_first()
    before = world.result("2.0.0", baseline="1.0.0")
    world.later(minutes=1)
    world.to_shadow("2.0.0")
    other = world.result("2.0.0", baseline="0.9.0")
    for cite in (before, other):
        with pytest.raises(RefusedError) as refused:
            world.promote("2.0.0", "canary_1", cite)
        assert "compares with the live version 1.0.0" in "".join(refused.value.lines())
    good = world.result("2.0.0", baseline="1.0.0")
    world.approve("2.0.0", "canary_1", good)
    world.promote("2.0.0", "canary_1", good)
    assert world.stage("2.0.0") == "canary_1"


def test_shadow_can_be_made_to_last() -> None:
    world = World(ReleasePolicy(shadow_min_hours=2))
    world.enable_first()
    world.to_shadow("2.0.0")
    good = world.result("2.0.0", baseline="1.0.0")
    world.approve("2.0.0", "canary_1", good)
    world.later(hours=1.9)
    with pytest.raises(RefusedError, match="cannot go"):
        world.promote("2.0.0", "canary_1", good)
    world.later(hours=0.1)
    assert world.promote("2.0.0", "canary_1", good)


def test_shadow_leads_to_enabled_only_while_nothing_is_live() -> None:
    world = World()
    world.enable_first()
    world.to_shadow("2.0.0")
    with pytest.raises(RefusedError, match=r"1\.0\.0 is"):
        world.promote("2.0.0", "enabled")


def test_a_second_canary_and_a_canary_under_a_watch_are_refused() -> None:
    world = World()
    world.enable_first()
    world.to_canary("2.0.0")
    world.to_shadow("3.0.0")
    with pytest.raises(RefusedError, match=r"2\.0\.0 is already a canary"):
        world.promote("3.0.0", "canary_1")
    world.clean_windows(6)
    world.approve("2.0.0", "enabled")
    world.promote("2.0.0", "enabled")
    with pytest.raises(RefusedError, match=r"the watch over 2\.0\.0 runs until"):
        world.promote("3.0.0", "canary_1")


def test_enabling_makes_the_old_version_superseded_in_the_same_breath() -> None:
    world = World()
    world.enable_first()
    world.to_canary("2.0.0")
    world.clean_windows(6)
    world.approve("2.0.0", "enabled")
    facts = world.promote("2.0.0", "enabled")
    assert [(fact.version, fact.after) for fact in facts] == [
        ("1.0.0", "superseded"),
        ("2.0.0", "enabled"),
    ]
    assert len(facts[1].windows) == 2


def test_a_canary_is_not_enabled_before_its_last_share_is_clean() -> None:
    world = World()
    world.enable_first()
    world.to_canary("2.0.0")
    world.clean_windows(5)
    assert world.stage("2.0.0") == "canary_25"
    world.approve("2.0.0", "enabled")
    with pytest.raises(RefusedError, match="2 clean windows in a row"):
        world.promote("2.0.0", "enabled")
    world.clean_windows(1)
    world.approve("2.0.0", "enabled")
    assert world.promote("2.0.0", "enabled")


def test_a_paused_version_goes_nowhere_until_a_person_resumes_it() -> None:
    world = World()
    world.to_shadow("1.0.0")
    world.approve("1.0.0", "enabled")
    pause = PauseVersion(actor="olu", asset=ASSET, version="1.0.0", reason="freeze", note="q4")
    assert world.do(pause)
    assert not world.do(pause)
    with pytest.raises(RefusedError, match=r"paused \(freeze, q4\)"):
        world.promote("1.0.0", "enabled")
    resume = ResumeVersion(actor="system", asset=ASSET, version="1.0.0")
    with pytest.raises(RefusedError, match="system must be operator to resume"):
        world.do(resume)
    assert world.do(msgspec.structs.replace(resume, actor="olu"))
    assert world.promote("1.0.0", "enabled")


def test_the_lock_refuses_who_looked_too_early() -> None:
    world = World()
    world.add("1.0.0")
    seen = world.state.asset.revision
    world.promote("1.0.0", "evaluating", actor="ann", expected_revision=seen)
    with pytest.raises(RefusedError, match="changed since event"):
        world.promote(
            "1.0.0", "eligible", world.result("1.0.0"), actor="eve", expected_revision=seen
        )


def test_replay_can_be_overridden_with_a_note_and_it_shows() -> None:
    world = World()
    world.add("1.0.0")
    world.promote("1.0.0", "evaluating", actor="ann")
    shaky = world.result(
        "1.0.0",
        suites=(SUITES[0], CitedSuite("recent", "replay", ("recent.regression",)), SUITES[2]),
    )
    with pytest.raises(RefusedError) as refused:
        world.promote("1.0.0", "eligible", shaky, actor="eve")
    assert refused.value.lines()[1:] == ("replay: recent.regression did not hold but was excused",)
    waive = Waive(
        actor="olu",
        asset=ASSET,
        version="1.0.0",
        gate="replay",
        expires_at=world.now + timedelta(hours=5),
        note="traffic moved",
    )
    world.do(waive)
    override, move = world.promote("1.0.0", "eligible", shaky, actor="eve")
    assert isinstance(override, GateOverridden)
    assert "traffic moved" in override.reason
    assert {gate.gate: gate.state for gate in move.gates}["replay"] == "overridden"
    world.later(hours=5)
    with pytest.raises(RefusedError, match="cannot go from eligible to shadow"):
        world.promote("1.0.0", "shadow")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"gate": "adversarial"}, "does not allow an override of adversarial"),
        ({"gate": "eval"}, "does not allow an override of eval"),
        ({"actor": "bob"}, "must be operator"),
        ({"note": " "}, "needs a note"),
        ({"hours": 0}, "must expire within 14 days"),
        ({"hours": 14 * 24 + 1}, "must expire within 14 days"),
    ],
)
def test_a_waiver_outside_the_rules_is_refused(change: dict[str, object], message: str) -> None:
    world = World()
    world.add("1.0.0")
    hours = change.pop("hours", 1)
    fields = {"actor": "olu", "gate": "replay", "note": "because", **change}
    with pytest.raises(RefusedError, match=message):
        world.do(
            Waive(
                asset=ASSET,
                version="1.0.0",
                expires_at=world.now + timedelta(hours=hours),  # type: ignore[arg-type]
                **fields,  # type: ignore[arg-type]
            )
        )


def test_a_waived_rule_outside_replay_fails_the_eval_gate() -> None:
    world = World()
    world.add("1.0.0")
    world.promote("1.0.0", "evaluating", actor="ann")
    for suites, excused in (
        ((CitedSuite("golden", "golden", ("golden.floor",)), *SUITES[1:]), ()),
        (SUITES, ("bench.score_min",)),
    ):
        with pytest.raises(RefusedError) as refused:
            world.promote(
                "1.0.0",
                "eligible",
                world.result("1.0.0", suites=suites, excused=excused),
                actor="eve",
            )
        assert "eval: " in refused.value.lines()[1]
        assert "only replay may be" in refused.value.lines()[1]


def test_a_pack_without_probes_or_replay_leaves_their_gates_unjudged_and_shut() -> None:
    world = World()
    world.add("1.0.0")
    world.promote("1.0.0", "evaluating", actor="ann")
    with pytest.raises(RefusedError) as refused:
        world.promote("1.0.0", "eligible", world.result("1.0.0", suites=SUITES[:1]), actor="eve")
    assert refused.value.lines()[1:] == (
        "replay: the required pack has no replay suite",
        "adversarial: the required pack has no adversarial suite",
    )


def test_broken_glass_enables_now_and_shows_and_needs_a_second_look() -> None:
    world = World()
    world.enable_first()
    world.to_shadow("2.0.0")
    facts = world.promote("2.0.0", "enabled", incident="INC-7", note="1.0.0 leaks")
    assert [type(fact) for fact in facts] == [BreakGlassUsed, VersionMoved, VersionMoved]
    assert facts[-1].cause == "break_glass"
    assert "break_glass" in {gate.state for gate in facts[-1].gates}
    assert world.stage("2.0.0") == "enabled"
    review = ReviewBreakGlass(actor="ann", asset=ASSET, version="2.0.0", note="read the incident")
    with pytest.raises(RefusedError):
        world.do(review)
    assert world.do(msgspec.structs.replace(review, actor="bob"))
    world.later(hours=5)
    world.tick()
    assert world.stage("2.0.0") == "enabled"


def test_broken_glass_that_nobody_reviewed_is_taken_back_when_its_time_is_up() -> None:
    world = World()
    world.enable_first()
    world.to_shadow("2.0.0")
    world.promote("2.0.0", "enabled", incident="INC-7", note="1.0.0 leaks")
    world.later(hours=3.99)
    world.tick()
    assert world.stage("2.0.0") == "enabled"
    world.later(hours=0.01)
    world.tick()
    assert (world.stage("2.0.0"), world.stage("1.0.0")) == ("rolled_back", "enabled")


def _behind_glass_and_followed() -> World:
    """2.0.0 was enabled behind broken glass, then 3.0.0 took its place in the usual way."""
    world = World(ReleasePolicy(watch_hours=0))
    world.enable_first()
    world.to_shadow("2.0.0")
    world.promote("2.0.0", "enabled", incident="INC-7", note="1.0.0 leaks")
    world.to_canary("3.0.0")
    world.clean_windows(6)
    world.approve("3.0.0", "enabled")
    world.promote("3.0.0", "enabled")
    world.later(hours=4)
    return world


def test_a_rollback_does_not_go_to_a_version_whose_glass_nobody_reviewed() -> None:
    world = _behind_glass_and_followed()
    with pytest.raises(RefusedError) as refused:
        world.do(RollBack(actor="olu", asset=ASSET, to="2.0.0"))
    assert "it was enabled by break-glass (INC-7)" in refused.value.lines()[1]
    world.do(RollBack(actor="olu", asset=ASSET))
    assert (world.stage("3.0.0"), world.stage("2.0.0")) == ("rolled_back", "superseded")
    assert world.stage("1.0.0") == "enabled"


def test_broken_glass_comes_along_when_a_rollback_returns_in_its_time() -> None:
    world = World(ReleasePolicy(watch_hours=0))
    world.enable_first()
    world.to_shadow("2.0.0")
    world.to_shadow("3.0.0")
    world.promote("2.0.0", "enabled", incident="INC-7", note="1.0.0 leaks")
    world.promote("3.0.0", "enabled", incident="INC-8", note="2.0.0 leaks too")
    world.do(RollBack(actor="olu", asset=ASSET))
    assert world.stage("2.0.0") == "enabled"
    world.later(hours=4)
    world.tick()
    assert (world.stage("2.0.0"), world.stage("1.0.0")) == ("rolled_back", "enabled")


def test_a_late_look_behind_the_glass_is_on_record_and_changes_nothing() -> None:
    world = World()
    world.enable_first()
    world.to_shadow("2.0.0")
    world.promote("2.0.0", "enabled", incident="INC-7", note="1.0.0 leaks")
    world.later(hours=4)
    assert world.do(
        ReviewBreakGlass(actor="bob", asset=ASSET, version="2.0.0", note="read the incident")
    )
    world.tick()
    assert world.stage("2.0.0") == "rolled_back"
    glass = world.state.asset.track("production", "2.0.0").break_glass
    assert glass is not None
    assert glass.reviewed_by == "bob"


def test_clean_windows_of_another_policy_do_not_count() -> None:
    lax = ReleasePolicy(canary=CanaryRules(min_samples=1), watch_hours=0)
    world = World(lax)
    world.enable_first()
    world.to_canary("2.0.0")
    world.clean_windows(6)
    world.do(AdoptPolicy(actor="root", policy=ReleasePolicy(watch_hours=0)))
    world.approve("2.0.0", "enabled")
    with pytest.raises(RefusedError, match="it needs 2 clean windows in a row"):
        world.promote("2.0.0", "enabled")
    world.clean_windows(2)
    world.approve("2.0.0", "enabled")
    world.promote("2.0.0", "enabled")
    assert world.stage("2.0.0") == "enabled"


def test_a_version_cannot_be_added_again_with_another_scope() -> None:
    world = World()
    world.add("1.0.0")
    with pytest.raises(RefusedError, match="already exists with other scope"):
        world.add("1.0.0", is_scope_change=True)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"note": ""}, "needs an incident and a note"),
        ({"incident": " "}, "needs an incident and a note"),
        ({"actor": "bob"}, "must be operator"),
    ],
)
def test_glass_is_not_broken_without_reason_or_role(more: dict[str, str], message: str) -> None:
    world = World()
    world.to_shadow("1.0.0")
    fields = {"incident": "INC-7", "note": "now", **more}
    with pytest.raises(RefusedError, match=message):
        world.promote("1.0.0", "enabled", **fields)


def test_glass_cannot_be_broken_for_a_version_that_never_passed() -> None:
    world = World()
    world.add("1.0.0")
    with pytest.raises(RefusedError, match="legal from draft"):
        world.promote("1.0.0", "enabled", incident="INC-7", note="now")
    world.promote("1.0.0", "evaluating", actor="ann")
    with pytest.raises(RefusedError, match="legal from evaluating"):
        world.promote("1.0.0", "enabled", incident="INC-7", note="now")


def test_who_broke_the_glass_cannot_review_it() -> None:
    world = World()
    world.do(_roles("both", "operator", "approver"))
    world.to_shadow("1.0.0")
    world.promote("1.0.0", "enabled", incident="INC-7", note="now", actor="both")
    with pytest.raises(RefusedError, match="both used break-glass"):
        world.do(
            ReviewBreakGlass(actor="both", asset=ASSET, version="1.0.0", note="read the incident")
        )


def _roles(person: str, *roles: str) -> object:
    from gatemark.release.lifecycle.commands import GrantRoles

    return GrantRoles(actor="root", person=person, roles=roles)  # type: ignore[arg-type]


def test_high_risk_needs_two_approvals() -> None:
    world = World(ReleasePolicy(approvals=Approvals(high_risk=2)))
    world.to_shadow("1.0.0", risk="high")
    world.approve("1.0.0", "enabled")
    world.approve("1.0.0", "enabled")
    with pytest.raises(RefusedError) as refused:
        world.promote("1.0.0", "enabled")
    assert "sign_off: 1 of 2 approvals" in refused.value.lines()
    world.approve("1.0.0", "enabled", actor="cat")
    assert world.promote("1.0.0", "enabled")


def test_a_scope_change_needs_security() -> None:
    world = World()
    world.to_shadow("1.0.0", is_scope_change=True)
    world.approve("1.0.0", "enabled")
    with pytest.raises(RefusedError) as refused:
        world.promote("1.0.0", "enabled")
    assert "no security_approver has approved" in refused.value.lines()[1]
    world.approve("1.0.0", "enabled", actor="cat")
    assert world.promote("1.0.0", "enabled")


def test_approving_what_is_not_next_is_refused() -> None:
    world = World()
    world.add("1.0.0")
    for stage in ("canary_1", "enabled", "shadow"):
        with pytest.raises(RefusedError):
            world.do(
                Approve(
                    actor="bob", asset=ASSET, version="1.0.0", stage=stage, note="read the results"
                )
            )  # type: ignore[arg-type]


def test_an_unknown_version_is_refused_with_those_that_are_known() -> None:
    world = World()
    world.add("1.0.0")
    with pytest.raises(RefusedError, match=r"no version 2\.0\.0 \(known: 1\.0\.0\)"):
        world.do(Promote(actor="ann", asset=ASSET, version="2.0.0", to="evaluating"))
