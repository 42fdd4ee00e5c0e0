from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gatemark.plugins.advisory.policy import AdvisoryPolicy
from gatemark.plugins.advisory.policy_limits import LaneBounds, OverallBounds

from .decisions import LANE, PROMOTION, named, policy_of


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"lanes": {"cron": {}}}, "must be written input_class/service"),
        ({"lanes": {"a b/c": {}}}, "must be written input_class/service"),
        ({"lanes": {LANE: {"bounds": {"agrement_rate_min": 1}}}}, "unknown field"),
        ({"lanes": {LANE: {"bounds": {"agreement_rate_min": 2}}}}, "<= 1"),
        ({"lanes": {LANE: {"bounds": {"comparable_records_min": 12}}}}, "without a smaller_scope"),
        ({"lanes": {LANE: {"promotion": {"scope": "x"}}}}, "missing required field"),
        ({"lanes": {LANE: {"promotion": {**PROMOTION, "reviewer": "  "}}}}, "matching regex"),
        ({"lane_defaults": {"comparable_records_min": 5}}, "comparable_records_min must be >= 30"),
        ({"labels": {"action": ["Do It"]}}, "does not match"),
        ({"labels": {"action": ["suppress"]}}, "more than one meaning"),
        ({"bucket_rules": {"own": [0.5, 0.4, 0.8, 0.9]}}, "must rise"),
        ({"bucket_rules": {"v1_default": [0.1, 0.2, 0.3, 0.4]}}, "cannot be redefined"),
        ({"stability": {"runs_min": 1}}, ">= 2"),
        ({"lanes": {LANE: {"bounds": {"p95_total_ms_max": float("inf")}}}}, "must be finite"),
        ({"lane_defaults": {"p95_total_ms_max": float("inf")}}, "must be finite"),
        ({"privacy": {"private_roots": [" "]}}, "must not be blank"),
        ({"thresholds": {}}, "unknown field"),
        ({"overall": {"agreement_rate_min": float("nan")}}, "<= 1|>= 0"),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=message):
        policy_of(**fields)


def test_the_digest_covers_every_bound_and_every_name() -> None:
    digests = {
        policy.digest
        for policy in (
            AdvisoryPolicy(),
            policy_of(overall={"agreement_rate_min": 0.96}),
            policy_of(lane_defaults={"conservative": True}),
            policy_of(stability={"shift_max": 0.2}),
            policy_of(privacy={"note_chars_max": 300}),
            policy_of(labels={"deferred": ["unknown"]}),
            named(),
            named(bounds={"agreement_rate_min": 0.99}),
            named(promotion={**PROMOTION, "reviewer": "Lin"}),
        )
    }
    assert len(digests) == 9


def test_bounds_do_not_change_how_records_are_read() -> None:
    usual = AdvisoryPolicy().reading_digest
    assert policy_of(overall={"agreement_rate_min": 0.5}).reading_digest == usual
    assert named(bounds={"agreement_rate_min": 0.5}).reading_digest == usual
    assert policy_of(privacy={"note_chars_max": 300}).reading_digest != usual
    assert named(labels={"deferred": ["unknown"]}).reading_digest != usual


def test_a_lane_inherits_what_it_does_not_say() -> None:
    policy = policy_of(
        lane_defaults={"agreement_rate_min": 0.8, "uncertain_rate_max": 0.3},
        lanes={LANE: {"bounds": {"agreement_rate_min": 0.99}}},
    )
    assert policy.bounds(LANE).agreement_rate_min == 0.99
    assert policy.bounds(LANE).uncertain_rate_max == 0.3
    assert policy.bounds("any/other").agreement_rate_min == 0.8


@pytest.mark.parametrize(
    ("heading", "bounds"),
    [("Over all records together:", OverallBounds()), ("Over each lane:", LaneBounds())],
)
def test_the_documented_bounds_are_the_defaults(heading: str, bounds: Any) -> None:
    page = Path(__file__).parents[3] / "docs" / "explanation" / "advisory-exam.md"
    table = page.read_text(encoding="utf-8").partition(heading)[2].strip().partition("\n\n")[0]
    stated = dict(re.findall(r"\| `(\w+)` \| (\S+) \|", table))
    spelled = {
        name: "none" if value is None else str(value).lower()
        for name, value in msgspec.structs.asdict(bounds).items()
    }
    assert stated == spelled
