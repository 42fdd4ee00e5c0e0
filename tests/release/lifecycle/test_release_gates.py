from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from gatemark.core.canonical import digest
from gatemark.core.errors import InvalidValueError, RefusedError
from gatemark.release.drift.events import DriftNoted
from gatemark.release.lifecycle.commands import ReportService
from gatemark.release.lifecycle.decisions.burn_rate import burn, judge_burn
from gatemark.release.lifecycle.events.canary import ServiceReported
from gatemark.release.lifecycle.events.fact import LifecycleEvent, advance
from gatemark.release.lifecycle.model.nouns import Pins, SchemaChange
from gatemark.release.lifecycle.model.release_policy import (
    DEFAULT_GATES,
    CanaryRules,
    ErrorBudget,
    GateRule,
    MetricRule,
    ReleasePolicy,
    policy_from,
)

from .world import ASSET, START, World


def blockers(world: World, version: str = "1.0.0", to: str = "enabled") -> tuple[str, ...]:
    try:
        world.promote(version, to)
    except RefusedError as refused:
        return refused.details
    return ()


def schema(change: Any, bump: Any, **more: Any) -> SchemaChange:
    return SchemaChange(digest=digest("schema"), change=change, bump=bump, **more)


def child(kind: str = "ontology", **more: Any) -> World:
    """An asset with a first version, and a second one on its way to eligible."""
    world = World()
    world.add("1.0.0", kind=kind, schema=schema(None, None))
    world.add("1.1.0", kind=kind, parent="1.0.0", **more)
    world.promote("1.1.0", "evaluating", actor="ann")
    return world


def eligible(world: World) -> str:
    try:
        world.promote("1.1.0", "eligible", world.result("1.1.0"), actor="eve")
    except RefusedError as refused:
        return "\n".join(refused.details)
    return "passed"


@pytest.mark.parametrize(
    ("change", "bump", "expected"),
    [
        ("none", "patch", "passed"),
        ("minor", "minor", "passed"),
        ("minor", "major", "passed"),
        ("minor", "patch", "is a patch step, but the change is minor"),
        ("major", "minor", "is a minor step, but the change is major"),
        ("minor", None, "is not a semantic version step"),
        (None, "minor", "has no schema to compare with"),
    ],
)
def test_the_version_number_must_admit_the_change(change: Any, bump: Any, expected: str) -> None:
    assert expected in eligible(child(schema=schema(change, bump)))


def test_an_ontology_without_a_schema_cannot_be_judged_and_a_prompt_needs_none() -> None:
    assert "added without its schema" in eligible(child())
    assert eligible(child("prompt")) == "passed"


def test_new_tools_and_new_markings_need_security() -> None:
    for more in (
        {"pins": Pins(tools={"search": "1", "refund": "2"})},
        {"schema": schema("major", "major", is_marking_change=True)},
    ):
        world = World()
        world.add("1.0.0", kind="agent", pins=Pins(tools={"search": "1"}))
        world.to_shadow("2.0.0", kind="agent", parent="1.0.0", **more)
        world.approve("2.0.0", "enabled")
        assert "no security_approver" in "".join(blockers(world, "2.0.0"))
        world.approve("2.0.0", "enabled", actor="cat")
        assert blockers(world, "2.0.0") == ()


def drifting(*levels: str) -> World:
    return drifting_by(*((f"metric_{at}", "sigma", level) for at, level in enumerate(levels)))


def drifting_by(*found: tuple[str, str, str]) -> World:
    world = World()
    world.enable_first()
    world.to_shadow("2.0.0")
    for metric, detector, level in found:
        fact = DriftNoted(asset=ASSET, metric=metric, detector=detector, level=level)
        line = LifecycleEvent(len(world.lines) + 1, "system", world.now, fact)
        world.lines.append(line)
        advance(world.state, line)
    world.later(minutes=1)
    compared = world.result("2.0.0", baseline="1.0.0")
    world.approve("2.0.0", "canary_1", compared)
    world.compared = compared  # type: ignore[attr-defined]
    return world


def drift_gate(world: World) -> tuple[str, bool]:
    try:
        (move,) = world.promote("2.0.0", "canary_1", world.compared)  # type: ignore[attr-defined]
    except RefusedError as refused:
        return "\n".join(refused.details), True
    (gate,) = [gate for gate in move.gates if gate.gate == "drift"]
    return gate.state, gate.blocks


