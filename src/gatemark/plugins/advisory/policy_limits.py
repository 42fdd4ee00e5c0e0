"""The limits of an advisory policy, and the metric that each judges: types and a table alone."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from gatemark.plugins.advisory.record import Share

COMPARABLE_MIN: Final = 30

Count = Annotated[int, msgspec.Meta(ge=0)]


class OverallBounds(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The limits for all records together."""

    agreement_rate_min: Share = 0.95
    false_positive_rate_max: Share = 0.03
    high_severity_false_positives_max: Count = 1
    false_negative_rate_max: Share = 0.01
    missed_action_rate_max: Share = 0.01
    uncertain_rate_max: Share = 0.15
    unexpected_fallback_rate_max: Share = 0.02


class LaneBounds(OverallBounds, frozen=True, forbid_unknown_fields=True):
    """The limits for one lane: those for all records, with its own agreement, and further ones.

    ``conservative`` lanes may be uncertain as often as they like. ``proof_required`` lanes must
    show that an NPU ran. ``p95_total_ms_max`` is the lane's own latency objective, if it has one.
    ``expected_fallback_rate_max`` limits expected fallbacks.
    """

    agreement_rate_min: Share = 0.90
    expected_fallback_rate_max: Share | None = None
    comparable_records_min: Annotated[int, msgspec.Meta(ge=1)] = COMPARABLE_MIN
    proof_required: bool = False
    proof_ok_rate_min: Share = 0.98
    conservative: bool = False
    p95_total_ms_max: Annotated[float, msgspec.Meta(gt=0)] | None = None


LIMITS: Final = (
    ("agreement", "agreement_rate", "agreement_rate_min"),
    ("false_positives", "false_positive_rate", "false_positive_rate_max"),
    (
        "repeated_false_positives",
        "high_severity_false_positive_count",
        "high_severity_false_positives_max",
    ),
    ("false_negatives", "false_negative_rate", "false_negative_rate_max"),
    ("missed_actions", "missed_action_rate", "missed_action_rate_max"),
    ("uncertain", "uncertain_rate_of_inputs", "uncertain_rate_max"),
    (
        "unexpected_fallbacks",
        "unexpected_fallback_rate_of_inputs",
        "unexpected_fallback_rate_max",
    ),
    ("expected_fallbacks", "expected_fallback_rate", "expected_fallback_rate_max"),
    ("proof", "proof_ok_rate", "proof_ok_rate_min"),
    ("latency", "p95_total_ms", "p95_total_ms_max"),
    ("comparable", "comparable_inputs", "comparable_records_min"),
)
"""Rules, the metric that each judges, and its limit: overall, of a lane, or of both."""
OVERALL_METRICS: Final = {"uncertain": "uncertain_rate_outside_conservative_lanes"}
