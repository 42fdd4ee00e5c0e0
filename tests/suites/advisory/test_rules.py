"""Every gate rule on each side of its line, and when it could not be judged."""

from __future__ import annotations

from typing import Any

import pytest

from gatemark.suites.advisory.policy import AdvisoryPolicy
from gatemark.suites.advisory.rules import all_rules

from .decisions import (
    ACTION,
    FALSE_ALARM,
    FALSE_NEGATIVE,
    FALSE_POSITIVE,
    FELL_BACK,
    LANE,
    NORMAL,
    PROBE,
    SHADOWED,
    UNPROVED,
    UNREFERENCED,
    UNSURE,
    WRONG,
    decision,
    findings_of,
    good_lane,
    named,
    numbered,
    policy_of,
    report_of,
    verdict_of,
)

Kinds = list[dict[str, Any]]
LOUD = FALSE_POSITIVE | {"recommendation.severity": "critical"}
LAX = {
    "bounds": {"p95_total_ms_max": 50, "proof_required": True, "expected_fallback_rate_max": 0.5}
}
EXPECTED_FALLBACK = {
    "fallback": {"occurred": True, "kind": "cpu", "reason": "no_npu", "expected": True}
}
SLOW = {"latency.total_ms": 51.0}
UNTIMED = {"latency.total_ms": None}

ZERO_LINES: dict[str, dict[str, Any]] = {
    "advisory.authority": {"authority_flags.can_send_outbound": True},
    "advisory.side_effects": {"actual_action.performed": True},
    "advisory.privacy": {"privacy.payload_logged": True},
    "advisory.stated_blockers": {"outcome.promotion_blocker": True},
    "advisory.fallback_reasons": {
        "fallback": {"occurred": True, "kind": "cpu", "reason": None, "expected": True}
    },
    "advisory.outcomes": {"outcome.comparison": "uncertain"},
    f"{LANE}.references": UNREFERENCED,
}
LINES: dict[str, tuple[Kinds, Kinds, Kinds]] = {
    # rule: records on the line, records just beyond it, records that say nothing about it
    "advisory.agreement": ([NORMAL] * 95 + [WRONG] * 5, [NORMAL] * 94 + [WRONG] * 6, [UNSURE]),
    "advisory.false_positives": (
        [NORMAL] * 97 + [FALSE_POSITIVE] * 3,
        [NORMAL] * 96 + [FALSE_POSITIVE] * 4,
        [UNSURE],
    ),
    "advisory.false_negatives": (
        [NORMAL] * 99 + [FALSE_NEGATIVE],
        [NORMAL] * 98 + [FALSE_NEGATIVE] * 2,
        [UNSURE],
    ),
    "advisory.missed_actions": (
        [ACTION] * 99 + [FALSE_NEGATIVE],
        [ACTION] * 98 + [FALSE_NEGATIVE],
        [NORMAL],
    ),
    "advisory.uncertain": ([NORMAL] * 85 + [UNSURE] * 15, [NORMAL] * 84 + [UNSURE] * 16, []),
    "advisory.unexpected_fallbacks": (
        [NORMAL] * 98 + [FELL_BACK] * 2,
        [NORMAL] * 97 + [FELL_BACK] * 3,
        [],
    ),
    f"{LANE}.agreement": ([NORMAL] * 36 + [WRONG] * 4, [NORMAL] * 35 + [WRONG] * 5, [UNSURE]),
    f"{LANE}.false_positives": (
        [NORMAL] * 97 + [FALSE_POSITIVE] * 3,
        [NORMAL] * 96 + [FALSE_POSITIVE] * 4,
        [UNSURE],
    ),
    f"{LANE}.false_negatives": (
        [NORMAL] * 99 + [FALSE_NEGATIVE],
        [NORMAL] * 98 + [FALSE_NEGATIVE] * 2,
        [UNSURE],
    ),
    f"{LANE}.missed_actions": (
        [ACTION] * 99 + [FALSE_NEGATIVE],
        [ACTION] * 98 + [FALSE_NEGATIVE],
        [NORMAL],
    ),
    f"{LANE}.uncertain": ([NORMAL] * 85 + [UNSURE] * 15, [NORMAL] * 84 + [UNSURE] * 16, []),
    f"{LANE}.unexpected_fallbacks": (
        [NORMAL] * 98 + [FELL_BACK] * 2,
        [NORMAL] * 97 + [FELL_BACK] * 3,
        [],
    ),
    f"{LANE}.expected_fallbacks": (
        [NORMAL, EXPECTED_FALLBACK],
        [NORMAL] + [EXPECTED_FALLBACK] * 2,
        [],
    ),
    f"{LANE}.proof": ([NORMAL] * 98 + [UNPROVED] * 2, [NORMAL] * 97 + [UNPROVED] * 3, [PROBE]),
    f"{LANE}.latency": ([NORMAL] * 95 + [SLOW] * 5, [NORMAL] * 94 + [SLOW] * 6, [UNTIMED] * 3),
    f"{LANE}.comparable": ([NORMAL] * 30, [NORMAL] * 29 + [UNSURE], []),
    f"{LANE}.cases": ([NORMAL, ACTION, UNSURE, FALSE_ALARM], [NORMAL, ACTION, UNSURE], []),
}
COUNT_LINES = {
    "advisory.repeated_false_positives": (LOUD, 1),
    f"{LANE}.repeated_false_positives": (LOUD, 1),
}


