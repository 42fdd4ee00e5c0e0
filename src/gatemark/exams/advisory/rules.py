"""The gate rules that an advisory policy spells out."""

from __future__ import annotations

from collections.abc import Iterator

from gatemark.core.policy import Rule
from gatemark.exams.advisory.policy import AdvisoryPolicy, LaneBounds, OverallBounds

OTHER_LANES = "advisory.other_lanes"
NEVER_EXCUSED = frozenset(("advisory.authority", "advisory.side_effects", "advisory.privacy"))
"""What keeps every lane from being discussed even when a waiver lets the run pass."""


def all_rules(policy: AdvisoryPolicy) -> tuple[Rule, ...]:
    """Global blockers, overall bounds, the lanes that are named, and all others together."""
    return (
        *global_rules(),
        *overall_rules(policy.overall),
        Rule(OTHER_LANES, "other_lanes_below_count", "<=", 0),
        *(
            rule
            for lane in sorted(policy.lanes)
            for rule in lane_rules(lane, policy.bounds(lane), policy.stability.shift_max)
        ),
    )


def global_rules() -> tuple[Rule, ...]:
    """What blocks every lane, whatever the rates say."""
    return (
        Rule("advisory.authority", "authority_flag_violation_count", "<=", 0),
        Rule("advisory.side_effects", "actual_side_effect_count", "<=", 0),
        Rule("advisory.privacy", "privacy_violation_count", "<=", 0),
        Rule("advisory.stated_blockers", "unexplained_blocker_count", "<=", 0),
        Rule("advisory.fallback_reasons", "fallback_without_reason_count", "<=", 0),
        Rule("advisory.outcomes", "outcome_mismatch_count", "<=", 0, severity="hold"),
    )


def overall_rules(bounds: OverallBounds) -> tuple[Rule, ...]:
    """The lines for all records together."""
    return (
        Rule("advisory.agreement", "agreement_rate", ">=", bounds.agreement_rate_min),
        Rule(
            "advisory.false_positives", "false_positive_rate", "<=", bounds.false_positive_rate_max
        ),
        Rule(
            "advisory.repeated_false_positives",
            "high_severity_false_positive_count",
            "<=",
            bounds.high_severity_false_positives_max,
        ),
        Rule(
            "advisory.false_negatives", "false_negative_rate", "<=", bounds.false_negative_rate_max
        ),
        Rule("advisory.missed_actions", "missed_action_rate", "<=", bounds.missed_action_rate_max),
        Rule(
            "advisory.uncertain",
            "uncertain_rate_outside_conservative_lanes",
            "<=",
            bounds.uncertain_rate_max,
        ),
        Rule(
            "advisory.unexpected_fallbacks",
            "unexpected_fallback_rate_of_inputs",
            "<=",
            bounds.unexpected_fallback_rate_max,
        ),
    )


def lane_rules(lane: str, bounds: LaneBounds, shift_max: float) -> tuple[Rule, ...]:
    """The lines for one lane; those that do not concern it are left out."""

    def spelled() -> Iterator[tuple[str, str, str, float]]:
        yield "agreement", "agreement_rate", ">=", bounds.agreement_rate_min
        yield "false_positives", "false_positive_rate", "<=", bounds.false_positive_rate_max
        yield (
            "repeated_false_positives",
            "high_severity_false_positive_count",
            "<=",
            bounds.high_severity_false_positives_max,
        )
        yield "false_negatives", "false_negative_rate", "<=", bounds.false_negative_rate_max
        yield "missed_actions", "missed_action_rate", "<=", bounds.missed_action_rate_max
        if not bounds.conservative:
            yield "uncertain", "uncertain_rate_of_inputs", "<=", bounds.uncertain_rate_max
        yield (
            "unexpected_fallbacks",
            "unexpected_fallback_rate_of_inputs",
            "<=",
            bounds.unexpected_fallback_rate_max,
        )
        if bounds.expected_fallback_rate_max is not None:
            yield (
                "expected_fallbacks",
                "expected_fallback_rate",
                "<=",
                bounds.expected_fallback_rate_max,
            )
        if bounds.proof_required:
            yield "proof", "proof_ok_rate", ">=", bounds.proof_ok_rate_min
        if bounds.p95_total_ms_max is not None:
            yield "latency", "p95_total_ms", "<=", bounds.p95_total_ms_max
        yield "comparable", "comparable_inputs", ">=", bounds.comparable_records_min
        yield "cases", "missing_case_kind_count", "<=", 0
        yield "references", "missing_reference_count", "<=", 0
        yield "stability", "bucket_shift", "<=", shift_max

    return tuple(
        Rule(f"{lane}.{name}", metric, op, bound, lane=lane)  # type: ignore[arg-type]
        for name, metric, op, bound in spelled()
    )
