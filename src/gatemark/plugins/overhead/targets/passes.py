"""What a run of both arms gives: its passes, its windows, and its costs."""

from __future__ import annotations

import math

import msgspec

from gatemark.plugins.overhead.costs import GuardCosts
from gatemark.plugins.overhead.records import MemorySource
from gatemark.plugins.overhead.targets.loading import NamedWindow
from gatemark.plugins.overhead.targets.port import AccuracyCounts, ArmName, Loss, PassSeeds
from gatemark.plugins.overhead.targets.timing import TimedGroup

PassOutcome = Loss | AccuracyCounts


class PassRun(msgspec.Struct, frozen=True):
    """One pass: an outcome and a time per window, and the hashes of the state before and after.

    ``peak_rss`` is the peak of the process in bytes, or the reason why it is unknown.
    """

    arm: ArmName
    outcomes: tuple[PassOutcome, ...]
    latency_ms: tuple[float, ...]
    before: str
    after: str
    restored: str
    peak_rss: int | str


class ArmMemory(msgspec.Struct, frozen=True):
    """The peak of an arm in bytes or a reason, where it was read, and the peak of the process."""

    peak: int | str
    source: MemorySource | None
    rss: int | str


class OverheadRun(msgspec.Struct, frozen=True, kw_only=True):
    """All passes and their costs. ``timing`` is a reason if arms could not take turns."""

    kind: str
    device: str
    seq_len: int
    stride: int
    guards: tuple[str, ...]
    seeds: PassSeeds
    snapshot_hash: str
    windows: tuple[NamedWindow, ...]
    passes: tuple[PassRun, ...]
    memory: dict[ArmName, ArmMemory]
    installs_ms: tuple[float, ...]
    timing: tuple[TimedGroup, ...] | str
    guard_runs: tuple[GuardCosts, ...]


def find_largest_repeat_shift(run: OverheadRun, arm: ArmName) -> float | None:
    """Return the largest change of a window between two passes of an arm, if all are finite."""
    passes = [found.outcomes for found in run.passes if found.arm == arm]
    shifts = [
        abs(_get_value(first) - _get_value(again))
        for first, again in zip(passes[0], passes[-1], strict=True)
    ]
    largest = max(shifts)
    return largest if math.isfinite(largest) else None


def _get_value(outcome: PassOutcome) -> float:
    return outcome.loss if isinstance(outcome, Loss) else float(outcome.correct)
