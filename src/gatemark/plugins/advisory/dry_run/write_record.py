"""Make one decision record from a question, its answer and the measurements."""

from __future__ import annotations

from datetime import datetime
from typing import Final

import msgspec

from gatemark.plugins.advisory.category import (
    Category,
    categorize,
    make_category_key,
    state_outcome,
)
from gatemark.plugins.advisory.confidence_buckets import DEFAULT_BUCKET_RULE, choose_bucket
from gatemark.plugins.advisory.dry_run.question import (
    CallObservation,
    CallQuestion,
    LaneSetting,
    measure_busy,
)
from gatemark.plugins.advisory.dry_run.reply import (
    ABSENT_NPU,
    HEALTHY,
    Advice,
    Conduct,
    NoAdvice,
)
from gatemark.plugins.advisory.fixtures.fixture import Fixture
from gatemark.plugins.advisory.npu_proof import is_implausible
from gatemark.plugins.advisory.record import (
    CLOSED_FLAGS,
    DEFAULT_ACTIONS,
    KERNEL_COUNTER,
    SCHEMA_NAME,
    Action,
    ActualAction,
    AdvisoryDecision,
    AuthorityFlags,
    ComparisonOutcome,
    ErrorType,
    Fallback,
    FallbackKind,
    InputSource,
    Latency,
    NpuProof,
    Privacy,
    ProofMode,
    Recommendation,
    ReferenceSource,
    Service,
    SourceKind,
    StatedConfidence,
)


def derive_proof(
    advice: Advice | None, seen: CallObservation, setting: LaneSetting
) -> tuple[NpuProof, str]:
    """Return what the busy counter proves, and a code if it proves nothing."""
    if setting.mode in ("health_only", "offline_fixture"):
        mode: ProofMode = setting.mode
        return NpuProof(proof_mode=mode, inference_ran=False, proof_ok=None), mode
    has_run = advice is not None and advice.inference_ran
    unavailable = NpuProof(proof_mode="unavailable", inference_ran=has_run, proof_ok=None)
    if advice is None or not has_run:
        return unavailable, "no_inference"
    if has_run_on_cpu(advice):
        return unavailable, "ran_on_cpu"
    delta = measure_busy(seen.before, seen.after)
    reported = advice.busy_delta_us
    grade = _explain_counter(delta.value_us, seen, setting) if delta.value_us else None
    path = setting.counter_path if KERNEL_COUNTER.match(setting.counter_path) else None
    if seen.alone and delta.value_us is not None and grade is None:
        proof = NpuProof(
            proof_mode="sysfs_busy_delta",
            inference_ran=True,
            proof_ok=delta.value_us > 0,
            busy_delta_us=delta.value_us,
            service_reported_delta_us=reported,
            counter_path=path,
        )
        return proof, "measured" if delta.value_us else "counter_did_not_move"
    problem = delta.problem or grade or "other_calls_under_way"
    if reported is not None:
        # The service's own claim is recorded, but it proves nothing.
        proof = NpuProof(
            proof_mode="service_reported_delta",
            inference_ran=True,
            proof_ok=None if reported else False,
            service_reported_delta_us=reported,
        )
        return proof, problem
    return unavailable, problem


def _explain_counter(
    busy_us: int | None, seen: CallObservation, setting: LaneSetting
) -> str | None:
    """Return why the growth of a counter is not a proof, or None if it is."""
    if not KERNEL_COUNTER.match(setting.counter_path):
        return "other_counter"
    return "busier_than_the_call" if is_implausible(busy_us, seen.total_ms) else None


def has_run_on_cpu(advice: Advice) -> bool:
    """Whether the service reports the CPU, as a fallback or as its device."""
    if advice.fallback is not None and advice.fallback.kind == "cpu":
        return True
    return (advice.device or "").upper().startswith("CPU")