def test_a_drift_warning_alerts_and_a_breach_blocks() -> None:
    assert drift_gate(drifting("OK", "OK")) == ("pass", False)
    assert drift_gate(drifting("OK", "WARN")) == ("fail", False)
    assert drift_gate(drifting("DEGENERATE")) == ("fail", False)
    words, blocks = drift_gate(drifting("WARN", "BREACH"))
    assert blocks
    assert "drift: metric_1 is BREACH; metric_0 is WARN" in words


def test_a_detector_that_is_steady_does_not_hide_what_another_found() -> None:
    breach, steady = ("accuracy", "sigma", "BREACH"), ("accuracy", "shift", "OK")
    for found in ((breach, steady), (steady, breach)):
        words, blocks = drift_gate(drifting_by(*found))
        assert blocks
        assert "drift: accuracy is BREACH" in words
    over = ("accuracy", "sigma", "OK")
    assert drift_gate(drifting_by(breach, steady, over)) == ("pass", False)


def test_drift_that_could_not_be_judged_follows_the_policy() -> None:
    assert drift_gate(drifting()) == ("unjudged", False)
    assert drift_gate(drifting("INSUFFICIENT_BASELINE")) == ("unjudged", False)
    strict = {**DEFAULT_GATES, "drift": GateRule(stages=("canary_1", "enabled"))}
    world = World(ReleasePolicy(gates=strict))
    world.to_shadow("1.0.0")
    world.approve("1.0.0", "enabled")
    assert blockers(world) == ("drift: no drift probe has reported",)


def test_drift_of_a_version_that_left_does_not_hold_back_its_successor() -> None:
    world = drifting("BREACH")
    world.end_watch()
    from gatemark.release.lifecycle.commands import Demote

    world.do(Demote(actor="system", asset=ASSET, note="complaints", stop=True))
    world.approve("2.0.0", "enabled")
    assert blockers(world, "2.0.0") == ()


def span(minutes_ago: float, length: float, bad: int, total: int = 1000) -> ServiceReported:
    end = START - timedelta(minutes=minutes_ago)
    return ServiceReported(
        asset=ASSET,
        environment="production",
        start=end - timedelta(minutes=length),
        end=end,
        good=total - bad,
        total=total,
    )


def test_the_burn_rate_is_errors_over_allowed_errors() -> None:
    spans = [span(0, 30, 7), span(30, 30, 7)]
    assert burn(spans, ErrorBudget(), 60, START).rate == pytest.approx(7.0)


def test_a_fast_burn_needs_both_windows() -> None:
    hot = [span(at, 5, 15) for at in range(0, 60, 5)]
    assert judge_burn(hot, ErrorBudget(), START).is_breached is True
    cooled = [span(0, 5, 0), *(span(at, 5, 16) for at in range(5, 60, 5))]
    assert judge_burn(cooled, ErrorBudget(), START).is_breached is not True
    just_below = [span(at, 5, 144, 10_001) for at in range(0, 60, 5)]
    assert judge_burn(just_below, ErrorBudget(), START).is_breached is not True
    on_the_line = [span(at, 5, 18, 1_250) for at in range(0, 60, 5)]
    assert judge_burn(on_the_line, ErrorBudget(objective=0.999), START).is_breached is True


def test_a_slow_burn_is_seen_over_six_hours() -> None:
    slow = [span(at, 30, 6) for at in range(0, 360, 30)]
    verdict = judge_burn([*slow, span(0, 5, 0, 1)], ErrorBudget(), START)
    assert verdict.is_breached is not None
    spans = [span(at, 5, 7) for at in range(0, 360, 5)]
    assert judge_burn(spans, ErrorBudget(), START).is_breached is True


def test_a_budget_that_is_hardly_reported_is_unknown() -> None:
    assert judge_burn([span(0, 5, 50)], ErrorBudget(), START).is_breached is None
    assert judge_burn([], ErrorBudget(), START).is_breached is None
    empty = [span(at, 5, 0, 0) for at in range(0, 360, 5)]
    assert judge_burn(empty, ErrorBudget(), START).is_breached is None


