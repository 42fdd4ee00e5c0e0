"""The interface of a target whose guards are measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Protocol, runtime_checkable

import msgspec

from gatemark.plugins.overhead.records import MetricKind, Seed

ArmName = Literal["bare", "guarded"]


class EvidenceWindow(msgspec.Struct, frozen=True):
    """One window: the bytes that identify it, and data for the target."""

    content: bytes
    data: Any


class Loss(msgspec.Struct, frozen=True):
    """The outcome of a perplexity window: tokens predicted, mean loss in nats per token."""

    tokens: int
    loss: float


class AccuracyCounts(msgspec.Struct, frozen=True):
    """The outcome of an accuracy window."""

    correct: int
    total: int


class PassSeeds(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The seeds, set again before every pass; null leaves a library alone."""

    python: Seed | None = 0
    numpy: Seed | None = 0
    torch: Seed | None = None
    bootstrap: Seed | None = 0


@runtime_checkable
class OverheadTarget(Protocol):
    """A model with one toggle for its whole guard chain.

    ``fingerprint`` is a hash of everything that ``restore`` must bring back. ``toggle`` may change
    weights or install hooks; switching off need not undo what only ``restore`` can.
    """

    kind: MetricKind
    device: str
    seq_len: int
    stride: int
    guards: tuple[str, ...]

    def windows(self) -> Sequence[EvidenceWindow]:
        """Return every window, always in the same order."""

    def snapshot(self) -> Any:
        """Return a copy of the state."""

    def restore(self, snapshot: Any) -> None:
        """Restore the state of a snapshot, with the guards off."""

    def fingerprint(self) -> str:
        """Return a hash of the current state."""

    def toggle(self, *, guarded: bool) -> None:
        """Switch the whole guard chain on or off."""

    def evaluate(self, window: EvidenceWindow) -> Loss | AccuracyCounts:
        """Evaluate one window."""


@runtime_checkable
class Reseedable(Protocol):
    """A target with its own random generators, besides Python's and numpy's."""

    def reseed(self, seeds: PassSeeds) -> None:
        """Seed every generator that evaluating may draw from."""


@runtime_checkable
class MemoryMeter(Protocol):
    """A target that measures its own peak memory."""

    def start_memory(self) -> None:
        """Reset the peak."""

    def peak_memory(self) -> int | str:
        """Return the peak in bytes, or the reason why it is unknown."""


@runtime_checkable
class Batched(Protocol):
    """A target that can evaluate several windows at once; used when ``batch_size`` is set."""

    def evaluate_batch(self, windows: Sequence[EvidenceWindow]) -> Sequence[Loss | AccuracyCounts]:
        """Evaluate windows together; return one outcome for each, in their order."""


@runtime_checkable
class SingleGuards(Protocol):
    """A target that can switch on a single guard of its chain, to find the one that costs most."""

    def toggle_one(self, guard: str) -> None:
        """Switch on this guard alone; the guards are off when this is called."""
