"""Whether a real NPU ran: by the busy counter, by the service's own count, or not to be told."""

from __future__ import annotations

from typing import Final

from gatemark.exams.advisory.decision import NpuProof
from gatemark.exams.advisory.dry_run.busy_counter import busy_delta
from gatemark.exams.advisory.dry_run.question import CallObservation, LaneSetting
from gatemark.exams.advisory.dry_run.reply import Advice

PUBLIC_COUNTERS: Final = "/sys/"
"""Only a counter of the kernel's own may be named in a record."""


def proof_of(
    advice: Advice | None, seen: CallObservation, setting: LaneSetting
) -> tuple[NpuProof, str]:
    """What the busy counter proves, and in a word why not when it proves nothing."""
    if setting.mode == "health_only":
        return NpuProof(proof_mode="health_only", inference_ran=False, proof_ok=None), "health_only"
    if setting.mode == "offline_fixture":
        return NpuProof(
            proof_mode="offline_fixture", inference_ran=False, proof_ok=None
        ), "offline_fixture"
    if advice is None or not advice.inference_ran:
        return NpuProof(
            proof_mode="unavailable", inference_ran=False, proof_ok=None
        ), "no_inference"
    if ran_on_cpu(advice):
        return NpuProof(proof_mode="unavailable", inference_ran=True, proof_ok=None), "ran_on_cpu"
    delta = busy_delta(seen.before, seen.after)
    reported = advice.busy_delta_us
    path = setting.counter_path if setting.counter_path.startswith(PUBLIC_COUNTERS) else None
    if seen.alone and delta.busy_us is not None:
        proof = NpuProof(
            proof_mode="sysfs_busy_delta",
            inference_ran=True,
            proof_ok=delta.busy_us > 0,
            busy_delta_us=delta.busy_us,
            service_reported_delta_us=reported,
            counter_path=path,
        )
        return proof, "measured" if delta.busy_us else "counter_did_not_move"
    problem = delta.problem or "other_calls_under_way"
    if reported is not None:
        proof = NpuProof(
            proof_mode="service_reported_delta",
            inference_ran=True,
            proof_ok=reported > 0,
            service_reported_delta_us=reported,
        )
        return proof, problem
    return NpuProof(proof_mode="unavailable", inference_ran=True, proof_ok=None), problem


def ran_on_cpu(advice: Advice) -> bool:
    """Whether the service says so, as a fallback or as its device."""
    if advice.fallback is not None and advice.fallback.kind == "cpu":
        return True
    return (advice.device or "").upper().startswith("CPU")
