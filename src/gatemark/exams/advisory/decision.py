"""The record of one recommendation and its comparison: ``npu_advisory_decision_v1``.

A key that the document calls optional may be absent or null; every other key is required. Types
only define what can be read; the rules below define what a record must not say. Fields are in the
document's order, in which they are decoded fastest.
"""

from __future__ import annotations

import math
import re
from datetime import datetime
from typing import Annotated, Final, Literal, get_args

from msgspec import UNSET, Meta, Struct, UnsetType

from gatemark.core.errors import InvalidValueError
from gatemark.core.record import Problem

SCHEMA_NAME: Final = "npu_advisory_decision_v1"

# Patterns are in the JSON Schema only: checking them record by record in the decoder would cost
# a quarter of the reading time, so the rules check them for whole batches.
ID_PATTERN: Final = (
    r"^(?:[0-7][0-9A-HJKMNP-TV-Z]{25}"
    r"|[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12})$"
)
TIME_PATTERN: Final = (
    r"^[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])"
    r"[Tt](?:(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]|23:59:60)(?:\.[0-9]{1,9})?"
    r"(?:[Zz]|[+-]00:00)$"
)
HASH_PATTERN: Final = r"^sha256:(?:[0-9a-fA-F]{64}|example)$"
NAME_PATTERN: Final = r"^[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}$"
LABEL_PATTERN: Final = r"^[a-z][a-z0-9_]{0,63}$"

DecisionId = Annotated[
    str, Meta(min_length=26, max_length=36, extra_json_schema={"pattern": ID_PATTERN})
]
Moment = Annotated[str, Meta(max_length=40, extra_json_schema={"pattern": TIME_PATTERN})]
ContentHash = Annotated[str, Meta(max_length=71, extra_json_schema={"pattern": HASH_PATTERN})]
Name = Annotated[
    str, Meta(min_length=1, max_length=128, extra_json_schema={"pattern": NAME_PATTERN})
]
Label = Annotated[
    str, Meta(min_length=1, max_length=64, extra_json_schema={"pattern": LABEL_PATTERN})
]
Share = Annotated[float, Meta(ge=0, le=1)]
Milliseconds = Annotated[float, Meta(ge=0)]
Microseconds = Annotated[int, Meta(ge=0)]
OptionalText = str | UnsetType | None

