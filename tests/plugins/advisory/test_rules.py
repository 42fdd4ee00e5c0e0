"""Every gate rule on each side of its line, and when it could not be judged."""

from __future__ import annotations

from typing import Any

import pytest

from gatemark.plugins.advisory.gate_rules import build_rules
from gatemark.plugins.advisory.policy import AdvisoryPolicy
from gatemark.plugins.advisory.record_examples import change_record

from .decisions import (
    ACTION,
    FALSE_ALARM,
    FALSE_NEGATIVE,
    FALSE_POSITIVE,
    FELL_BACK,
    LANE,
    NORMAL,
    OTHER,
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
ASKED = {"false_positive_rate_max": 0.03, "uncertain_rate_max": 0.15}
LAX = {
    "bounds": {
        "p95_total_ms_max": 50,
        "proof_required": True,
        "expected_fallback_rate_max": 0.5,
        **ASKED,
    }
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
    assert "1 records are lost" in str(lost.reason)


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
    assert "may be chance" in str(finding.reason)


def test_lanes_that_nobody_named_are_held_to_the_defaults() -> None:
    rule = "advisory.other_lanes"
    assert findings_of(good_lane())[rule].verdict == "pass"
    assert findings_of(good_lane(), lost=1)[rule].verdict == "inconclusive"
    assert findings_of(good_lane(runs=2))[rule].verdict == "inconclusive"
    assert "could not be judged" in str(findings_of(good_lane(runs=2))[rule].reason)
    assert findings_of(numbered([NORMAL] * 29))[rule].verdict == "fail"
    elsewhere = named("context_gate/openvino_context_gate")
    assert findings_of(good_lane(), elsewhere)[rule].verdict == "pass"


def test_a_conservative_lane_may_be_unsure() -> None:
    unsure = numbered([NORMAL] * 60 + [UNSURE] * 40)
    careful = named(bounds={"conservative": True})
    assert findings_of(unsure, named(bounds=ASKED))[f"{LANE}.uncertain"].verdict == "fail"
    assert f"{LANE}.uncertain" not in findings_of(unsure, careful)
    assert findings_of(unsure, named())["advisory.uncertain"].verdict == "fail"
    assert findings_of(unsure, careful)["advisory.uncertain"].verdict == "pass"


def test_probes_do_not_water_down_what_inputs_show() -> None:
    probes = numbered([PROBE | {"recommendation.label": "unknown"}] * 200, start=1_000)
    unsure = [*numbered([NORMAL] * 84 + [UNSURE] * 16), *probes]
    for rule in ("advisory.uncertain", f"{LANE}.uncertain"):
        assert findings_of(unsure, named(bounds=ASKED))[rule].verdict == "fail"
    fallen = [*numbered([NORMAL] * 97 + [FELL_BACK] * 3), *probes]
    for rule in ("advisory.unexpected_fallbacks", f"{LANE}.unexpected_fallbacks"):
        assert findings_of(fallen, named())[rule].verdict == "fail"
    dead = numbered([NORMAL] * 97) + numbered([PROBE | FELL_BACK] * 3, start=1_000)
    assert findings_of(dead, named())["advisory.unexpected_fallbacks"].verdict == "fail"


def test_a_conservative_lane_does_not_water_down_the_others() -> None:
    careful = numbered([NORMAL] * 300, lane=OTHER, start=1_000)
    policy = policy_of(lanes={OTHER: {"bounds": {"conservative": True}}})
    some = [*numbered([NORMAL] * 84 + [UNSURE] * 16), *careful]
    assert findings_of(some, policy)["advisory.uncertain"].verdict == "fail"
    fewer = [*numbered([NORMAL] * 85 + [UNSURE] * 15), *careful]
    assert findings_of(fewer, policy)["advisory.uncertain"].verdict == "pass"


def test_asking_again_about_one_input_does_not_make_it_two() -> None:
    rule = f"{LANE}.comparable"
    kinds = [NORMAL] * 29
    again = [*numbered(kinds, run="run:1"), *numbered(kinds, run="run:2", start=100)]
    assert findings_of(again, named())[rule].verdict == "fail"
    replayed = [change_record(record, {"service.mode": "offline_fixture"}) for record in again]
    assert findings_of(replayed, named())[rule].verdict == "fail"
    enough = [*again, decision(300, NORMAL, run="run:2")]
    assert findings_of(enough, named())[rule].verdict == "pass"
    unsure = [*again, *numbered([UNSURE] * 9, run="run:2", start=300)]
    assert findings_of(unsure, named())[rule].verdict == "fail"


def test_runs_of_other_sizes_did_not_see_the_same_inputs() -> None:
    rule = f"{LANE}.stability"
    whole = good_lane(runs=3)
    for gone in (0, 50, 119):
        left = [record for number, record in enumerate(whole) if number != gone]
        finding = findings_of(left, named())[rule]
        assert finding.verdict == "inconclusive"
        assert "have other inputs" in str(finding.reason)
    live = [change_record(record, {"source.fixture_set": None}) for record in whole]
    assert findings_of(live, named())[rule].verdict == "pass"
    assert findings_of(live[1:], named())[rule].verdict == "inconclusive"


def test_a_recording_that_is_played_again_is_no_run_of_its_own() -> None:
    replayed = [
        change_record(record, {"service.mode": "offline_fixture"}) for record in good_lane(runs=3)
    ]
    finding = findings_of(replayed, named())[f"{LANE}.stability"]
    assert finding.verdict == "inconclusive"
    assert "0 runs have records" in str(finding.reason)


@pytest.mark.parametrize(
    ("error", "bounds"),
    [
        ("latency_slo_miss", {"p95_total_ms_max": 50}),
        ("npu_proof_missing", {"proof_required": True}),
    ],
)
def test_a_blocker_is_explained_only_where_a_bound_judges_its_error(
    error: str, bounds: dict[str, Any]
) -> None:
    stated = {"outcome.promotion_blocker": True, "outcome.error_type": error}
    records = [*numbered([NORMAL] * 98), decision(99, stated)]
    rule = "advisory.stated_blockers"
    assert findings_of(records, policy_of(lanes={LANE: {}}))[rule].verdict == "fail"
    assert findings_of(records, policy_of(lanes={LANE: {"bounds": bounds}}))[rule].verdict == "pass"


@pytest.mark.parametrize(
    "hidden",
    [
        {"service.mode": "health_only", "outcome.comparison": "not_applicable"},
        {"source.kind": "service_health_probe", "outcome.comparison": "not_applicable"},
        {"outcome.error_type": "fallback_unexpected"},
    ],
)
def test_a_record_that_says_other_than_it_shows_holds_the_verdict(hidden: dict[str, Any]) -> None:
    records = [*good_lane(), decision(900, LOUD, hidden, run="run:0")]
    finding = findings_of(records, named())["advisory.outcomes"]
    assert (finding.verdict, finding.severity) == ("fail", "hold")
    assert verdict_of(records, named()).outcome != "pass"


def test_a_proof_beside_a_fallback_proves_nothing_for_its_lane() -> None:
    proof = named(bounds={"proof_required": True})
    records = numbered([NORMAL] * 97 + [EXPECTED_FALLBACK] * 3)
    assert findings_of(records, proof)[f"{LANE}.proof"].verdict == "fail"
    facts = report_of(records, proof).facts
    assert (facts["npu_proof_ok_count"], facts["contradicted_proof_count"]) == (100, 3)


def test_lanes_without_proof_or_promise_have_no_such_rule() -> None:
    ids = {rule.id for rule in build_rules(policy_of(lanes={LANE: {}}))}
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
    bounds = {rule.metric: (rule.op, rule.bound) for rule in build_rules(AdvisoryPolicy())}
    assert bounds["agreement_rate"] == (">=", 0.95)
    assert bounds["false_positive_rate"] == ("<=", 0.03)
    assert bounds["false_negative_rate"] == ("<=", 0.01)
    assert bounds["uncertain_rate_outside_conservative_lanes"] == ("<=", 0.15)
    assert bounds["unexpected_fallback_rate_of_inputs"] == ("<=", 0.02)
    lane = {
        rule.metric: (rule.op, rule.bound)
        for rule in build_rules(named(bounds={"proof_required": True}))
        if rule.scope
    }
    assert lane["agreement_rate"] == (">=", 0.90)
    assert lane["proof_ok_rate"] == (">=", 0.98)
    assert lane["comparable_inputs"] == (">=", 30)


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
