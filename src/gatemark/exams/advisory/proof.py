"""The basis of an NPU proof."""

from __future__ import annotations

from msgspec import UnsetType

from gatemark.exams.advisory.record import KERNEL_COUNTER, AdvisoryDecision, ProofGrade


def is_implausible(busy_us: int | UnsetType | None, total_ms: float | None) -> bool:
    """Whether a counter shows more work than the whole call had time for."""
    return bool(busy_us and total_ms is not None and busy_us > total_ms * 1_050 + 1_000)


def grade_proof(record: AdvisoryDecision) -> ProofGrade:
    """Return the basis of a proof: the kernel's counter, another one, or the service's claim."""
    proof = record.npu_proof
    if not proof.proof_ok:
        return "none"
    if proof.proof_mode != "sysfs_busy_delta":
        return "service"
    if is_implausible(proof.busy_delta_us, record.latency.total_ms):
        return "implausible"
    return "kernel" if KERNEL_COUNTER.match(proof.counter_path or "") else "counter"
