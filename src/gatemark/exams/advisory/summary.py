"""The summary of an advisory run: its fixed texts, and its type for ``gatemark schema``."""

from __future__ import annotations

from types import GenericAlias
from typing import Any, Final, Literal

import msgspec

from gatemark.exams.advisory.limits import LaneBounds
from gatemark.exams.advisory.metrics import COUNTS
from gatemark.exams.advisory.policy import AdvisoryPolicy

SUMMARY_SCHEMA: Final = "gatemark.advisory_summary/1"
CANDIDATE: Final = "candidate for discussion"
BLOCKED: Final = "blocked"
NOT_SCOPED: Final = "not scoped: the policy names no approved scope, rollback plan and reviewer"
STATEMENT: Final = (
    "Lanes listed here are candidates for discussion. No authority is granted by this run; each "
    "lane needs its own decision by people."
)


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
    *((metric.name, int) for metric in COUNTS),
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
        ("past_runs_left_out", int),
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
