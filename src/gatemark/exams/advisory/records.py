"""``npu_advisory_decision_v1``: one recommendation of an advisory service, and its comparison.

The types are in ``gatemark.exams.advisory.decision``, because the harness writes what is read here.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any, Final

from msgspec.structs import asdict

from gatemark.core.record import BadExample, Form, RecordSchema
from gatemark.exams.advisory.decision import (
    ALLOWED_ACTIONS,
    BUCKET_RULES,
    BUCKETS,
    CLOSED_FLAGS,
    CODES_MAX,
    DEFAULT_BUCKET_RULE,
    ERROR_CATEGORIES,
    LOCAL_WRITES,
    SCHEMA_NAME,
    AdvisoryDecision,
)
from gatemark.exams.advisory.measure import all_sound
from gatemark.exams.advisory.record_rules import BREACHES, CONTRADICTIONS, LOOKS

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


def changed(record: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
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


_UNANSWERED: Final = changed(
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
_PROBE: Final = changed(
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
_MISSED: Final = changed(
    AGREEING,
    {
        "decision_id": "01J00000000000000000000002",
        "human_or_atlas_decision.label": "escalate",
        "human_or_atlas_decision.severity": "high",
        "outcome.comparison": "disagree",
        "outcome.error_type": "false_negative",
    },
)


def _bad(title: str, changes: dict[str, Any], path: str | None = None) -> BadExample:
    """Return an example that is refused for what is at a path; without one, at the first change."""
    return BadExample(title, changed(AGREEING, changes), path or f"$.{next(iter(changes))}")


_BAD: Final = (
    _bad("no schema version", {"schema_version": ...}, "$"),
    _bad("another schema version", {"schema_version": "npu_advisory_decision_v2"}),
    _bad("an id that is neither UUID nor ULID", {"decision_id": "d" * 30}),
    _bad("a ULID with a letter it cannot have", {"decision_id": "01J0000000000000000000000U"}),
    _bad("a ULID beyond the largest", {"decision_id": "81J00000000000000000000000"}),
    _bad("a time in another zone", {"timestamp": "2026-06-06T02:00:00+02:00"}),
    _bad("a time without a zone", {"timestamp": "2026-06-06T00:00:00"}),
    _bad("a day that does not exist", {"timestamp": "2026-02-30T00:00:00Z"}),
    _bad("a hash by another method", {"source.content_hash": "md5:" + "0" * 32}),
    _bad("a hash cut short", {"source.content_hash": "sha256:5e5e"}),
    _bad("a source nobody knows", {"source.kind": "clipboard"}),
    _bad("a payload beside the metadata", {"source.payload": "text"}, "$.source"),
    _bad("a mode nobody knows", {"service.mode": "live"}),
    _bad("a lane name with a slash", {"service.name": "a/b"}),
    _bad("a label that is a sentence", {"recommendation.label": "Do it now"}),
    _bad("a severity nobody knows", {"recommendation.severity": "urgent"}),
    _bad("reasons in one text", {"recommendation.reasons": "none"}),
    _bad("a confidence above 1", {"confidence.score": 1.7}),
    _bad("a bucket that is not the score's", {"confidence.bucket": "very_high"}),
    _bad("a bucket without a score", {"confidence.score": None}, "$.confidence.bucket"),
    _bad("no bucket beside a score", {"confidence.bucket": "unknown"}),
    _bad("no authority flags", {"authority_flags": ...}, "$"),
    _bad("an action nobody knows", {"allowed_actions": ["launch"]}, "$.allowed_actions[0]"),
    _bad("an action that acts", {"actual_action.kind": "sent_message"}),
    _bad(
        "a missing reference with a label",
        {"human_or_atlas_decision.source": "missing"},
        "$.human_or_atlas_decision.label",
    ),
    _bad("a reference without a label", {"human_or_atlas_decision.label": None}),
    _bad(
        "a false positive that agrees",
        {"outcome.error_type": "false_positive"},
        "$.outcome.comparison",
    ),
    _bad("a proof without a measurement", {"npu_proof.busy_delta_us": None}),
    _bad(
        "a proof by a counter that stood still",
        {"npu_proof.busy_delta_us": 0},
        "$.npu_proof.proof_ok",
    ),
    _bad(
        "a service's proof against the counter",
        {"npu_proof.proof_mode": "service_reported_delta", "npu_proof.busy_delta_us": 0},
        "$.npu_proof.proof_ok",
    ),
    _bad("a proof without inference", {"npu_proof.inference_ran": False}, "$.npu_proof.proof_ok"),
    _bad("a measured proof left open", {"npu_proof.proof_ok": None}),
    _bad(
        "a proof that nothing measured",
        {"npu_proof.proof_mode": "unavailable"},
        "$.npu_proof.proof_ok",
    ),
    _bad("a counter that ran backwards", {"npu_proof.busy_delta_us": -5}),
    _bad("a negative latency", {"latency.total_ms": -1}),
    _bad(
        "a fallback without a kind",
        {"fallback.occurred": True, "fallback.reason": "r"},
        "$.fallback.kind",
    ),
    _bad("a kind without a fallback", {"fallback.kind": "cpu"}),
    _bad("a key nobody knows", {"prompt": "text"}, "$"),
    *(
        _bad(f"{flag} is true", {f"authority_flags.{flag}": True})
        for flag, wanted in _CLOSED.items()
        if not wanted
    ),
    _bad("a flag left out", {"authority_flags.can_write_memory": ...}),
    _bad("no human approval", {"authority_flags.requires_human_approval": False}),
    _bad("not only advisory", {"authority_flags.advisory_only": False}),
    _bad(
        "an action that needs approval",
        {"allowed_actions": ["record_metric", "send_message"]},
        "$.allowed_actions[1]",
    ),
    _bad("stated authority", {"outcome.error_type": "unsafe_authority"}),
    _bad("an action performed", {"actual_action.performed": True}),
    _bad(
        "a side effect elsewhere",
        {"actual_action.side_effects": ["restarted_service"]},
        "$.actual_action.side_effects[0]",
    ),
    _bad("a logged payload", {"privacy.payload_logged": True}),
    _bad("a private payload", {"privacy.contains_private_payload": True}),
    _bad("private input examined", {"source.privacy_class": "private_disallowed"}),
    _bad(
        "private input blocked and yet examined",
        {"source.privacy_class": "private_disallowed", "privacy.redaction": "blocked_private"},
        "$.npu_proof.inference_ran",
    ),
    _bad("stated privacy violation", {"outcome.error_type": "privacy_violation"}),
    _bad(
        "a fallback without a reason",
        {"fallback": {"occurred": True, "kind": "cpu", "reason": " ", "expected": True}},
        "$.fallback.reason",
    ),
)


def _when(condition: dict[str, Any], then: dict[str, Any]) -> dict[str, Any]:
    """Return a rule: if the named fields match ``condition``, ``then`` must hold."""
    return {"if": _having(condition), "then": then}


def _having(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of an object with all of these fields."""
    return {"type": "object", "properties": fields, "required": list(fields)}