def derive_fallback(
    asked: CallQuestion, answer: Advice | NoAdvice, proof: tuple[NpuProof, str]
) -> Fallback:
    """Return what answered instead of the NPU, by the service's report or by evidence."""
    setting = asked.setting
    kind, reason = _choose_fallback(answer, proof, setting)
    if kind is None:
        return Fallback(occurred=False, expected=False, kind=None, reason=None)
    by_mode = kind in ("offline", "health_only")
    by_case = asked.fixture is not None and asked.fixture.expected_fallback == kind
    # The service reports no NPU, and this machine shows none.
    no_npu = kind == "cpu" and reason in ABSENT_NPU and not setting.npu_in_sight
    announced = kind in setting.expected_fallbacks
    return Fallback(
        occurred=True,
        expected=by_mode or by_case or no_npu or announced,
        kind=kind,
        reason=reason,
    )


def _choose_fallback(
    answer: Advice | NoAdvice, proof: tuple[NpuProof, str], setting: LaneSetting
) -> tuple[FallbackKind | None, str | None]:
    if isinstance(answer, NoAdvice):
        if answer.reason == HEALTHY:
            return "health_only", "health_only_mode"
        return "service_unavailable", answer.reason
    if setting.mode == "offline_fixture":
        return "offline", "offline_fixture_mode"
    if answer.fallback is not None:
        return answer.fallback.kind, answer.fallback.reason
    if answer.inference_ran and has_run_on_cpu(answer):
        return "cpu", "not_announced"
    measured, problem = proof
    if answer.inference_ran and measured.proof_ok is None:
        return "proof_unavailable", problem
    return None, None


BLOCKING: Final[frozenset[ErrorType]] = frozenset(
    {"unsafe_authority", "privacy_violation", "fallback_unexpected", "npu_proof_missing"}
)
_KIND_OF_REFERENCE: Final[dict[str, SourceKind]] = {
    "human_label": "manual_label",
    "atlas_shadow": "atlas_shadow",
}


def make_record(
    asked: CallQuestion, answer: Advice | NoAdvice, at: datetime, seen: CallObservation
) -> AdvisoryDecision:
    """Return the record of one question, whatever went wrong."""
    setting, reference = asked.setting, asked.reference
    advice = answer if isinstance(answer, Advice) else None
    proof, proof_note = derive_proof(advice, seen, setting)
    fallback = derive_fallback(asked, answer, (proof, proof_note))
    score = advice.score if advice else None
    recommendation = _make_recommendation(answer)
    source = _make_source(asked)
    bucket = choose_bucket(score)
    parts = make_category_key(source, setting.mode, recommendation, bucket, reference)
    lesser = _choose_lesser_error(fallback, proof, seen.total_ms, setting.slo_ms)
    outcome = _make_outcome(categorize(parts, setting.taxonomy), answer.conduct, lesser)
    return AdvisoryDecision(
        schema_version=SCHEMA_NAME,
        decision_id=asked.decision_id,
        timestamp=f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03d}Z",
        source=source,
        service=Service(
            name=setting.service,
            endpoint=setting.endpoint,
            mode=setting.mode,
            model=_name_model(advice),
        ),
        input_class=asked.input_class,
        recommendation=recommendation,
        confidence=StatedConfidence(
            bucket=bucket, bucket_rule=DEFAULT_BUCKET_RULE, calibrated=False, score=score
        ),
        authority_flags=_make_flags(answer),
        allowed_actions=_list_actions(outcome),
        actual_action=_make_action(answer),
        human_or_atlas_decision=reference,
        outcome=outcome,
        npu_proof=proof,
        latency=Latency(
            total_ms=seen.total_ms,
            timeout=isinstance(answer, NoAdvice) and answer.timeout,
            service_ms=advice.service_ms if advice else None,
            queue_ms=advice.queue_ms if advice else None,
        ),
        fallback=fallback,
        privacy=Privacy(
            payload_logged=False,
            redaction="blocked_private"
            if fallback.kind == "private_root_blocked"
            else "metadata_only",
            retention="local_audit",
            contains_private_payload=False,
        ),
        notes=_make_notes(
            asked.fixture if not setting.is_shadow else None, answer, proof_note, seen
        ),
    )


def _make_source(asked: CallQuestion) -> InputSource:
    fixture, setting = asked.fixture, asked.setting
    if fixture is None:
        return InputSource(
            kind="service_health_probe", privacy_class="non_private", artifact_ref=setting.run_id
        )
    return InputSource(
        kind=_choose_source_kind(asked.reference.source, is_shadow=setting.is_shadow),
        privacy_class=fixture.privacy_class,
        fixture_id=fixture.fixture_id,
        fixture_set=setting.fixture_set,
        artifact_ref=setting.run_id,
        content_hash=fixture.content_hash,
    )


