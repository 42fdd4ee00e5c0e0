"""The summary of an advisory run: the whole document, and its type for ``gatemark schema``."""

from __future__ import annotations

from types import GenericAlias
from typing import Any, Final, Literal

import msgspec

from gatemark.core.measurement import Evidence
from gatemark.core.policy import Policy, Verdict
from gatemark.evidence.exam import ExamReport
from gatemark.plugins.advisory.metrics import COUNT_METRICS
from gatemark.plugins.advisory.policy import AdvisoryPolicy
from gatemark.plugins.advisory.policy_limits import LaneBounds
from gatemark.plugins.advisory.promotion import build_promotion


class LatencySummary(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Percentiles of the total time, in milliseconds; null without a timed record."""

    n: int
    p50: float | None
    p95: float | None
    method: str
    untimed: int | msgspec.UnsetType = msgspec.UNSET


class LanePromotion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whether a lane is a candidate for discussion, and its blockers."""

    status: str
    blockers: list[str]
    waivers: list[str] | msgspec.UnsetType = msgspec.UNSET
    scope: str | msgspec.UnsetType = msgspec.UNSET
    approved_by: str | msgspec.UnsetType = msgspec.UNSET
    rollback_plan: str | msgspec.UnsetType = msgspec.UNSET
    reviewer: str | msgspec.UnsetType = msgspec.UNSET
    smaller_scope: str | msgspec.UnsetType | None = msgspec.UNSET


class PromotionSummary(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Candidates for discussion; no authority is granted."""

    statement: str
    blockers: list[str]
    caveats: list[str]
    candidate_lanes: list[str]
    lanes: dict[str, LanePromotion]


_GROUP_FIELDS: Final[list[tuple[str, Any]]] = [
    *((metric.name, int) for metric in COUNT_METRICS),
    ("confidence_bucket_counts", dict[str, int]),
    ("fallback_counts_by_kind", dict[str, int]),
    ("categories", dict[str, int]),
    ("rates", dict[str, float | None]),
    ("reasons", dict[str, str]),
    ("intervals", dict[str, tuple[float, float]]),
    ("recommendation_counts", dict[str, int]),
    ("atlas_shadow", dict[str, Any]),
]
LaneSummary = msgspec.defstruct(
    "LaneSummary",
    [
        *_GROUP_FIELDS,
        ("latency", LatencySummary),
        ("buckets", dict[str, dict[str, int]]),
        ("cases", dict[str, int]),
        ("missing_cases", list[str]),
        ("comparable_inputs", int | None),
        ("bucket_shift", float | None),
        ("bucket_shift_reason", str | None),
        ("bounds", LaneBounds),
        ("named_in_policy", bool),
        ("held_by", dict[str, list[str]]),
    ],
    frozen=True,
    forbid_unknown_fields=True,
)
AdvisorySummary = msgspec.defstruct(
    "AdvisorySummary",
    [
        ("schema", Literal["gatemark.advisory_summary/1"]),
        ("fixture_sets", list[str]),
        ("run_ids", list[str]),
        *_GROUP_FIELDS,
        ("records_by_input_class", dict[str, int]),
        ("records_by_service", dict[str, int]),
        ("records_by_lane", dict[str, int]),
        ("unexplained_blockers", dict[str, int]),
        ("latency", dict[str, Any]),
        ("lanes", GenericAlias(dict, (str, LaneSummary))),
        ("buckets", dict[str, dict[str, float | None]]),
        ("violations", list[dict[str, Any]]),
        ("violation_fields", list[dict[str, Any]]),
        ("wrong_records", dict[str, Any]),
        ("runs", dict[str, dict[str, dict[str, int]]]),
        ("past_runs", list[Any]),
        ("other_lanes", dict[str, dict[str, list[str]]]),
        ("lost_records", int),
        ("promotion", PromotionSummary),
        ("verdict", Literal["pass", "fail", "inconclusive"]),
        ("pass", bool),
        ("advisory_policy", str),
        ("advisory_policy_digest", str),
        ("resolved_policy", AdvisoryPolicy),
        ("received", int),
        ("rejected", int),
        ("missing", int),
        ("duplicates", int),
        ("expected", int | None),
        ("checks", dict[str, str]),
        ("evidence_digests", list[str]),
        ("evidence", list[dict[str, Any]]),
    ],
)
"""The type of the whole summary; commands may add keys."""


def build_summary(
    policy: AdvisoryPolicy,
    rules: Policy,
    report: ExamReport,
    evidence: Evidence,
    verdict: Verdict,
) -> dict[str, Any]:
    """Return the complete summary."""
    return {
        **report.facts,
        "promotion": build_promotion(policy, rules, report.facts, evidence, verdict),
        "verdict": verdict.outcome,
        "pass": verdict.outcome == "pass",
        "advisory_policy": policy.name,
        "advisory_policy_digest": policy.digest,
        "resolved_policy": msgspec.to_builtins(policy),
        "received": evidence.received,
        "rejected": evidence.rejected,
        "missing": evidence.missing,
        "duplicates": evidence.duplicates,
        "expected": evidence.expected,
        "checks": evidence.checks,
        "evidence_digests": [file.digest for file in evidence.files],
        "evidence": [
            {"name": file.name, "digest": file.digest, "bytes": file.byte_count}
            for file in evidence.files
        ],
    }