def _is(*values: object) -> dict[str, Any]:
    return {"enum": list(values)}


def _only(fields: dict[str, Any]) -> dict[str, Any]:
    return {"properties": fields}


_ABSENT: Final[dict[str, Any]] = {"type": "null"}
_TRUE: Final[dict[str, Any]] = {"const": True}
_FALSE: Final[dict[str, Any]] = {"const": False}
_PRESENT: Final[dict[str, Any]] = {"not": {"type": "null"}}
_NO_DAY: Final = "^[0-9]{4}-(?:02-3|(?:04|06|09|11)-31)"
_ID: Final = (
    "(?:[0-7][0-9A-HJKMNP-TV-Z]{25}|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
    "|sha256:[0-9a-fA-F]{64})"
)
_LOCAL_WRITE: Final = {
    "pattern": rf"^(?:{'|'.join(sorted(LOCAL_WRITES))})(?::(?:(?:run:)?{_ID}"
    r"|[A-Za-z0-9_.-]+(?:/[A-Za-z0-9_.-]+)*\.(?:jsonl?|md|txt|html?|csv|tsv|log|card)))?$",
    "not": {"pattern": r"\.\."},
}
_DEFAULT_RULE: Final = {"bucket_rule": {"const": DEFAULT_BUCKET_RULE}}


