"""What the document asks overall is asked overall; a policy may ask more of a lane."""

from __future__ import annotations

import pytest

from gatemark.plugins.advisory.gate_rules import build_rules

from .decisions import (
    FALSE_POSITIVE,
    LANE,
    NORMAL,
    OTHER,
    UNSURE,
    findings_of,
    good_lane,
    named,
    numbered,
    policy_of,
    summary_of,
)

RULES = {"false_positives": "false_positive_rate_max", "uncertain": "uncertain_rate_max"}
LOUDER = {"false_positives": [FALSE_POSITIVE] * 3, "uncertain": [UNSURE] * 10}


def ids(**fields: object) -> set[str]:
    return {rule.id for rule in build_rules(policy_of(**fields))}


@pytest.mark.parametrize("rule", RULES)
def test_a_lane_is_held_to_it_where_the_policy_says_so(rule: str) -> None:
    name, bound = f"{LANE}.{rule}", RULES[rule]
    assert name not in ids(lanes={LANE: {}})
    assert name in ids(lanes={LANE: {"bounds": {bound: 0.03}}})
    assert name in ids(lanes={LANE: {}}, lane_defaults={bound: 0.02})
    assert f"advisory.{rule}" in ids()


@pytest.mark.parametrize("rule", RULES)
def test_a_lane_above_the_line_is_named_when_all_lanes_together_are_below(rule: str) -> None:
    loud = numbered([NORMAL] * 40 + LOUDER[rule])
    quiet = numbered([NORMAL] * 400, lane=OTHER, start=1_000)
    found = findings_of([*loud, *quiet], named())
    assert found[f"advisory.{rule}"].verdict == "pass"
    caveats = summary_of([*loud, *quiet], named())["promotion"]["caveats"]
    assert [text for text in caveats if text.startswith(LANE) and "lanes together" in text]
    asked = named(bounds={RULES[rule]: 0.03})
    assert findings_of([*loud, *quiet], asked)[f"{LANE}.{rule}"].verdict == "fail"


@pytest.mark.parametrize("rule", RULES)
def test_a_lane_alone_is_all_lanes_together(rule: str) -> None:
    loud = numbered([NORMAL] * 40 + LOUDER[rule])
    assert findings_of(loud, named())[f"advisory.{rule}"].verdict == "fail"


def test_a_good_lane_has_no_such_caveat() -> None:
    caveats = summary_of(good_lane(), named())["promotion"]["caveats"]
    assert not [text for text in caveats if "lanes together" in text]
