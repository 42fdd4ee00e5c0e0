"""What answered in the NPU's place, and whether that was to be expected."""

from __future__ import annotations

from typing import Final

from gatemark.exams.advisory.decision import Fallback, FallbackKind, NpuProof
from gatemark.exams.advisory.dry_run.npu_proof import ran_on_cpu
from gatemark.exams.advisory.dry_run.question import DryRunQuestion, LaneSetting
from gatemark.exams.advisory.dry_run.reply import HEALTHY, Advice, NoAdvice

ABSENT_NPU: Final = frozenset({"npu_absent", "cpu_requested"})


def fallback_of(
    asked: DryRunQuestion,
    told: Advice | NoAdvice,
    proof: tuple[NpuProof, str],
    setting: LaneSetting,
) -> Fallback:
    """What answered in the NPU's place, by the service's own word or by what is plain to see."""
    kind, reason = _fallback_kind(told, proof, setting)
    if kind is None:
        return Fallback(occurred=False, expected=False, kind=None, reason=None)
    by_mode = kind in ("offline", "health_only")
    by_case = asked.fixture is not None and asked.fixture.expected_fallback == kind
    # The service says that there is no NPU, and this machine shows none.
    no_npu = kind == "cpu" and reason in ABSENT_NPU and not setting.npu_in_sight
    announced = kind in setting.expected_fallbacks
    return Fallback(
        occurred=True,
        expected=by_mode or by_case or no_npu or announced,
        kind=kind,
        reason=reason,
    )


def _fallback_kind(
    told: Advice | NoAdvice, proof: tuple[NpuProof, str], setting: LaneSetting
) -> tuple[FallbackKind | None, str | None]:
    if isinstance(told, NoAdvice):
        if told.reason == HEALTHY:
            return "health_only", "health_only_mode"
        return "service_unavailable", told.reason
    if setting.mode == "offline_fixture":
        return "offline", "offline_fixture_mode"
    if told.fallback is not None:
        return told.fallback.kind, told.fallback.reason
    if told.inference_ran and ran_on_cpu(told):
        return "cpu", "not_announced"
    measured, problem = proof
    if told.inference_ran and measured.proof_ok is None:
        return "proof_unavailable", problem
    return None, None