def _choose_source_kind(reference: ReferenceSource, *, is_shadow: bool) -> SourceKind:
    """Return where an input is from; human decisions in a shadow are reviews of real work."""
    if is_shadow:
        return "atlas_shadow" if reference == "atlas_shadow" else "human_review"
    return _KIND_OF_REFERENCE.get(reference, "fixture")


def _name_model(advice: Advice | None) -> str | None:
    if advice is None or advice.model is None:
        return None
    parts = (advice.model, advice.device, advice.precision)
    return "/".join(part for part in parts if part is not None)


def _make_recommendation(answer: Advice | NoAdvice) -> Recommendation:
    if isinstance(answer, NoAdvice):
        return Recommendation(
            label="unknown",
            severity="none",
            reasons=(answer.reason,),
            evidence_refs=(),
            raw_output_ref=None,
        )
    return Recommendation(
        label=answer.label,
        severity=answer.severity,
        reasons=answer.reasons,
        evidence_refs=answer.evidence_refs,
        raw_output_ref=None,
    )


def _make_flags(answer: Advice | NoAdvice) -> AuthorityFlags:
    """Return the required flags, except those that the service set otherwise."""
    requested = {name: not getattr(CLOSED_FLAGS, name) for name in answer.conduct.requested}
    return msgspec.structs.replace(CLOSED_FLAGS, **requested)


def _make_action(answer: Advice | NoAdvice) -> ActualAction:
    if answer.conduct.acted:
        return ActualAction(
            kind="none",
            performed=True,
            side_effects=("claimed_by_service",),
            performed_by=None,
        )
    return ActualAction(
        kind="dry_run_reported", performed=False, side_effects=(), performed_by="harness"
    )


def _list_actions(outcome: ComparisonOutcome) -> tuple[Action, ...]:
    review: tuple[Action, ...] = ("recommend_human_review",)
    return (*DEFAULT_ACTIONS, *(review if outcome.human_review_required else ()))


def _make_outcome(
    category: Category, conduct: Conduct, lesser: ErrorType | None
) -> ComparisonOutcome:
    """Return the outcome; there is room for one error type.

    A leak is named first: flags and side effects show the other violations themselves.
    """
    comparison, error = state_outcome(category)
    if conduct.leaks:
        error = "privacy_violation"
    elif conduct.requested or conduct.acted:
        error = "unsafe_authority"
    elif error is None:
        error = lesser
    fine = category in ("agree", "not_applicable") and error is None
    return ComparisonOutcome(
        comparison=comparison,
        error_type=error,
        human_review_required=not fine,
        promotion_blocker=error in BLOCKING or category == "missing_reference",
    )


def _choose_lesser_error(
    fallback: Fallback, proof: NpuProof, total_ms: float | None, slo_ms: float | None
) -> ErrorType | None:
    if fallback.occurred and not fallback.expected:
        return "fallback_unexpected"
    if proof.proof_ok is False:
        return "npu_proof_missing"
    return "latency_slo_miss" if _is_longer(total_ms, slo_ms) else None


def _is_longer(time_ms: float | None, limit_ms: float | None) -> bool:
    return time_ms is not None and limit_ms is not None and time_ms > limit_ms


def _make_notes(
    fixture: Fixture | None, answer: Advice | NoAdvice, proof_note: str, seen: CallObservation
) -> tuple[str, ...]:
    """Return short codes that have no field of their own."""
    found = []
    if fixture is not None:
        found.append(f"case:{fixture.kind}")
    found.append(f"proof:{proof_note}")
    if isinstance(answer, Advice):
        if answer.model_digest is not None:
            found.append(f"model_digest:{answer.model_digest}")
        found.extend(f"reply_dropped:{name}" for name in answer.dropped)
        for name, stated_ms in (("service_ms", answer.service_ms), ("queue_ms", answer.queue_ms)):
            # A time reported by the service must fit into that of the whole call.
            if _is_longer(stated_ms, seen.total_ms):
                found.append(f"longer_than_total:{name}")
    found.extend(leak.code for leak in answer.conduct.leaks)
    return tuple(found)
