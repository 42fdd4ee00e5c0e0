"""Decision records for tests, and the short way from records to findings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from gatemark.core.measurement import Evidence
from gatemark.core.policy import Finding, Verdict, decide
from gatemark.evidence.exam import ExamReport
from gatemark.plugins.advisory.category import (
    CategoryKey,
    categorize_signal,
    make_category_key,
    state_outcome,
)
from gatemark.plugins.advisory.exam import AdvisoryExam, AdvisoryOptions
from gatemark.plugins.advisory.pinned_fixtures import PinnedFixtures
from gatemark.plugins.advisory.policy import AdvisoryPolicy
from gatemark.plugins.advisory.record import KERNEL_COUNTER, AdvisoryDecision, ProofGrade
from gatemark.plugins.advisory.record_examples import AGREEING, change_record
from gatemark.plugins.advisory.record_kind import RecordKind
from gatemark.plugins.advisory.record_rules import BREACHES

LANE = "cron_n8n_event/cron_n8n_advisory"
OTHER = "context_gate/openvino_context_gate"
NOW = datetime(2026, 6, 6, 12, tzinfo=UTC)
PROMOTION = {
    "scope": "suggest suppression of duplicate success events",
    "approved_by": "Ada",
    "rollback_plan": "turn the lane off in the gateway",
    "reviewer": "Grace",
}
PROMISE: dict[str, Any] = {"p95_total_ms_max": 1_000_000}

NORMAL: dict[str, Any] = {"notes": ["case:normal"]}
ACTION: dict[str, Any] = {
    "recommendation.label": "escalate",
    "recommendation.severity": "high",
    "human_or_atlas_decision.label": "escalate",
    "human_or_atlas_decision.severity": "high",
    "notes": ["case:action_needed"],
}
FALSE_ALARM: dict[str, Any] = {"notes": ["case:false_alarm"]}
UNSURE: dict[str, Any] = {
    "confidence.score": 0.5,
    "confidence.bucket": "low",
    "notes": ["case:low_confidence"],
}
WRONG: dict[str, Any] = {"recommendation.label": "log"}
FALSE_POSITIVE: dict[str, Any] = {
    "recommendation.label": "escalate",
    "recommendation.severity": "low",
}
FALSE_NEGATIVE: dict[str, Any] = {**ACTION, "recommendation.label": "suppress"}
UNREFERENCED: dict[str, Any] = {"human_or_atlas_decision": {"source": "missing"}}
SHADOWED: dict[str, Any] = {"human_or_atlas_decision.source": "atlas_shadow"}
PROBE: dict[str, Any] = {
    "source.kind": "service_health_probe",
    "human_or_atlas_decision": {"source": "missing"},
}
FELL_BACK: dict[str, Any] = {
    "fallback": {"occurred": True, "kind": "cpu", "reason": "no_npu", "expected": False}
}
UNPROVED: dict[str, Any] = {
    "npu_proof": {"proof_mode": "unavailable", "inference_ran": True, "proof_ok": None}
}


def compared_parts(record: AdvisoryDecision) -> CategoryKey:
    """The parts of a record that decide its category."""
    return make_category_key(
        record.source,
        record.service.mode,
        record.recommendation,
        record.confidence.bucket,
        record.human_or_atlas_decision,
    )


def derive_kind(record: AdvisoryDecision, *, private_text: bool) -> RecordKind:
    """The kind of a record without a case among its notes, by the record alone."""
    violated = {rule.kind for rule, _ in BREACHES.find_broken(record)}
    proof, outcome = record.npu_proof, record.outcome
    grade: ProofGrade
    if not proof.proof_ok:
        grade = "none"
    elif proof.proof_mode != "sysfs_busy_delta":
        grade = "service"
    else:
        grade = "kernel" if KERNEL_COUNTER.match(proof.counter_path or "") else "counter"
    return RecordKind(
        **msgspec.structs.asdict(compared_parts(record)),
        lane=f"{record.input_class}/{record.service.name}",
        timed=record.latency.total_ms is not None,
        noted=False,
        authority="authority" in violated,
        side_effect="side_effect" in violated,
        privacy=private_text or "privacy" in violated,
        no_reason="fallback_reason" in violated,
        mode=record.service.mode,
        source_kind=record.source.kind,
        bucket_rule=record.confidence.bucket_rule,
        comparison=outcome.comparison,
        error_type=outcome.error_type or None,
        promotion_blocker=outcome.promotion_blocker,
        proof_mode=proof.proof_mode,
        proof_ok=proof.proof_ok,
        inference_ran=proof.inference_ran,
        timeout=record.latency.timeout,
        fallback=record.fallback.kind or None,
        fallback_expected=record.fallback.expected,
        proof_grade=grade,
    )


def decision(
    number: int,
    *changes: dict[str, Any],
    lane: str = LANE,
    run: str | None = "run:1",
    fixture: int | None = None,
) -> dict[str, Any]:
    """A sound record whose outcome states its category, about a fixture of its own."""
    input_class, service = lane.split("/")
    fixture = number if fixture is None else fixture
    merged: dict[str, Any] = {
        "decision_id": f"01J{number:023d}",
        "source.fixture_id": f"case_{fixture:04d}",
        "source.content_hash": f"sha256:{fixture + 1:016x}" + "5e" * 24,
        "input_class": input_class,
        "service.name": service,
        "source.artifact_ref": run,
    }
    for change in changes:
        merged |= change
    record = change_record(AGREEING, merged)
    if not any(path.startswith("outcome") for path in merged):
        parts = compared_parts(msgspec.convert(record, AdvisoryDecision))
        comparison, error_type = state_outcome(categorize_signal(parts))
        record["outcome"] |= {"comparison": comparison, "error_type": error_type}
    return record


def numbered(
    kinds: Iterable[dict[str, Any]], *, lane: str = LANE, run: str | None = "run:1", start: int = 0
) -> list[dict[str, Any]]:
    """One record per kind, with ids that go up; every run is about the same fixtures."""
    return [
        decision(start + number, kind, lane=lane, run=run, fixture=number)
        for number, kind in enumerate(kinds)
    ]


def good_lane(lane: str = LANE, *, runs: int = 3, start: int = 0) -> list[dict[str, Any]]:
    """A lane that keeps every bound: forty records per run, four of them unsure."""
    kinds = [NORMAL] * 16 + [ACTION] * 10 + [FALSE_ALARM] * 10 + [UNSURE] * 4
    return [
        record
        for run in range(runs)
        for record in numbered(kinds, lane=lane, run=f"run:{run}", start=start + 40 * run)
    ]


def policy_of(**fields: Any) -> AdvisoryPolicy:
    """A policy as a file would spell it."""
    return msgspec.convert(fields, AdvisoryPolicy)


def named(lane: str = LANE, **fields: Any) -> AdvisoryPolicy:
    """A policy that names one lane, promotion and all."""
    bounds = PROMISE | fields.pop("bounds", {})
    return policy_of(lanes={lane: {"promotion": PROMOTION, "bounds": bounds, **fields}})


def exam_of(policy: AdvisoryPolicy | None = None, fixtures: Any = None) -> AdvisoryExam:
    pinned = None if fixtures is None else msgspec.convert(fixtures, PinnedFixtures)
    return AdvisoryExam(AdvisoryOptions(policy=policy or AdvisoryPolicy(), fixtures=pinned))


def typed(records: Iterable[dict[str, Any]]) -> list[AdvisoryDecision]:
    return [msgspec.convert(record, AdvisoryDecision) for record in records]


def account(count: int, *, lost: int = 0) -> Evidence:
    return Evidence(
        received=count + lost,
        accepted=count,
        rejected=lost,
        usable=count,
        missing=0,
        expected=None,
        files=(),
    )


def report_of(
    records: Sequence[dict[str, Any]],
    policy: AdvisoryPolicy | None = None,
    *,
    fixtures: Any = None,
    lost: int = 0,
) -> ExamReport:
    exam = exam_of(policy, fixtures)
    state = exam.step(exam.zero(0), typed(records))
    return exam.account(state, account(len(records), lost=lost))


def verdict_of(
    records: Sequence[dict[str, Any]],
    policy: AdvisoryPolicy | None = None,
    *,
    fixtures: Any = None,
    lost: int = 0,
) -> Verdict:
    report = report_of(records, policy, fixtures=fixtures, lost=lost)
    rules = exam_of(policy, fixtures).policy()
    return decide(rules, (account(len(records), lost=lost),), report.measurements, (), now=NOW)


def findings_of(
    records: Sequence[dict[str, Any]], policy: AdvisoryPolicy | None = None, **more: Any
) -> dict[str, Finding]:
    return {f.rule: f for f in verdict_of(records, policy, **more).findings}


def summary_of(
    records: Sequence[dict[str, Any]], policy: AdvisoryPolicy | None = None, **more: Any
) -> dict[str, Any]:
    exam = exam_of(policy, more.get("fixtures"))
    report = report_of(records, policy, **more)
    evidence = account(len(records), lost=more.get("lost", 0))
    verdict = verdict_of(records, policy, **more)
    return exam.summary(report, evidence, verdict)
