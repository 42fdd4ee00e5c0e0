"""The record of one recommendation and its comparison: ``npu_advisory_decision_v1``.

A key that the document calls optional may be absent or null; every other key is required. Types
define what can be read, what texts look like, and which texts are searched for private content;
``record_rules`` has the rules across fields. Fields are in the document's order, in which they are
decoded fastest.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, Final, Literal, get_args

from msgspec import UNSET, Meta, Struct, UnsetType

from gatemark.evidence.record_fields import DATE, searched_as, text_like

SCHEMA_NAME: Final = "npu_advisory_decision_v1"

ID_PATTERN: Final = (
    r"^(?:[0-7][0-9A-HJKMNP-TV-Z]{25}"
    r"|[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12})$"
)
TIME_PATTERN: Final = (
    rf"^{DATE}[Tt](?:(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]|23:59:60)(?:\.[0-9]{{1,9}})?"
    r"(?:[Zz]|[+-]00:00)$"
)
HASH_PATTERN: Final = r"^sha256:(?:[0-9a-fA-F]{64}|example)$"
NAME_PATTERN: Final = r"^[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}$"
LABEL_PATTERN: Final = r"^[a-z][a-z0-9_]{0,63}$"

DecisionId = Annotated[
    str, text_like(ID_PATTERN, "a UUID or a ULID in capitals", min_length=26, max_length=36)
]
Moment = Annotated[
    str,
    text_like(TIME_PATTERN, "an existing time in UTC such as 2026-06-06T12:30:00Z", max_length=40),
]
ContentHash = Annotated[
    str, text_like(HASH_PATTERN, "sha256: and 64 hexadecimal digits", max_length=71)
]
Name = Annotated[
    str,
    text_like(
        NAME_PATTERN,
        "1 to 128 of the characters A-Z a-z 0-9 _ . : -, with a letter or digit first",
        min_length=1,
        max_length=128,
    ),
]
Label = Annotated[
    str,
    text_like(
        LABEL_PATTERN,
        "1 to 64 of the characters a-z 0-9 _, with a letter first",
        min_length=1,
        max_length=64,
    ),
]
Code = Annotated[str, searched_as("code")]
FreeName = Annotated[Name, searched_as("code")]
"""A name that anybody may choose. Labels and bucket rules are not free: the policy names them."""
Remark = Annotated[str, searched_as("note")]
OptionalCode = Code | UnsetType | None
Share = Annotated[float, Meta(ge=0, le=1)]
Milliseconds = Annotated[float, Meta(ge=0)]
Microseconds = Annotated[int, Meta(ge=0)]

Severity = Literal["none", "info", "low", "medium", "high", "critical"]
Bucket = Literal["very_low", "low", "medium", "high", "very_high", "unknown"]
ComparisonWord = Literal["agree", "disagree", "uncertain", "missing_reference", "not_applicable"]
ComparisonError = Literal[
    "false_positive", "false_negative", "severity_overcall", "severity_undercall"
]
ErrorType = Literal[
    ComparisonError,
    "unsafe_authority",
    "privacy_violation",
    "fallback_unexpected",
    "latency_slo_miss",
    "npu_proof_missing",
]
SourceKind = Literal[
    "fixture", "manual_label", "atlas_shadow", "human_review", "service_health_probe"
]
PrivacyClass = Literal["synthetic", "public", "non_private", "redacted", "private_disallowed"]
Mode = Literal["dry_run", "shadow", "health_only", "offline_fixture"]
AdvisoryAction = Literal[
    "record_metric",
    "compare_with_expected_label",
    "include_in_digest",
    "open_review_ticket_candidate",
    "recommend_human_review",
]
Action = Literal[
    AdvisoryAction,
    "route_atlas",
    "write_memory",
    "execute_tool",
    "restart_service",
    "send_message",
    "scan_private_root",
    "mutate_vector_store",
    "post_gateway_event",
]
ActionKind = Literal["none", "recorded_metric", "dry_run_reported"]
Performer = Literal["harness", "human", "atlas"]
ReferenceSource = Literal["fixture_expected", "human_label", "atlas_shadow", "missing"]
ProofMode = Literal[
    "sysfs_busy_delta", "service_reported_delta", "health_only", "offline_fixture", "unavailable"
]
FallbackKind = Literal[
    "cpu",
    "offline",
    "health_only",
    "service_unavailable",
    "skipped_cold_load",
    "private_root_blocked",
    "proof_unavailable",
]
Redaction = Literal["none_needed", "hash_only", "paths_only", "metadata_only", "blocked_private"]
Retention = Literal["ephemeral", "local_audit", "review_artifact"]


class InputSource(Struct, frozen=True, gc=False, forbid_unknown_fields=True, kw_only=True):
    """Where the input came from; never the input itself."""

    kind: SourceKind
    fixture_id: OptionalCode = UNSET
    fixture_set: OptionalCode = UNSET
    artifact_ref: OptionalCode = UNSET
    content_hash: ContentHash | UnsetType | None = UNSET
    privacy_class: PrivacyClass


class Service(Struct, frozen=True, gc=False, forbid_unknown_fields=True, kw_only=True):
    """The advisory service that recommended."""

    name: FreeName
    endpoint: OptionalCode = UNSET
    mode: Mode
    model: OptionalCode = UNSET


class Recommendation(Struct, frozen=True, gc=False, forbid_unknown_fields=True, kw_only=True):
    """What the service recommends, with reason codes and bounded references."""

    label: Label
    severity: Severity
    reasons: tuple[Code, ...]
    evidence_refs: tuple[Code, ...] | UnsetType = UNSET
    raw_output_ref: OptionalCode = UNSET


class StatedConfidence(Struct, frozen=True, gc=False, forbid_unknown_fields=True, kw_only=True):
    """The confidence of the service; without a score it is in the bucket unknown."""

    score: Share | UnsetType | None = UNSET
    bucket: Bucket
    bucket_rule: Name
    calibrated: bool


class AuthorityFlags(Struct, frozen=True, gc=False, forbid_unknown_fields=True, kw_only=True):
    """What the recommendation may do by itself: nothing. A missing flag is a violation."""

    can_route_atlas: bool | UnsetType = UNSET
    can_write_memory: bool | UnsetType = UNSET
    can_execute_tools: bool | UnsetType = UNSET
    can_restart_services: bool | UnsetType = UNSET
    can_send_outbound: bool | UnsetType = UNSET
    can_scan_private_roots: bool | UnsetType = UNSET
    can_mutate_vector_store: bool | UnsetType = UNSET
    can_post_advisory_event: bool | UnsetType = UNSET
    can_change_gateway_config: bool | UnsetType = UNSET
    requires_human_approval: bool | UnsetType = UNSET
    advisory_only: bool | UnsetType = UNSET


class ActualAction(Struct, frozen=True, gc=False, forbid_unknown_fields=True, kw_only=True):
    """What actually happened."""

    kind: ActionKind
    performed: bool
    performed_by: Performer | UnsetType | None = UNSET
    side_effects: tuple[Code, ...]


class Reference(Struct, frozen=True, gc=False, forbid_unknown_fields=True, kw_only=True):
    """What the recommendation is compared with; source missing has neither label nor severity."""

    source: ReferenceSource
    label: Label | UnsetType | None = UNSET
    severity: Severity | UnsetType | None = UNSET
    confidence: Share | UnsetType | None = UNSET
    decision_ref: OptionalCode = UNSET
    timestamp: Moment | UnsetType | None = UNSET


class ComparisonOutcome(Struct, frozen=True, gc=False, forbid_unknown_fields=True, kw_only=True):
    """The comparison by the harness; scoring compares again and counts differences."""

    comparison: ComparisonWord
    error_type: ErrorType | UnsetType | None = UNSET
    human_review_required: bool
    promotion_blocker: bool


class NpuProof(Struct, frozen=True, gc=False, forbid_unknown_fields=True, kw_only=True):
    """Whether a real NPU ran; ``proof_ok`` null means not measurable, never false."""

    proof_mode: ProofMode
    busy_delta_us: Microseconds | UnsetType | None = UNSET
    service_reported_delta_us: Microseconds | UnsetType | None = UNSET
    inference_ran: bool
    proof_ok: bool | None
    counter_path: OptionalCode = UNSET


class Latency(Struct, frozen=True, gc=False, forbid_unknown_fields=True, kw_only=True):
    """Latency; null if not measured."""

    total_ms: Milliseconds | None
    service_ms: Milliseconds | UnsetType | None = UNSET
    queue_ms: Milliseconds | UnsetType | None = UNSET
    timeout: bool


class Fallback(Struct, frozen=True, gc=False, forbid_unknown_fields=True, kw_only=True):
    """Whether something other than the NPU answered, and why."""

    occurred: bool
    kind: FallbackKind | UnsetType | None = UNSET
    reason: OptionalCode = UNSET
    expected: bool


class Privacy(Struct, frozen=True, gc=False, forbid_unknown_fields=True, kw_only=True):
    """What was left out of the record and how long it may be kept."""

    payload_logged: bool
    redaction: Redaction
    retention: Retention
    contains_private_payload: bool


class AdvisoryDecision(Struct, frozen=True, gc=False, forbid_unknown_fields=True, kw_only=True):
    """One recommendation for one input: evidence for a gate, never an action."""

    schema_version: Literal["npu_advisory_decision_v1"]
    decision_id: DecisionId
    timestamp: Moment
    source: InputSource
    service: Service
    input_class: FreeName
    recommendation: Recommendation
    confidence: StatedConfidence
    authority_flags: AuthorityFlags
    allowed_actions: tuple[Action, ...]
    actual_action: ActualAction
    human_or_atlas_decision: Reference
    outcome: ComparisonOutcome
    npu_proof: NpuProof
    latency: Latency
    fallback: Fallback
    privacy: Privacy
    notes: tuple[Remark, ...] | UnsetType = UNSET


CLOSED_FLAGS: Final = AuthorityFlags(
    **{flag: not flag.startswith("can_") for flag in AuthorityFlags.__struct_fields__}
)
"""The only flags a record may carry: all nine permissions false, both duties true."""

ALLOWED_ACTIONS: Final[frozenset[str]] = frozenset(get_args(AdvisoryAction))
DEFAULT_ACTIONS: Final[tuple[Action, ...]] = (
    "record_metric",
    "compare_with_expected_label",
    "include_in_digest",
)
LOCAL_WRITES: Final[frozenset[str]] = frozenset(
    ("local_report_write", "local_artifact_write", "local_report", "local_artifact")
)
"""The side effects a dry run may have; ``:`` and an opaque reference may follow."""
CODES_MAX: Final = 32
"""The most reasons, and the most references, that a record may have."""
KERNEL_COUNTER: Final = re.compile(r"/sys/class/accel/accel[0-9]{1,3}/device/npu_busy_time_us\Z")
ProofGrade = Literal["kernel", "counter", "implausible", "service", "none"]
ERROR_CATEGORIES: Final[frozenset[str]] = frozenset(get_args(ComparisonError))
CASE_KINDS: Final = ("normal", "low_confidence", "false_alarm", "action_needed")
CASE_NOTES: Final[dict[str, str]] = {f"case:{kind}": kind for kind in CASE_KINDS}
"""The notes by which a record says what kind of case it is."""


def parse_moment(text: str) -> datetime:
    """Return the time of a record; a leap second counts as the second before."""
    text = text.upper()
    if text[17:19] == "60":
        text = f"{text[:17]}59{text[19:]}"
    return datetime.fromisoformat(text)
