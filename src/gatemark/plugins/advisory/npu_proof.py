"""The basis of an NPU proof."""

from __future__ import annotations

from msgspec import UnsetType

from gatemark.evidence.columns import Columns
from gatemark.plugins.advisory.record import KERNEL_COUNTER, ProofGrade, ProofMode


def is_implausible(busy_us: int | UnsetType | None, total_ms: float | None) -> bool:
    """Whether a counter shows more work than the whole call had time for."""
    return bool(busy_us and total_ms is not None and busy_us > total_ms * 1_050 + 1_000)


def grade_proofs(fields: Columns) -> list[ProofGrade]:
    """Return the basis of each proof of a batch."""
    paths = fields["npu_proof.counter_path"]
    kernel = {path for path in set(paths) if path and KERNEL_COUNTER.match(path)}
    return list(
        map(
            _grade_proof,
            fields["npu_proof.proof_ok"],
            fields["npu_proof.proof_mode"],
            fields["npu_proof.busy_delta_us"],
            fields["latency.total_ms"],
            [path in kernel for path in paths],
        )
    )


def _grade_proof(
    proof_ok: bool | None,
    mode: ProofMode,
    busy_us: int | UnsetType | None,
    total_ms: float | None,
    is_of_kernel: bool,
) -> ProofGrade:
    """Return the basis of a proof: the kernel's counter, another one, or the service's claim."""
    if not proof_ok:
        return "none"
    if mode != "sysfs_busy_delta":
        return "service"
    if is_implausible(busy_us, total_ms):
        return "implausible"
    return "kernel" if is_of_kernel else "counter"
