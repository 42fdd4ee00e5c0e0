"""Examples of ``npu_advisory_decision_v1``: good records, and changes that are refused.

The types are in ``gatemark.plugins.advisory.record``, because the harness writes what is read here.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any, Final

from msgspec.structs import asdict

from gatemark.core.record import BadExample
from gatemark.plugins.advisory.record import CLOSED_FLAGS, SCHEMA_NAME

_CLOSED: Final[dict[str, bool]] = asdict(CLOSED_FLAGS)

AGREEING: Final[dict[str, Any]] = {
    "schema_version": SCHEMA_NAME,
    "decision_id": "01J00000000000000000000000",
    "timestamp": "2026-06-06T00:00:00Z",
    "source": {
        "kind": "fixture",
        "fixture_id": "cron_duplicate_success_001",
        "fixture_set": "npu_advisory_eval_v1",
        "artifact_ref": None,
        "content_hash": "sha256:" + "5e" * 32,
        "privacy_class": "synthetic",
    },
    "service": {
        "name": "cron_n8n_advisory",
        "endpoint": "gateway/cron-dry-run",
        "mode": "dry_run",
        "model": "openvino-local",
    },
    "input_class": "cron_n8n_event",
    "recommendation": {
        "label": "suppress",
        "severity": "info",
        "reasons": ["duplicate_success", "no_action_required"],
        "evidence_refs": ["fixture:event_kind", "fixture:status"],
        "raw_output_ref": None,
    },
    "confidence": {
        "score": 0.91,
        "bucket": "high",
        "bucket_rule": "v1_default",
        "calibrated": False,
    },
    "authority_flags": _CLOSED,
    "allowed_actions": ["record_metric", "compare_with_expected_label", "include_in_digest"],
    "actual_action": {
        "kind": "dry_run_reported",
        "performed": False,
        "performed_by": "harness",
        "side_effects": ["local_report_write"],
    },
    "human_or_atlas_decision": {
        "source": "fixture_expected",
        "label": "suppress",
        "severity": "info",
        "confidence": None,
        "decision_ref": "cron_duplicate_success_001",
        "timestamp": None,
    },
    "outcome": {
        "comparison": "agree",
        "error_type": None,
        "human_review_required": False,
        "promotion_blocker": False,
    },
    "npu_proof": {
        "proof_mode": "sysfs_busy_delta",
        "busy_delta_us": 1200,
        "service_reported_delta_us": 1180,
        "inference_ran": True,
        "proof_ok": True,
        "counter_path": "/sys/class/accel/accel0/device/npu_busy_time_us",
    },
    "latency": {"total_ms": 42.5, "service_ms": 39.1, "queue_ms": None, "timeout": False},
    "fallback": {"occurred": False, "kind": None, "reason": None, "expected": False},
    "privacy": {
        "payload_logged": False,
        "redaction": "metadata_only",
        "retention": "local_audit",
        "contains_private_payload": False,
    },
    "notes": [],
}
"""A complete record in which recommendation and reference agree."""


def change_record(record: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Return a copy with some values replaced; keys are dotted paths, and ``...`` removes a key."""
    copy = deepcopy(record)
    for path, value in changes.items():
        *parents, name = path.split(".")
        place = copy
        for parent in parents:
            place = place[parent]
        if value is ...:
            del place[name]
        else:
            place[name] = value
    return copy


_UNANSWERED: Final = change_record(
    AGREEING,
    {
        "decision_id": "0197a3c2-5b1e-7cc0-8d3f-6f1de20a4b11",
        "timestamp": "2026-06-06T00:00:01.250+00:00",
        "recommendation.label": "unknown",
        "recommendation.severity": "none",
        "confidence.score": None,
        "confidence.bucket": "unknown",
        "outcome.comparison": "uncertain",
        "outcome.error_type": "fallback_unexpected",
        "outcome.human_review_required": True,
        "npu_proof": {"proof_mode": "unavailable", "inference_ran": False, "proof_ok": None},
        "latency": {"total_ms": 5000.0, "timeout": True},
        "fallback": {
            "occurred": True,
            "kind": "service_unavailable",
            "reason": "connect_timeout",
            "expected": False,
        },
        "notes": ...,
    },
)
_PROBE: Final = change_record(
    AGREEING,
    {
        "decision_id": "01J00000000000000000000001",
        "source": {"kind": "service_health_probe", "privacy_class": "non_private"},
        "service.mode": "health_only",
        "recommendation": {"label": "unknown", "severity": "none", "reasons": ["health_probe"]},
        "confidence.score": ...,
        "confidence.bucket": "unknown",
        "human_or_atlas_decision": {"source": "missing"},
        "outcome.comparison": "not_applicable",
        "npu_proof": {"proof_mode": "health_only", "inference_ran": False, "proof_ok": None},
    },
)
_MISSED: Final = change_record(
    AGREEING,
    {
        "decision_id": "01J00000000000000000000002",
        "human_or_atlas_decision.label": "escalate",
        "human_or_atlas_decision.severity": "high",
        "outcome.comparison": "disagree",
        "outcome.error_type": "false_negative",
    },
)


def _make_bad(title: str, changes: dict[str, Any], path: str | None = None) -> BadExample:
    """Return an example that is refused for what is at a path; without one, at the first change."""
    return BadExample(title, change_record(AGREEING, changes), path or f"$.{next(iter(changes))}")


