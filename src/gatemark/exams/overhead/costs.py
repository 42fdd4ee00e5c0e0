"""The other two axes, time and memory: how they are recorded and what they cost.

They differ from run to run, so they live in a file of their own beside the arms, tied to the same
windows by the digest of the schedule.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, Literal

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from gatemark.core.canonical import canonical_bytes, digest_bytes
from gatemark.core.errors import InvalidValueError
from gatemark.core.measurement import Measurement, measured, unmeasured
from gatemark.exams.overhead.arms import ArmFile
from gatemark.exams.overhead.measure import Resampling, smallest_reaching, time_overhead
from gatemark.exams.overhead.policy import LATENCY, MEMORY

NAME: Final = "gatemark.overhead-costs/1"
NOT_MEASURED: Final = "no costs were recorded"

Floats = NDArray[np.float64]
Milliseconds = Annotated[float, Meta(ge=1e-6, le=1e12)]
"""From a nanosecond, below which no clock looks, to thirty years."""
Bytes = Annotated[int, Meta(ge=0, le=2**53 - 1)]


class ArmCosts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one arm took: milliseconds per window for each pass, and its peak of memory.

    ``peak_memory_bytes`` is null where memory could not be measured; ``memory_reason`` says why.
    ``repeat_shift_max`` is the largest difference of a window between two passes of the arm.
    """

    latency_ms: tuple[tuple[Milliseconds, ...], ...]
    peak_memory_bytes: Bytes | None
    memory_reason: str | None
    repeat_shift_max: float | None

    def __post_init__(self) -> None:
        if (self.peak_memory_bytes is None) == (self.memory_reason is None):
            raise InvalidValueError("memory is a number or a reason, and not both")


class Restored(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One pass: its arm, and the state's hash before it, after it, and after the restore."""

    arm: Literal["bare", "guarded"]
    before: str
    after: str
    restored: str


class Costs(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The file of costs. Its fields are the keys of the JSON document."""

    schema: Literal["gatemark.overhead-costs/1"] = NAME
    schedule_digest: str
    passes: tuple[Restored, ...]
    arms: dict[Literal["bare", "guarded"], ArmCosts]


class ArmCost(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The costs of one arm in a few numbers; null where they were not measured."""

    latency_ms_p50: float | None = None
    latency_ms_p95: float | None = None
    latency_ms_total: float | None = None
    peak_memory_bytes: int | None = None


class OverheadCosts(msgspec.Struct, frozen=True):
    """Both overheads as measurements, and each arm's numbers."""

    measurements: tuple[Measurement, ...]
    bare: ArmCost = ArmCost()
    guarded: ArmCost = ArmCost()


def schedule_digest(arm: ArmFile) -> str | None:
    """What was evaluated, in order: plan, window ids, contents and weights."""
    if arm.meta is None:
        return None
    columns = msgspec.json.encode([arm.ids, arm.contents, arm.weights])
    return digest_bytes(canonical_bytes(arm.meta["plan"]) + b"\n" + columns)


def spent(costs: Costs | None, bare: ArmFile, resampling: Resampling) -> OverheadCosts:
    """What the guards cost in time and memory, or why nobody can tell."""
    if costs is None:
        return unknown_costs(NOT_MEASURED)
    if costs.schedule_digest != schedule_digest(bare):
        return unknown_costs("the recorded costs belong to other windows")
    if set(costs.arms) != {"bare", "guarded"}:
        return unknown_costs("the recorded costs lack an arm")
    before, after = (_fastest(costs.arms[side], len(bare.ids)) for side in ("bare", "guarded"))
    sides = (costs.arms["bare"], costs.arms["guarded"])
    return OverheadCosts(
        measurements=(_latency(before, after, resampling), _memory(*sides)),
        bare=_arm_cost(before, sides[0]),
        guarded=_arm_cost(after, sides[1]),
    )


def unknown_costs(reason: str) -> OverheadCosts:
    """Costs that were not measured, and why."""
    return OverheadCosts(
        tuple(unmeasured(name, reason, direction="lower_is_better") for name in (LATENCY, MEMORY))
    )


def _fastest(costs: ArmCosts, windows: int) -> Floats | None:
    """The fastest pass of each window: what else ran on the machine only ever adds time."""
    if not costs.latency_ms or any(len(row) != windows for row in costs.latency_ms):
        return None
    return np.asarray(np.array(costs.latency_ms, dtype=np.float64).min(axis=0))


def _latency(before: Floats | None, after: Floats | None, resampling: Resampling) -> Measurement:
    if before is None or after is None:
        return unmeasured(
            LATENCY, "some windows have no recorded time", direction="lower_is_better"
        )
    found = time_overhead(
        before, after, resampling.rng(), level=resampling.level, resamples=resampling.resamples
    )
    return measured(
        LATENCY,
        found.overhead,
        n=before.size,
        direction="lower_is_better",
        interval=found.interval,
        caveats=() if found.interval_reason is None else (found.interval_reason,),
    )


def _memory(bare: ArmCosts, guarded: ArmCosts) -> Measurement:
    reasons: Sequence[str | None] = (bare.memory_reason, guarded.memory_reason)
    reason = next((text for text in reasons if text is not None), None)
    before, after = bare.peak_memory_bytes, guarded.peak_memory_bytes
    if reason is None and not before:
        reason = "the bare arm used no memory that could be seen"
    if reason is not None or not before or after is None:
        return unmeasured(MEMORY, str(reason), direction="lower_is_better")
    return measured(MEMORY, after / before - 1, n=1, direction="lower_is_better")


def _arm_cost(times: Floats | None, costs: ArmCosts) -> ArmCost:
    if times is None:
        return ArmCost(peak_memory_bytes=costs.peak_memory_bytes)
    return ArmCost(
        latency_ms_p50=smallest_reaching(times, 0.5),
        latency_ms_p95=smallest_reaching(times, 0.95),
        latency_ms_total=float(times.sum()),
        peak_memory_bytes=costs.peak_memory_bytes,
    )