def test_a_burning_budget_shuts_the_gate() -> None:
    world = World()
    world.to_shadow("1.0.0")
    world.approve("1.0.0", "enabled")
    for at in range(60, 0, -5):
        end = world.now - timedelta(minutes=at - 5)
        world.do(
            ReportService(
                actor="eve",
                asset=ASSET,
                start=end - timedelta(minutes=5),
                end=end,
                good=90,
                total=100,
            )
        )
    (words,) = blockers(world)
    assert words.startswith("error_budget: the error budget burns 100.0x over 60 min")


def test_a_span_counts_once_and_must_not_overlap() -> None:
    world = World()
    world.add("1.0.0")
    report = ReportService(
        actor="eve",
        asset=ASSET,
        start=world.now - timedelta(minutes=5),
        end=world.now,
        good=9,
        total=10,
    )
    assert world.do(report)
    assert world.do(report) == ()
    with pytest.raises(RefusedError, match="overlaps"):
        world.do(msgspec.structs.replace(report, good=10))
    with pytest.raises(RefusedError, match="not over yet"):
        world.do(msgspec.structs.replace(report, end=world.now + timedelta(minutes=1)))
    with pytest.raises(InvalidValueError, match="good 11 exceeds total 10"):
        world.do(
            msgspec.structs.replace(
                report, start=report.start - timedelta(hours=1), end=report.start, good=11
            )
        )


def test_old_reports_leave_the_state() -> None:
    world = World()
    world.add("1.0.0")
    for _ in range(3):
        world.later(hours=20)
        world.do(
            ReportService(
                actor="eve",
                asset=ASSET,
                start=world.now - timedelta(minutes=5),
                end=world.now,
                good=1,
                total=1,
            )
        )
    assert len(world.state.asset.place("production").service) == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"gates": {"eval": {"stages": []}}}, "eval: must block before eligible"),
        ({"gates": {"eval": {"stages": ["eligible"], "on_fail": "alert"}}}, "eval: must block"),
        ({"gates": {"eval": {"stages": ["eligible"], "on_unjudged": "allow"}}}, "eval: must"),
        ({"gates": {"sign_off": {"stages": ["enabled"]}}}, "sign_off: must block before canary_1"),
        (
            {"gates": {"adversarial": {"stages": ["eligible"], "overridable": True}}},
            "adversarial: only replay may be overridden",
        ),
        ({"canary": {"metrics": {}}}, "needs at least one metric"),
        ({"canary": {"breach_alpha": 0.1}}, "must not exceed warn_alpha"),
        ({"break_glass_hours": 5}, "break_glass_hours"),
        ({"approvals": {"enabled": 0}}, "enabled"),
        ({"surprise": 1}, "surprise"),
    ],
)
def test_a_policy_that_would_be_no_gate_is_refused(change: dict[str, Any], message: str) -> None:
    plain = msgspec.to_builtins(ReleasePolicy())
    gates = {**plain["gates"], **change.pop("gates", {})}
    with pytest.raises(msgspec.ValidationError, match=message):
        policy_from({**plain, "gates": gates, **change})


def test_a_policy_must_name_every_gate() -> None:
    plain = msgspec.to_builtins(ReleasePolicy())
    del plain["gates"]["drift"]
    with pytest.raises(msgspec.ValidationError, match="drift must be listed"):
        policy_from(plain)


def test_every_number_of_a_policy_is_in_its_digest() -> None:
    known = {ReleasePolicy().digest}
    for policy in (
        ReleasePolicy(watch_hours=23),
        ReleasePolicy(shadow_sample_rate=0.2),
        ReleasePolicy(canary=CanaryRules(min_samples=51)),
        ReleasePolicy(canary=CanaryRules(metrics={"m": MetricRule(harm="up", tolerance=1)})),
        ReleasePolicy(gates={**DEFAULT_GATES, "drift": GateRule(stages=())}),
    ):
        assert policy.digest not in known
        known.add(policy.digest)


def test_harm_that_must_be_shown_to_be_small_lies_above_what_is_tolerated() -> None:
    with pytest.raises(InvalidValueError, match="above tolerance"):
        MetricRule(harm="up", tolerance=2, noninferior=1)
