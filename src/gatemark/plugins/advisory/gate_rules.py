"""The rules of the gate that follow from an advisory policy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal

from gatemark.core.policy import Rule
from gatemark.plugins.advisory.policy import AdvisoryPolicy
from gatemark.plugins.advisory.policy_limits import (
    LIMITS,
    OVERALL_METRICS,
    LaneBounds,
    OverallBounds,
)

OTHER_LANES = "advisory.other_lanes"
NEVER_EXCUSED = frozenset(
    (
        "advisory.authority",
        "advisory.side_effects",
        "advisory.privacy",
        "advisory.outcomes",
        "advisory.stated_blockers",
    )
)
"""What keeps every lane from being discussed even when a waiver lets the run pass."""
DATA_QUALITY = frozenset(
    ("comparable", "cases", "references", "stability", "inputs", "history", "fixtures")
)
"""The rules of every lane that no waiver excuses either."""


def is_never_excused(rule: str, lane: str | None) -> bool:
    """Whether a rule keeps lanes from being discussed even if it is waived."""
    return rule in NEVER_EXCUSED or rule.removeprefix(f"{lane}.") in DATA_QUALITY


ASKED_OVERALL: Final = {
    "false_positives": "false_positive_rate_max",
    "uncertain": "uncertain_rate_max",
}
"""Rules that the overall bounds ask, and the bound by which a policy asks them of a lane too."""


def list_asked_overall(policy: AdvisoryPolicy, lane: str) -> frozenset[str]:
    """Return the rules that apply only to all lanes together.

    A policy asks more of a lane by naming the limit in its entry, or another one for all lanes.
    """
    named = policy.lanes.get(lane)
    usual, own = LaneBounds(), policy.lane_defaults
    return frozenset(
        rule
        for rule, bound in ASKED_OVERALL.items()
        if (named is None or bound not in named.bounds)
        and getattr(own, bound) == getattr(usual, bound)
    )


def build_rules(policy: AdvisoryPolicy, *, pinned: bool = False) -> tuple[Rule, ...]:
    """Return global blockers, overall limits, and the rules of named and of all other lanes."""
    return (
        *build_global_rules(),
        *build_overall_rules(policy.overall),
        Rule(OTHER_LANES, "other_lanes_below_count", "<=", 0),
        *(
            rule
            for lane in sorted(policy.lanes)
            for rule in (*build_lane_rules(policy, lane), *build_input_rules(lane, pinned=pinned))
        ),
    )


def build_input_rules(lane: str, *, pinned: bool) -> Iterator[Rule]:
    """Yield the rules on a lane's inputs and on its earlier runs."""
    yield Rule(f"{lane}.inputs", "input_conflict_count", "<=", 0, scope=lane, severity="hold")
    yield Rule(f"{lane}.history", "failed_run_count", "<=", 0, scope=lane, severity="hold")
    if pinned:
        name = "fixture_difference_count"
        yield Rule(f"{lane}.fixtures", name, "<=", 0, scope=lane, severity="hold")


def build_global_rules() -> tuple[Rule, ...]:
    """Return the rules that block every lane at any rate of agreement."""
    return (
        Rule("advisory.authority", "authority_flag_violation_count", "<=", 0),
        Rule("advisory.side_effects", "actual_side_effect_count", "<=", 0),
        Rule("advisory.privacy", "privacy_violation_count", "<=", 0),
        Rule("advisory.stated_blockers", "unexplained_blocker_count", "<=", 0),
        Rule("advisory.fallback_reasons", "fallback_without_reason_count", "<=", 0),
        Rule("advisory.outcomes", "outcome_mismatch_count", "<=", 0, severity="hold"),
    )


def _list_limits(
    bounds: OverallBounds,
) -> Iterator[tuple[str, str, Literal["<=", ">="], float]]:
    """Yield name, metric, operator and bound of every limit that is set."""
    for name, metric, limit in LIMITS:
        bound = getattr(bounds, limit, None)
        if bound is not None:
            yield name, metric, ">=" if limit.endswith("_min") else "<=", bound


def build_overall_rules(bounds: OverallBounds) -> tuple[Rule, ...]:
    """Return the limits for all records together as rules."""
    return tuple(
        Rule(f"advisory.{name}", OVERALL_METRICS.get(name, metric), op, bound)
        for name, metric, op, bound in _list_limits(bounds)
    )


def build_lane_rules(policy: AdvisoryPolicy, lane: str) -> tuple[Rule, ...]:
    """Return the limits of one lane as rules; those that do not apply are left out."""
    bounds, left_out = policy.bounds(lane), set(list_asked_overall(policy, lane))
    if bounds.conservative:
        left_out.add("uncertain")
    if not bounds.proof_required:
        left_out.add("proof")
    limits = (
        *_list_limits(bounds),
        ("cases", "missing_case_kind_count", "<=", 0),
        ("references", "missing_reference_count", "<=", 0),
        ("stability", "bucket_shift", "<=", policy.stability.shift_max),
    )
    return tuple(
        Rule(f"{lane}.{name}", metric, op, bound, scope=lane)
        for name, metric, op, bound in limits
        if name not in left_out
    )
