"""Time and memory of both arms.

They differ from run to run, so they are stored in a separate file alongside the arms. The digest of
the schedule ties that file to the windows.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from gatemark.core.canonical import canonical_bytes, digest_bytes
from gatemark.core.errors import BadInputError, InvalidValueError
from gatemark.core.measurement import Interval, Measurement, measured, unmeasured
from gatemark.evidence.source import inspect_source, parse_strictly
from gatemark.exams.overhead.arms import ArmFile, Defect, defect
from gatemark.exams.overhead.measure import (
    Resampling,
    side_by_side_overhead,
    smallest_reaching,
    time_overhead,
)
from gatemark.exams.overhead.policy import INSTALL, LATENCY, MEMORY
from gatemark.exams.overhead.records import MemorySource

NAME: Final = "gatemark.overhead-costs/1"
NOT_MEASURED: Final = "no costs were recorded"
MAX_COSTS_BYTES: Final = 1024 * 1024 * 1024
MAX_COSTS_DEPTH: Final = 16

Floats = NDArray[np.float64]
Milliseconds = Annotated[float, Meta(ge=1e-6, le=1e12)]
"""From one nanosecond to thirty years."""
Bytes = Annotated[int, Meta(ge=0, le=2**53 - 1)]


class ArmCosts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Milliseconds per window for each pass of an arm, and its peak memory.

    ``peak_memory_bytes`` is null if memory could not be measured; ``memory_reason`` says why.
    ``repeat_shift_max`` is the largest difference of a window between two passes of the arm.
    ``memory_source`` is where the peak was read; ``peak_rss_bytes`` is that of the process.
    """

    latency_ms: tuple[tuple[Milliseconds, ...], ...]
    peak_memory_bytes: Bytes | None
    memory_reason: str | None
    repeat_shift_max: float | None
    memory_source: MemorySource | None = None
    peak_rss_bytes: Bytes | None = None
    rss_reason: str | None = None

    def __post_init__(self) -> None:
        if (self.peak_memory_bytes is None) == (self.memory_reason is None):
            raise InvalidValueError("give one of peak_memory_bytes and memory_reason")


