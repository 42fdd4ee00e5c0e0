"""The costs file: time and memory of both arms.

They differ from run to run, so they are stored in a separate file alongside the arms. The digest of
the schedule ties that file to the windows.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from gatemark.core.canonical import canonical_bytes, digest_bytes
from gatemark.core.errors import BadInputError, InvalidValueError
from gatemark.evidence.source import inspect_source
from gatemark.evidence.strict_json import parse_strictly
from gatemark.plugins.overhead.arms import ArmFile
from gatemark.plugins.overhead.records import MemorySource

NAME: Final = "gatemark.overhead-costs/1"
MAX_COSTS_BYTES: Final = 1024 * 1024 * 1024
MAX_COSTS_DEPTH: Final = 16
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


def digest_schedule(arm: ArmFile) -> str | None:
    """Return a digest of the plan, window ids, contents and weights, in order."""
    if arm.meta is None:
        return None
    columns = msgspec.json.encode([arm.ids, arm.contents, arm.weights])
    return digest_bytes(canonical_bytes(arm.meta.plan) + b"\n" + columns)


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