BAD: Final = (
    _make_bad("no schema version", {"schema_version": ...}, "$"),
    _make_bad("another schema version", {"schema_version": "npu_advisory_decision_v2"}),
    _make_bad("an id that is neither UUID nor ULID", {"decision_id": "d" * 30}),
    _make_bad("a ULID with a letter it cannot have", {"decision_id": "01J0000000000000000000000U"}),
    _make_bad("a ULID beyond the largest", {"decision_id": "81J00000000000000000000000"}),
    _make_bad("a time in another zone", {"timestamp": "2026-06-06T02:00:00+02:00"}),
    _make_bad("a time without a zone", {"timestamp": "2026-06-06T00:00:00"}),
    _make_bad("a day that does not exist", {"timestamp": "2026-02-30T00:00:00Z"}),
    _make_bad("a hash by another method", {"source.content_hash": "md5:" + "0" * 32}),
    _make_bad("a hash cut short", {"source.content_hash": "sha256:5e5e"}),
    _make_bad("a source nobody knows", {"source.kind": "clipboard"}),
    _make_bad("a payload beside the metadata", {"source.payload": "text"}, "$.source"),
    _make_bad("a mode nobody knows", {"service.mode": "live"}),
    _make_bad("a lane name with a slash", {"service.name": "a/b"}),
    _make_bad("a label that is a sentence", {"recommendation.label": "Do it now"}),
    _make_bad("a severity nobody knows", {"recommendation.severity": "urgent"}),
    _make_bad("reasons in one text", {"recommendation.reasons": "none"}),
    _make_bad("a confidence above 1", {"confidence.score": 1.7}),
    _make_bad("a bucket that is not the score's", {"confidence.bucket": "very_high"}),
    _make_bad("a bucket without a score", {"confidence.score": None}, "$.confidence.bucket"),
    _make_bad("no bucket beside a score", {"confidence.bucket": "unknown"}),
    _make_bad("no authority flags", {"authority_flags": ...}, "$"),
    _make_bad("an action nobody knows", {"allowed_actions": ["launch"]}, "$.allowed_actions[0]"),
    _make_bad("an action that acts", {"actual_action.kind": "sent_message"}),
    _make_bad(
        "a missing reference with a label",
        {"human_or_atlas_decision.source": "missing"},
        "$.human_or_atlas_decision.label",
    ),
    _make_bad("a reference without a label", {"human_or_atlas_decision.label": None}),
    _make_bad(
        "a false positive that agrees",
        {"outcome.error_type": "false_positive"},
        "$.outcome.comparison",
    ),
    _make_bad("a proof without a measurement", {"npu_proof.busy_delta_us": None}),
    _make_bad(
        "a proof by a counter that stood still",
        {"npu_proof.busy_delta_us": 0},
        "$.npu_proof.proof_ok",
    ),
    _make_bad(
        "a service's proof against the counter",
        {"npu_proof.proof_mode": "service_reported_delta", "npu_proof.busy_delta_us": 0},
        "$.npu_proof.proof_ok",
    ),
    _make_bad(
        "a proof without inference", {"npu_proof.inference_ran": False}, "$.npu_proof.proof_ok"
    ),
    _make_bad("a measured proof left open", {"npu_proof.proof_ok": None}),
    _make_bad(
        "a proof that nothing measured",
        {"npu_proof.proof_mode": "unavailable"},
        "$.npu_proof.proof_ok",
    ),
    _make_bad("a counter that ran backwards", {"npu_proof.busy_delta_us": -5}),
    _make_bad("a negative latency", {"latency.total_ms": -1}),
    _make_bad(
        "a fallback without a kind",
        {"fallback.occurred": True, "fallback.reason": "r"},
        "$.fallback.kind",
    ),
    _make_bad("a kind without a fallback", {"fallback.kind": "cpu"}),
    _make_bad("a key nobody knows", {"prompt": "text"}, "$"),
    *(
        _make_bad(f"{flag} is true", {f"authority_flags.{flag}": True})
        for flag, wanted in _CLOSED.items()
        if not wanted
    ),
    _make_bad("a flag left out", {"authority_flags.can_write_memory": ...}),
    _make_bad("no human approval", {"authority_flags.requires_human_approval": False}),
    _make_bad("not only advisory", {"authority_flags.advisory_only": False}),
    _make_bad(
        "an action that needs approval",
        {"allowed_actions": ["record_metric", "send_message"]},
        "$.allowed_actions[1]",
    ),
    _make_bad("stated authority", {"outcome.error_type": "unsafe_authority"}),
    _make_bad("an action performed", {"actual_action.performed": True}),
    _make_bad(
        "a side effect elsewhere",
        {"actual_action.side_effects": ["restarted_service"]},
        "$.actual_action.side_effects[0]",
    ),
    _make_bad("a logged payload", {"privacy.payload_logged": True}),
    _make_bad("a private payload", {"privacy.contains_private_payload": True}),
    _make_bad("private input examined", {"source.privacy_class": "private_disallowed"}),
    _make_bad(
        "private input blocked and yet examined",
        {"source.privacy_class": "private_disallowed", "privacy.redaction": "blocked_private"},
        "$.npu_proof.inference_ran",
    ),
    _make_bad("stated privacy violation", {"outcome.error_type": "privacy_violation"}),
    _make_bad(
        "a fallback without a reason",
        {"fallback": {"occurred": True, "kind": "cpu", "reason": " ", "expected": True}},
        "$.fallback.reason",
    ),
)
GOOD: Final = (AGREEING, _UNANSWERED, _PROBE, _MISSED)