class Restored(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One pass: its arm, and the hash of the state before, after, and after the restore."""

    arm: Literal["bare", "guarded"]
    before: str
    after: str
    restored: str


class Timing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Times of both arms side by side, by group of windows in the order in which they ran.

    Each group has the number of its windows, and two times in milliseconds for each arm. If the
    arms could not be timed this way, ``reason`` says why and there are no groups.
    """

    windows: tuple[Annotated[int, Meta(ge=1)], ...] = ()
    bare_ms: tuple[tuple[Milliseconds, Milliseconds], ...] = ()
    guarded_ms: tuple[tuple[Milliseconds, Milliseconds], ...] = ()
    reason: str | None = None

    def __post_init__(self) -> None:
        if not len(self.windows) == len(self.bare_ms) == len(self.guarded_ms):
            raise InvalidValueError("timing needs equally many windows, bare_ms and guarded_ms")
        if bool(self.windows) == (self.reason is not None):
            raise InvalidValueError("timing needs either groups or a reason")


class GuardCosts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One guard alone against none: total times in milliseconds, and the mean shift.

    ``shift`` is in nats per token, or the drop of accuracy; None if a value is not finite.
    """

    name: str
    windows: Annotated[int, Meta(ge=1)]
    bare_ms: Milliseconds
    alone_ms: Milliseconds
    shift: float | None

    @property
    def latency_overhead(self) -> float:
        """The relative increase in time."""
        return self.alone_ms / self.bare_ms - 1


class Costs(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The costs file; ``install_ms`` has the time of every installation of the guards."""

    schema: Literal["gatemark.overhead-costs/1"] = NAME
    schedule_digest: str
    passes: tuple[Restored, ...]
    arms: dict[Literal["bare", "guarded"], ArmCosts]
    timing: Timing | None = None
    install_ms: tuple[Milliseconds, ...] | None = None
    guards: tuple[GuardCosts, ...] | None = None


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


def schedule_digest(arm: ArmFile) -> str | None:
    """Return a digest of the plan, window ids, contents and weights, in order."""
    if arm.meta is None:
        return None
    columns = msgspec.json.encode([arm.ids, arm.contents, arm.weights])
    return digest_bytes(canonical_bytes(arm.meta.plan) + b"\n" + columns)


def spent(costs: Costs | None, bare: ArmFile, resampling: Resampling) -> OverheadCosts:
    """Return the overhead in time and memory, or the reason why it is unknown."""
    if costs is None:
        return unknown_costs(NOT_MEASURED)
    if costs.schedule_digest != schedule_digest(bare):
        return unknown_costs("the recorded costs belong to other windows")
    if set(costs.arms) != {"bare", "guarded"}:
        return unknown_costs("the recorded costs lack an arm")
    before, after = (_fastest(costs.arms[side], len(bare.ids)) for side in ("bare", "guarded"))
    sides = (costs.arms["bare"], costs.arms["guarded"])
    latency = _latency(costs.timing, before, after, resampling)
    return OverheadCosts(
        measurements=(latency, _memory(*sides), *_install(costs)),
        bare=_arm_cost(before, sides[0]),
        guarded=_arm_cost(after, sides[1]),
        guards=costs.guards or (),
    )


def restore_defects(costs: Costs | None, snapshot_hash: str) -> Iterator[Defect]:
    """Yield a defect if a recorded pass did not start from, or return to, the snapshot."""
    for number, one in enumerate(() if costs is None else costs.passes, start=1):
        for word, found in (("before", one.before), ("restored after", one.restored)):
            if found != snapshot_hash:
                yield defect(
                    "arm.restored",
                    f"the state {word} pass {number} ({one.arm}) is {found}, "
                    f"the snapshot is {snapshot_hash}",
                )


def unknown_costs(reason: str) -> OverheadCosts:
    """Return unmeasured costs with a reason."""
    return OverheadCosts(
        tuple(unmeasured(name, reason, direction="lower_is_better") for name in (LATENCY, MEMORY))
    )


def _fastest(costs: ArmCosts, windows: int) -> Floats | None:
    """Return the fastest pass of each window; other load on the machine only adds time."""
    if not costs.latency_ms or any(len(row) != windows for row in costs.latency_ms):
        return None
    return np.asarray(np.array(costs.latency_ms, dtype=np.float64).min(axis=0))


def _latency(
    timing: Timing | None, before: Floats | None, after: Floats | None, resampling: Resampling
) -> Measurement:
    """Return the latency; if arms should have taken turns and did not, there is no interval."""
    if timing is not None and timing.reason is None:
        found = side_by_side_overhead(timing.bare_ms, timing.guarded_ms, resampling.level)
        return _timed(sum(timing.windows), *found)
    reason = None if timing is None else timing.reason
    if before is None or after is None:
        why = "some windows have no recorded time" if reason is None else reason
        return unmeasured(LATENCY, why, direction="lower_is_better")
    if reason is None:
        return _timed(before.size, *time_overhead(before, after, resampling))
    return _timed(before.size, float(after.sum() / before.sum() - 1), None, reason)


def _timed(n: int, overhead: float, interval: Interval | None, caveat: str | None) -> Measurement:
    return measured(
        LATENCY,
        overhead,
        n=n,
        direction="lower_is_better",
        interval=interval,
        caveats=() if caveat is None else (caveat,),
    )


def _install(costs: Costs) -> tuple[Measurement, ...]:
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


def _memory(bare: ArmCosts, guarded: ArmCosts) -> Measurement:
    reason = bare.memory_reason or guarded.memory_reason
    if reason is None and bare.memory_source != guarded.memory_source:
        reason = "the arms read their memory in different places"
    before, after = bare.peak_memory_bytes, guarded.peak_memory_bytes
    if reason is None and not before:
        reason = "the bare arm used no memory that could be seen"
    if reason is not None or not before or after is None:
        return unmeasured(MEMORY, str(reason), direction="lower_is_better")
    return measured(MEMORY, after / before - 1, n=1, direction="lower_is_better")


def _arm_cost(times: Floats | None, costs: ArmCosts) -> ArmCost:
    return ArmCost(
        latency_ms_p50=None if times is None else smallest_reaching(times, 0.5),
        latency_ms_p95=None if times is None else smallest_reaching(times, 0.95),
        latency_ms_total=None if times is None else float(times.sum()),
        peak_memory_bytes=costs.peak_memory_bytes,
        memory_source=costs.memory_source,
        peak_rss_bytes=costs.peak_rss_bytes,
    )


def read_costs(path: str) -> Costs:
    """Read a costs file strictly."""
    if inspect_source(path).byte_count > MAX_COSTS_BYTES:
        raise BadInputError(f"{path}: larger than {MAX_COSTS_BYTES} bytes")
    data = Path(path).read_bytes()
    try:
        costs = msgspec.json.decode(data, type=Costs)
    except (msgspec.MsgspecError, RecursionError, InvalidValueError, UnicodeError) as error:
        raise BadInputError(f"{path}: {error}") from error
    # Every key adds one colon, so equal counts rule out a repeated key.
    if b"\\" in data or data.count(b":") != msgspec.json.encode(costs).count(b":"):
        _, problems = parse_strictly(data, max_depth=MAX_COSTS_DEPTH)
        if problems:
            raise BadInputError(tuple(f"{path}: {problem.message}" for problem in problems))
    return costs