Severity = Literal["none", "info", "low", "medium", "high", "critical"]
Bucket = Literal["very_low", "low", "medium", "high", "very_high", "unknown"]
Comparison = Literal["agree", "disagree", "uncertain", "missing_reference", "not_applicable"]
ErrorType = Literal[
    "false_positive",
    "false_negative",
    "severity_overcall",
    "severity_undercall",
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
Action = Literal[
    "record_metric",
    "compare_with_expected_label",
    "include_in_digest",
    "open_review_ticket_candidate",
    "recommend_human_review",
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
    fixture_id: OptionalText = UNSET
    fixture_set: OptionalText = UNSET
    artifact_ref: OptionalText = UNSET
    content_hash: ContentHash | UnsetType | None = UNSET
    privacy_class: PrivacyClass


class Service(Struct, frozen=True, gc=False, forbid_unknown_fields=True, kw_only=True):
    """The advisory service that recommended."""

    name: Name
    endpoint: OptionalText = UNSET
    mode: Mode
    model: OptionalText = UNSET


class Recommendation(Struct, frozen=True, gc=False, forbid_unknown_fields=True, kw_only=True):
    """What the service recommends, with reason codes and bounded references."""

    label: Label
    severity: Severity
    reasons: tuple[str, ...]
    evidence_refs: tuple[str, ...] | UnsetType = UNSET
    raw_output_ref: OptionalText = UNSET


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
    side_effects: tuple[str, ...]


class Reference(Struct, frozen=True, gc=False, forbid_unknown_fields=True, kw_only=True):
    """What the recommendation is compared with; source missing has neither label nor severity."""

    source: ReferenceSource
    label: Label | UnsetType | None = UNSET
    severity: Severity | UnsetType | None = UNSET
    confidence: Share | UnsetType | None = UNSET
    decision_ref: OptionalText = UNSET
    timestamp: Moment | UnsetType | None = UNSET


class ComparisonOutcome(Struct, frozen=True, gc=False, forbid_unknown_fields=True, kw_only=True):
    """The comparison by the harness; scoring compares again and counts differences."""

    comparison: Comparison
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
    counter_path: OptionalText = UNSET


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
    reason: OptionalText = UNSET
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
    input_class: Name
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
    notes: tuple[str, ...] | UnsetType = UNSET


CLOSED_FLAGS: Final = AuthorityFlags(
    can_route_atlas=False,
    can_write_memory=False,
    can_execute_tools=False,
    can_restart_services=False,
    can_send_outbound=False,
    can_scan_private_roots=False,
    can_mutate_vector_store=False,
    can_post_advisory_event=False,
    can_change_gateway_config=False,
    requires_human_approval=True,
    advisory_only=True,
)
"""The only flags a record may carry: all nine permissions false, both duties true."""

ALLOWED_ACTIONS: Final[frozenset[str]] = frozenset(
    (
        "record_metric",
        "compare_with_expected_label",
        "include_in_digest",
        "open_review_ticket_candidate",
        "recommend_human_review",
    )
)
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
_REPORT_ENDINGS: Final = "jsonl?|md|txt|html?|csv|tsv|log|card"
_WRITTEN: Final = re.compile(
    r"(?:run:)?(?:[0-7][0-9A-HJKMNP-TV-Z]{25}"
    r"|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|sha256:[0-9a-fA-F]{64})\Z"
    rf"|(?!.*\.\.)[\w.-]+(?:/[\w.-]+)*\.(?:{_REPORT_ENDINGS})\Z"
)
"""What may follow a local write: an id, a digest, or the relative path of a report."""
PLAIN_WRITE: Final = (
    rf"(?:{'|'.join(sorted(LOCAL_WRITES))})"
    rf"(?::[A-Za-z0-9_./-]*[A-Za-z0-9_-]\.(?:{_REPORT_ENDINGS}))?"
)
"""Most local writes; a path must not have two dots or slashes in a row, nor a slash first."""
KERNEL_COUNTER: Final = re.compile(r"/sys/class/accel/accel[0-9]{1,3}/device/npu_busy_time_us\Z")
ProofGrade = Literal["kernel", "counter", "implausible", "service", "none"]
BUCKETS: Final[tuple[Bucket, ...]] = get_args(Bucket)
ERROR_CATEGORIES: Final[frozenset[str]] = frozenset(
    ("false_positive", "false_negative", "severity_overcall", "severity_undercall")
)
CASE_KINDS: Final = ("normal", "low_confidence", "false_alarm", "action_needed")
CASE_NOTES: Final[dict[str, str]] = {f"case:{kind}": kind for kind in CASE_KINDS}
"""The notes by which a record says what kind of case it is."""
DEFAULT_BUCKET_RULE: Final = "v1_default"
Edges = tuple[float, float, float, float]
BUCKET_RULES: Final[dict[str, Edges]] = {DEFAULT_BUCKET_RULE: (0.40, 0.60, 0.80, 0.95)}
"""Where the buckets low, medium, high and very_high begin, by the name of the rule."""


def bucket_of(score: float | None, edges: Edges = BUCKET_RULES[DEFAULT_BUCKET_RULE]) -> Bucket:
    """Return the bucket of a score; each begins at its edge, and no score means unknown."""
    if score is None:
        return "unknown"
    if math.isnan(score) or not 0 <= score <= 1:
        raise InvalidValueError(f"a confidence score must be in [0, 1], got {score}")
    return BUCKETS[sum(score >= edge for edge in edges)]


_ID: Final = re.compile(ID_PATTERN)
_TIME: Final = re.compile(TIME_PATTERN)
_HASH: Final = re.compile(HASH_PATTERN)
_NAME: Final = re.compile(NAME_PATTERN)
_LABEL: Final = re.compile(LABEL_PATTERN)
LOOKS: Final = {
    ID_PATTERN: "a UUID or a ULID in capitals",
    TIME_PATTERN: "a time in UTC such as 2026-06-06T12:30:00Z",
    HASH_PATTERN: "sha256: and 64 hexadecimal digits",
    NAME_PATTERN: "1 to 128 of the characters A-Z a-z 0-9 _ . : -, with a letter or digit first",
    LABEL_PATTERN: "1 to 64 of the characters a-z 0-9 _, with a letter first",
}
"""What the patterns ask for, in words."""
_UNMEASURED_PROOF: Final = frozenset(("health_only", "offline_fixture", "unavailable"))


def texts_keep_their_patterns(record: AdvisoryDecision) -> list[Problem]:
    """Check the patterns of ids, times, hashes, names and labels."""
    reference = record.human_or_atlas_decision
    found = [
        Problem(path, f"must be {LOOKS[pattern.pattern]}")
        for path, text, pattern in (
            ("$.decision_id", record.decision_id, _ID),
            ("$.timestamp", record.timestamp, _TIME),
            ("$.source.content_hash", record.source.content_hash, _HASH),
            ("$.service.name", record.service.name, _NAME),
            ("$.input_class", record.input_class, _NAME),
            ("$.recommendation.label", record.recommendation.label, _LABEL),
            ("$.confidence.bucket_rule", record.confidence.bucket_rule, _NAME),
            ("$.human_or_atlas_decision.label", reference.label, _LABEL),
            ("$.human_or_atlas_decision.timestamp", reference.timestamp, _TIME),
        )
        if text is not UNSET and text is not None and not matches(pattern, text)
    ]
    if not found:
        for path, moment in (
            ("$.timestamp", record.timestamp),
            ("$.human_or_atlas_decision.timestamp", reference.timestamp),
        ):
            if moment and not is_a_day(moment):
                found.append(Problem(path, "is not a day of the calendar"))
    return found


def matches(pattern: re.Pattern[str], text: str) -> bool:
    """Whether a pattern matches a whole text."""
    # In Python, $ also matches before a newline at the end.
    return pattern.match(text) is not None and not text.endswith("\n")


def is_a_day(moment: str) -> bool:
    """Whether a well-formed time also exists."""
    try:
        datetime.fromisoformat(moment[:10])
    except ValueError:
        return False
    return True


def bucket_follows_the_score(record: AdvisoryDecision) -> list[Problem]:
    """Check that the bucket is the one of the score; no score means unknown.

    The exam checks bucket rules that only a policy knows.
    """
    confidence = record.confidence
    score = None if confidence.score is UNSET else confidence.score
    if score is None:
        expected: str = "unknown"
    elif confidence.bucket_rule in BUCKET_RULES:
        expected = bucket_of(score, BUCKET_RULES[confidence.bucket_rule])
    elif confidence.bucket == "unknown":
        return [Problem("$.confidence.bucket", "must not be unknown when there is a score")]
    else:
        return []
    if confidence.bucket == expected:
        return []
    why = "without a score" if score is None else f"for the score {score:g}"
    return [Problem("$.confidence.bucket", f"must be {expected} {why}, got {confidence.bucket}")]


def reference_is_whole(record: AdvisoryDecision) -> list[Problem]:
    """Check that a reference has a label, and that a missing one has nothing to compare with."""
    reference = record.human_or_atlas_decision
    place = "$.human_or_atlas_decision"
    if reference.source == "missing":
        return [
            Problem(f"{place}.{name}", "must be null when the source is missing")
            for name in ("label", "severity")
            if getattr(reference, name)
        ]
    if not reference.label:
        return [Problem(f"{place}.label", f"must be given when the source is {reference.source}")]
    return []


def named_errors_disagree(record: AdvisoryDecision) -> list[Problem]:
    """Check that the four error types of a wrong comparison come with ``disagree``."""
    outcome = record.outcome
    if outcome.error_type in ERROR_CATEGORIES and outcome.comparison != "disagree":
        return [
            Problem(
                "$.outcome.comparison",
                f"must be disagree when error_type is {outcome.error_type}, "
                f"got {outcome.comparison}",
            )
        ]
    return []


def proof_fits_its_mode(record: AdvisoryDecision) -> list[Problem]:
    """Check that a proof is claimed only if something was measured and the counter moved."""
    proof = record.npu_proof
    if proof.proof_mode in _UNMEASURED_PROOF:
        return [
            Problem(f"$.npu_proof.{name}", f"must be null when proof_mode is {proof.proof_mode}")
            for name in ("proof_ok", "busy_delta_us", "service_reported_delta_us")
            if getattr(proof, name) not in (None, UNSET)
        ]
    name = (
        "busy_delta_us" if proof.proof_mode == "sysfs_busy_delta" else "service_reported_delta_us"
    )
    delta = _delta(proof)
    if delta is None:
        return [
            Problem(f"$.npu_proof.{name}", f"must be given when proof_mode is {proof.proof_mode}")
        ]
    # A service's own claim proves nothing, so it may leave the question open.
    if proof.proof_ok is None and proof.inference_ran and name == "busy_delta_us":
        return [Problem("$.npu_proof.proof_ok", "must be true or false when inference ran")]
    if proof.proof_ok and not proof.inference_ran:
        return [Problem("$.npu_proof.proof_ok", "must not be true when no inference ran")]
    if proof.proof_ok and 0 in (delta, proof.busy_delta_us):
        still = name if delta == 0 else "busy_delta_us"
        return [Problem("$.npu_proof.proof_ok", f"must not be true when {still} is 0")]
    return []


def _delta(proof: NpuProof) -> int | None:
    measured = (
        proof.busy_delta_us
        if proof.proof_mode == "sysfs_busy_delta"
        else proof.service_reported_delta_us
    )
    return None if measured is UNSET else measured


def fallback_has_its_kind(record: AdvisoryDecision) -> list[Problem]:
    """Check that a fallback has a kind if and only if it occurred."""
    fallback = record.fallback
    if fallback.occurred and not fallback.kind:
        return [Problem("$.fallback.kind", "must be given when a fallback occurred")]
    if not fallback.occurred and fallback.kind:
        return [Problem("$.fallback.kind", "must be null when no fallback occurred")]
    return []


CONTRADICTIONS: Final = (
    texts_keep_their_patterns,
    bucket_follows_the_score,
    reference_is_whole,
    named_errors_disagree,
    proof_fits_its_mode,
    fallback_has_its_kind,
)


def authority_breaches(record: AdvisoryDecision) -> list[Problem]:
    """Return open permissions, unmet duties, and actions that nobody approved."""
    found: list[Problem] = []
    if record.authority_flags != CLOSED_FLAGS:
        for name in CLOSED_FLAGS.__struct_fields__:
            wanted = getattr(CLOSED_FLAGS, name)
            given = getattr(record.authority_flags, name)
            if given is not wanted:
                word = "is missing, must be" if given is UNSET else "must be"
                found.append(Problem(f"$.authority_flags.{name}", f"{word} {str(wanted).lower()}"))
    found.extend(
        Problem(f"$.allowed_actions[{place}]", f"{action} is not an advisory action")
        for place, action in enumerate(record.allowed_actions)
        if action not in ALLOWED_ACTIONS
    )
    if record.outcome.error_type == "unsafe_authority":
        found.append(Problem("$.outcome.error_type", "states unsafe_authority"))
    return found


def side_effect_breaches(record: AdvisoryDecision) -> list[Problem]:
    """Return side effects other than writing a local report."""
    action = record.actual_action
    found = []
    if action.performed:
        found.append(Problem("$.actual_action.performed", "must be false"))
    found.extend(
        Problem(f"$.actual_action.side_effects[{place}]", "is not a local report or artifact write")
        for place, effect in enumerate(action.side_effects)
        if effect.partition(":")[0] not in LOCAL_WRITES
    )
    return found


def privacy_breaches(record: AdvisoryDecision) -> list[Problem]:
    """Return private content that the record itself declares; its texts are scanned separately."""
    privacy = record.privacy
    found = []
    if privacy.payload_logged:
        found.append(Problem("$.privacy.payload_logged", "must be false"))
    if privacy.contains_private_payload:
        found.append(Problem("$.privacy.contains_private_payload", "must be false"))
    if (
        record.source.privacy_class == "private_disallowed"
        and privacy.redaction != "blocked_private"
    ):
        found.append(
            Problem("$.source.privacy_class", "private input must be blocked, not examined")
        )
    if record.source.privacy_class == "private_disallowed" and record.npu_proof.inference_ran:
        found.append(
            Problem("$.npu_proof.inference_ran", "must be false when private input was blocked")
        )
    if record.outcome.error_type == "privacy_violation":
        found.append(Problem("$.outcome.error_type", "states privacy_violation"))
    return found


def fallback_breaches(record: AdvisoryDecision) -> list[Problem]:
    """Return a fallback without a reason code."""
    if record.fallback.occurred and not (record.fallback.reason or "").strip():
        return [Problem("$.fallback.reason", "a fallback needs a reason code")]
    return []


def hidden_side_effects(record: AdvisoryDecision) -> list[Problem]:
    """Return side effects hidden behind an allowed name; since version 2 of the rules."""
    return [
        Problem(
            f"$.actual_action.side_effects[{place}]",
            "must name an id, a digest or the relative path of a report after the colon",
        )
        for place, effect in enumerate(record.actual_action.side_effects)
        if (parts := effect.partition(":"))[0] in LOCAL_WRITES
        and parts[1]
        and not _WRITTEN.match(parts[2])
    ]


def unbounded_texts(record: AdvisoryDecision) -> list[Problem]:
    """Return lists other than short lists of codes, and endpoints with parameters (version 2)."""
    advice = record.recommendation
    found = [
        Problem(
            f"$.recommendation.{name}", f"must have at most {CODES_MAX} items, got {len(texts)}"
        )
        for name, texts in (
            ("reasons", advice.reasons),
            ("evidence_refs", advice.evidence_refs or ()),
        )
        if len(texts) > CODES_MAX
    ]
    if any(sign in (record.service.endpoint or "") for sign in "?#&"):
        found.append(Problem("$.service.endpoint", "must have no parameters"))
    return found


def local_effects(effects: tuple[str, ...]) -> bool | None:
    """Whether all side effects are writes of local reports; None if a name hides more."""
    local: bool | None = True
    for effect in effects:
        name, colon, written = effect.partition(":")
        if name not in LOCAL_WRITES:
            return False
        if colon and _WRITTEN.match(written) is None:
            local = None
    return local


def readable_reason(fallback: Fallback) -> bool | None:
    """Whether a fallback says why it occurred; None if the reason is not readable."""
    if not fallback.occurred:
        return True
    reason = fallback.reason or ""
    return True if _READABLE.search(reason) else None if reason.strip() else False


def invisible_reasons(record: AdvisoryDecision) -> list[Problem]:
    """Return a fallback whose reason is not readable; since version 2 of the rules."""
    reason = record.fallback.reason
    if record.fallback.occurred and reason and reason.strip() and not _READABLE.search(reason):
        return [Problem("$.fallback.reason", "must have a letter or a digit")]
    return []


_READABLE: Final = re.compile(r"[^\W_]")

BREACHES: Final = (
    authority_breaches,
    side_effect_breaches,
    privacy_breaches,
    fallback_breaches,
    hidden_side_effects,
    unbounded_texts,
    invisible_reasons,
)
KINDS_OF_BREACH: Final = (
    (authority_breaches, "authority", 1),
    (side_effect_breaches, "side_effect", 1),
    (privacy_breaches, "privacy", 1),
    (fallback_breaches, "fallback_reason", 1),
    (hidden_side_effects, "side_effect", 2),
    (unbounded_texts, "privacy", 2),
    (invisible_reasons, "fallback_reason", 2),
)
"""What violates what, and the version of the rules since which it does."""


def breaches_of(record: AdvisoryDecision, version: int) -> list[tuple[str, Problem]]:
    """Return everything that a record violates by these rules, with the kind of violation."""
    return [
        (kind, problem)
        for breaches, kind, since in KINDS_OF_BREACH
        if since <= version
        for problem in breaches(record)
    ]


def is_implausible(proof: NpuProof, total_ms: float | None) -> bool:
    """Whether a counter shows more work than the whole call had time for."""
    busy = proof.busy_delta_us
    return bool(busy and total_ms is not None and busy > total_ms * 1_050 + 1_000)


def proof_grade(record: AdvisoryDecision) -> ProofGrade:
    """Return the basis of a proof: the kernel's counter, another one, or the service's claim."""
    proof = record.npu_proof
    if not proof.proof_ok:
        return "none"
    if proof.proof_mode != "sysfs_busy_delta":
        return "service"
    if is_implausible(proof, record.latency.total_ms):
        return "implausible"
    return "kernel" if KERNEL_COUNTER.match(proof.counter_path or "") else "counter"


SHARED_TEXTS: Final = (
    "input_class",
    "service.name",
    "service.endpoint",
    "service.model",
    "source.fixture_set",
    "npu_proof.counter_path",
)
"""The free texts that many records have in common."""


def free_texts(record: AdvisoryDecision) -> list[tuple[str, str, bool]]:
    """Return every free text of a record: field, text, and whether it may be as long as a note.

    Labels and bucket rules are not free: the policy names every one that may be used.
    """
    source, service, advice = record.source, record.service, record.recommendation
    single = (
        ("$.source.fixture_id", source.fixture_id),
        ("$.source.fixture_set", source.fixture_set),
        ("$.source.artifact_ref", source.artifact_ref),
        ("$.service.name", service.name),
        ("$.service.endpoint", service.endpoint),
        ("$.service.model", service.model),
        ("$.input_class", record.input_class),
        ("$.recommendation.raw_output_ref", advice.raw_output_ref),
        ("$.human_or_atlas_decision.decision_ref", record.human_or_atlas_decision.decision_ref),
        ("$.npu_proof.counter_path", record.npu_proof.counter_path),
        ("$.fallback.reason", record.fallback.reason),
    )
    lists = (
        ("$.recommendation.reasons", advice.reasons, False),
        ("$.recommendation.evidence_refs", advice.evidence_refs or (), False),
        ("$.actual_action.side_effects", record.actual_action.side_effects, False),
        ("$.notes", record.notes or (), True),
    )
    found = [(field, text, False) for field, text in single if text]
    found.extend(
        (f"{field}[{place}]", text, note)
        for field, texts, note in lists
        for place, text in enumerate(texts)
    )
    return found