@pytest.mark.parametrize("rule", LINES)
def test_a_rule_holds_on_its_line_and_not_beyond(rule: str) -> None:
    on_the_line, beyond, silent = LINES[rule]
    policy = named(**LAX)
    assert findings_of(numbered(on_the_line), policy)[rule].verdict == "pass"
    assert findings_of(numbered(beyond), policy)[rule].verdict == "fail"
    assert findings_of(numbered(silent), policy)[rule].verdict == "inconclusive"


@pytest.mark.parametrize("rule", ZERO_LINES)
def test_what_must_be_zero_fails_at_one_and_stays_open_when_a_record_is_lost(rule: str) -> None:
    good = numbered([NORMAL] * 40)
    bad = [*good, decision(99, ZERO_LINES[rule])]
    assert findings_of(good, named())[rule].verdict == "pass"
    assert findings_of(bad, named())[rule].verdict == "fail"
    lost = findings_of(good, named(), lost=1)[rule]
    assert lost.verdict == "inconclusive"
    assert "1 records are lost" in lost.reason


@pytest.mark.parametrize("rule", COUNT_LINES)
def test_one_loud_false_positive_is_not_yet_a_repetition(rule: str) -> None:
    kind, allowed = COUNT_LINES[rule]
    some = numbered([NORMAL] * 40 + [kind] * allowed)
    assert findings_of(some, named())[rule].verdict == "pass"
    assert findings_of([*some, decision(99, kind)], named())[rule].verdict == "fail"
    assert findings_of(some, named(), lost=1)[rule].verdict == "inconclusive"


def test_stability_has_three_answers() -> None:
    rule = f"{LANE}.stability"
    assert findings_of(good_lane(runs=3), named())[rule].verdict == "pass"
    assert findings_of(good_lane(runs=2), named())[rule].verdict == "inconclusive"
    shifted = [*good_lane(runs=2), *numbered([UNSURE] * 40, run="run:9", start=500)]
    assert findings_of(shifted, named())[rule].verdict == "fail"
    by_chance = [
        record
        for run in range(3)
        for record in numbered([NORMAL] * 5 + [UNSURE] * run, run=f"run:{run}", start=run * 50)
    ]
    finding = findings_of(by_chance, named())[rule]
    assert finding.verdict == "inconclusive"
    assert "may be chance" in finding.reason