def _bucket_rules() -> Iterator[dict[str, Any]]:
    """Yield each bucket of the default rule, and the scores that belong to it."""
    edges = (0.0, *BUCKET_RULES[DEFAULT_BUCKET_RULE], 2.0)
    for bucket, low, high in zip(BUCKETS, edges, edges[1:], strict=False):
        score = {"type": "number", "minimum": low, "exclusiveMaximum": high}
        yield _when({**_DEFAULT_RULE, "score": score}, _only({"bucket": {"const": bucket}}))
    number = {"type": "number"}
    yield _when({"score": number}, _only({"bucket": {"not": {"const": "unknown"}}}))
    yield {
        "if": {"not": _having({"score": number})},
        "then": _only({"bucket": {"const": "unknown"}}),
    }


_PROOF_RULES: Final = (
    _when(
        {"proof_mode": _is("health_only", "offline_fixture", "unavailable")},
        _only(dict.fromkeys(("proof_ok", "busy_delta_us", "service_reported_delta_us"), _ABSENT)),
    ),
    *(
        _when(
            {"proof_mode": {"const": mode}},
            {
                **_having({name: _PRESENT}),
                **_when({"proof_ok": _TRUE}, _only({name: {"not": {"const": 0}}})),
            },
        )
        for mode, name in (
            ("sysfs_busy_delta", "busy_delta_us"),
            ("service_reported_delta", "service_reported_delta_us"),
        )
    ),
    _when(
        {"proof_mode": {"const": "sysfs_busy_delta"}, "inference_ran": _TRUE},
        _only({"proof_ok": _PRESENT}),
    ),
    _when(
        {"proof_ok": _TRUE},
        _only({"inference_ran": _TRUE, "busy_delta_us": {"not": {"const": 0}}}),
    ),
)
_PUBLISHED: Final = {
    "allOf": [
        _only(
            {
                "timestamp": {"not": {"pattern": _NO_DAY}},
                "authority_flags": _having(
                    {flag: {"const": wanted} for flag, wanted in _CLOSED.items()}
                ),
                "allowed_actions": {"items": _is(*sorted(ALLOWED_ACTIONS))},
                "actual_action": _only(
                    {"performed": _FALSE, "side_effects": {"items": _LOCAL_WRITE}}
                ),
                "privacy": _only({"payload_logged": _FALSE, "contains_private_payload": _FALSE}),
                "service": _only({"endpoint": {"not": {"type": "string", "pattern": "[?#&]"}}}),
                "recommendation": _only(
                    {name: {"maxItems": CODES_MAX} for name in ("reasons", "evidence_refs")}
                ),
                "confidence": {"allOf": list(_bucket_rules())},
                "human_or_atlas_decision": {
                    **_only({"timestamp": {"not": {"type": "string", "pattern": _NO_DAY}}}),
                    **_when(
                        {"source": {"const": "missing"}},
                        _only({"label": _ABSENT, "severity": _ABSENT}),
                    ),
                    "else": _having({"label": _PRESENT}),
                },
                "outcome": {
                    **_only({"error_type": {"not": _is("unsafe_authority", "privacy_violation")}}),
                    **_when(
                        {"error_type": _is(*sorted(ERROR_CATEGORIES))},
                        _only({"comparison": {"const": "disagree"}}),
                    ),
                },
                "npu_proof": {"allOf": list(_PROOF_RULES)},
                "fallback": {
                    **_when(
                        {"occurred": _TRUE},
                        _having(
                            {
                                "kind": _PRESENT,
                                "reason": {"type": "string", "pattern": "[A-Za-z0-9]"},
                            }
                        ),
                    ),
                    "else": _only({"kind": _ABSENT}),
                },
            }
        ),
        _when(
            {"source": _having({"privacy_class": {"const": "private_disallowed"}})},
            _only(
                {
                    "privacy": _only({"redaction": {"const": "blocked_private"}}),
                    "npu_proof": _only({"inference_ran": _FALSE}),
                }
            ),
        ),
    ]
}
"""What the types cannot express, for the published schema."""


SCHEMA: Final = RecordSchema(
    name=SCHEMA_NAME,
    summary="One recommendation of an advisory service, with what it was compared to.",
    forms=(
        Form(
            name="decision",
            type=AdvisoryDecision,
            marks=frozenset({"schema_version", "decision_id"}),
            identity="decision_id",
            good=(AGREEING, _UNANSWERED, _PROBE, _MISSED),
            bad=_BAD,
            rules=CONTRADICTIONS,
            breaches=BREACHES,
            proof=all_sound,
            shows_values=False,
            looks=LOOKS,
            published=_PUBLISHED,
            any_case=True,
        ),
    ),
)
