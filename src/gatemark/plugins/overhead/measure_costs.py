"""The overhead in time and memory, from the costs file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from gatemark.core.measurement import Interval, Measurement, measured, unmeasured
from gatemark.core.reason import Reason, ReasonKind
from gatemark.plugins.overhead.arms import ArmFile, Defect, make_defect
from gatemark.plugins.overhead.costs import ArmCosts, Costs, GuardCosts, Timing, digest_schedule
from gatemark.plugins.overhead.measure import find_smallest_reaching
from gatemark.plugins.overhead.policy import INSTALL, LATENCY, MEMORY
from gatemark.plugins.overhead.ratio_interval import Resampling
from gatemark.plugins.overhead.records import MemorySource
from gatemark.plugins.overhead.time_overhead import compare_groups, compare_times

NO_COSTS: Final = ReasonKind("no_costs", "no costs were recorded")
OTHER_WINDOWS: Final = ReasonKind("other_windows", "the recorded costs belong to other windows")
COSTS_LACK_ARM: Final = ReasonKind("costs_lack_arm", "the recorded costs lack an arm")
WINDOWS_UNTIMED: Final = ReasonKind("windows_untimed", "some windows have no recorded time")
OTHER_MEMORY: Final = ReasonKind("other_memory", "the arms read their memory in different places")
NO_MEMORY_SEEN: Final = ReasonKind(
    "no_memory_seen", "the bare arm used no memory that could be seen"
)
COST_NOT_RECORDED: Final = ReasonKind("cost_not_recorded", "{recorded}")
"""The costs file itself says why it lacks a number; its words are the value."""
Floats = NDArray[np.float64]


class ArmCost(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A summary of the costs of one arm; null if they were not measured."""

    latency_ms_p50: float | None = None
    latency_ms_p95: float | None = None
    latency_ms_total: float | None = None
    peak_memory_bytes: int | None = None
    memory_source: MemorySource | None = None
    peak_rss_bytes: int | None = None


class OverheadCosts(msgspec.Struct, frozen=True):
    """Latency and memory overhead, install time, the summary of each arm, and each guard alone."""

    measurements: tuple[Measurement, ...]
    bare: ArmCost = ArmCost()
    guarded: ArmCost = ArmCost()
    guards: tuple[GuardCosts, ...] = ()


def measure_costs(costs: Costs | None, bare: ArmFile, resampling: Resampling) -> OverheadCosts:
    """Return the overhead in time and memory, or the reason why it is unknown."""
    if costs is None:
        return leave_costs_unmeasured(NO_COSTS())
    if costs.schedule_digest != digest_schedule(bare):
        return leave_costs_unmeasured(OTHER_WINDOWS())
    if set(costs.arms) != {"bare", "guarded"}:
        return leave_costs_unmeasured(COSTS_LACK_ARM())
    before, after = (_find_fastest(costs.arms[side], len(bare.ids)) for side in ("bare", "guarded"))
    sides = (costs.arms["bare"], costs.arms["guarded"])
    latency = _measure_latency(costs.timing, before, after, resampling)
    return OverheadCosts(
        measurements=(latency, _measure_memory(*sides), *_measure_install(costs)),
        bare=_summarize_arm(before, sides[0]),
        guarded=_summarize_arm(after, sides[1]),
        guards=costs.guards or (),
    )


def find_restore_defects(costs: Costs | None, snapshot_hash: str) -> Iterator[Defect]:
    """Yield a defect if a recorded pass did not start from, or return to, the snapshot."""
    for number, one in enumerate(() if costs is None else costs.passes, start=1):
        for word, found in (("before", one.before), ("restored after", one.restored)):
            if found != snapshot_hash:
                yield make_defect(
                    "arm.restored",
                    f"the state {word} pass {number} ({one.arm}) is {found}, "
                    f"the snapshot is {snapshot_hash}",
                )


def leave_costs_unmeasured(reason: Reason) -> OverheadCosts:
    """Return unmeasured costs with a reason."""
    return OverheadCosts(
        tuple(unmeasured(name, reason, direction="lower_is_better") for name in (LATENCY, MEMORY))
    )


def _find_fastest(costs: ArmCosts, windows: int) -> Floats | None:
    """Return the fastest pass of each window; other load on the machine only adds time."""
    if not costs.latency_ms or any(len(row) != windows for row in costs.latency_ms):
        return None
    return np.asarray(np.array(costs.latency_ms, dtype=np.float64).min(axis=0))


def _measure_latency(
    timing: Timing | None, before: Floats | None, after: Floats | None, resampling: Resampling
) -> Measurement:
    """Return the latency; if arms should have taken turns and did not, there is no interval."""
    if timing is not None and timing.reason is None:
        found = compare_groups(timing.bare_ms, timing.guarded_ms, resampling.level)
        return _measure_turns(sum(timing.windows), *found)
    reason = None if timing is None else timing.reason
    if before is None or after is None:
        why = WINDOWS_UNTIMED() if reason is None else COST_NOT_RECORDED(recorded=reason)
        return unmeasured(LATENCY, why, direction="lower_is_better")
    if reason is None:
        return _measure_turns(before.size, *compare_times(before, after, resampling))
    return _measure_turns(before.size, float(after.sum() / before.sum() - 1), None, reason)


def _measure_turns(
    n: int, overhead: float, interval: Interval | None, caveat: str | None
) -> Measurement:
    return measured(
        LATENCY,
        overhead,
        n=n,
        direction="lower_is_better",
        interval=interval,
        caveats=() if caveat is None else (caveat,),
    )


def _measure_install(costs: Costs) -> tuple[Measurement, ...]:
    """Return the slowest install; older files have none."""
    if not costs.install_ms:
        return ()
    return (
        measured(
            INSTALL,
            max(costs.install_ms),
            n=len(costs.install_ms),
            direction="lower_is_better",
            unit="ms",
        ),
    )


def _measure_memory(bare: ArmCosts, guarded: ArmCosts) -> Measurement:
    before, after = bare.peak_memory_bytes, guarded.peak_memory_bytes
    if recorded := bare.memory_reason or guarded.memory_reason:
        reason = COST_NOT_RECORDED(recorded=recorded)
    elif bare.memory_source != guarded.memory_source:
        reason = OTHER_MEMORY()
    elif not before or after is None:
        reason = NO_MEMORY_SEEN()
    else:
        return measured(MEMORY, after / before - 1, n=1, direction="lower_is_better")
    return unmeasured(MEMORY, reason, direction="lower_is_better")


def _summarize_arm(times: Floats | None, costs: ArmCosts) -> ArmCost:
    return ArmCost(
        latency_ms_p50=None if times is None else find_smallest_reaching(times, 0.5),
        latency_ms_p95=None if times is None else find_smallest_reaching(times, 0.95),
        latency_ms_total=None if times is None else float(times.sum()),
        peak_memory_bytes=costs.peak_memory_bytes,
        memory_source=costs.memory_source,
        peak_rss_bytes=costs.peak_rss_bytes,
    )