def test_lanes_that_nobody_named_are_held_to_the_defaults() -> None:
    rule = "advisory.other_lanes"
    assert findings_of(good_lane())[rule].verdict == "pass"
    assert findings_of(good_lane(), lost=1)[rule].verdict == "inconclusive"
    assert findings_of(good_lane(runs=2))[rule].verdict == "inconclusive"
    assert "could not be judged" in findings_of(good_lane(runs=2))[rule].reason
    assert findings_of(numbered([NORMAL] * 29))[rule].verdict == "fail"
    elsewhere = named("context_gate/openvino_context_gate")
    assert findings_of(good_lane(), elsewhere)[rule].verdict == "pass"


def test_a_conservative_lane_may_be_unsure() -> None:
    unsure = numbered([NORMAL] * 60 + [UNSURE] * 40)
    careful = named(bounds={"conservative": True})
    assert findings_of(unsure, named())[f"{LANE}.uncertain"].verdict == "fail"
    assert f"{LANE}.uncertain" not in findings_of(unsure, careful)
    assert findings_of(unsure, named())["advisory.uncertain"].verdict == "fail"
    assert findings_of(unsure, careful)["advisory.uncertain"].verdict == "pass"


def test_lanes_without_proof_or_promise_have_no_such_rule() -> None:
    ids = {rule.id for rule in all_rules(named())}
    assert not ids & {f"{LANE}.proof", f"{LANE}.latency", f"{LANE}.expected_fallbacks"}


def test_a_smaller_scope_needs_its_reason() -> None:
    few = numbered([NORMAL] * 12)
    small = named(smaller_scope="only twelve fixtures exist", bounds={"comparable_records_min": 12})
    assert findings_of(few, small)[f"{LANE}.comparable"].verdict == "pass"


def test_atlas_is_no_reference() -> None:
    shadowed = numbered([NORMAL] * 40 + [SHADOWED])
    assert findings_of(shadowed, named())[f"{LANE}.references"].verdict == "fail"
    assert report_of(shadowed).facts["atlas_shadow"]["categories"] == {"agree": 1}


def test_unknown_times_cannot_keep_a_promise() -> None:
    promise = named(bounds={"p95_total_ms_max": 50})
    some = numbered([NORMAL] * 90 + [UNTIMED] * 10)
    assert findings_of(some, promise)[f"{LANE}.latency"].verdict == "inconclusive"
    few = numbered([NORMAL] * 97 + [UNTIMED] * 3)
    assert findings_of(few, promise)[f"{LANE}.latency"].verdict == "pass"


def test_default_rules_are_the_documents_table() -> None:
    bounds = {rule.metric: (rule.op, rule.bound) for rule in all_rules(AdvisoryPolicy())}
    assert bounds["agreement_rate"] == (">=", 0.95)
    assert bounds["false_positive_rate"] == ("<=", 0.03)
    assert bounds["false_negative_rate"] == ("<=", 0.01)
    assert bounds["uncertain_rate_outside_conservative_lanes"] == ("<=", 0.15)
    assert bounds["unexpected_fallback_rate"] == ("<=", 0.02)
    lane = {
        rule.metric: (rule.op, rule.bound)
        for rule in all_rules(named(bounds={"proof_required": True}))
        if rule.lane
    }
    assert lane["agreement_rate"] == (">=", 0.90)
    assert lane["proof_ok_rate"] == (">=", 0.98)
    assert lane["comparable_records"] == (">=", 30)


def test_everything_good_passes_and_one_lane_never_speaks_for_another() -> None:
    other = "context_gate/openvino_context_gate"
    both = [*good_lane(), *good_lane(other, start=1_000)]
    policy = policy_of(
        lanes={
            LANE: {
                "promotion": dict.fromkeys(
                    ("scope", "approved_by", "rollback_plan", "reviewer"), "x"
                )
            },
            other: {},
        }
    )
    assert verdict_of(both, policy).outcome == "pass"
