"""What the runner needs from a thing whose guards are to be measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal, Protocol, runtime_checkable

import msgspec
from msgspec import Meta

MetricKind = Literal["ppl_causal", "ppl_mlm", "ppl_seq2seq", "accuracy"]
ArmName = Literal["bare", "guarded"]
MAX_COUNT: Final = 2**53 - 1
"""The largest integer that every JSON reader gives back unchanged."""
Seed = Annotated[int, Meta(ge=0, le=MAX_COUNT)]


class EvidenceWindow(msgspec.Struct, frozen=True):
    """One piece of evidence: the bytes that say what it is, and whatever the target wants."""

    content: bytes
    data: Any


class Loss(msgspec.Struct, frozen=True):
    """What a window of a perplexity kind gave: tokens predicted, mean loss in nats per token."""

    tokens: int
    loss: float


class AccuracyCounts(msgspec.Struct, frozen=True):
    """What a window of an accuracy kind gave."""

    correct: int
    total: int


class PassSeeds(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The seed bundle, set again before every pass; null seeds nothing."""

    python: Seed | None = 0
    numpy: Seed | None = 0
    torch: Seed | None = None
    bootstrap: Seed | None = 0


@runtime_checkable
class OverheadTarget(Protocol):
    """A model with one toggle for its whole guard chain.

    ``fingerprint`` is a hash over everything that ``restore`` must bring back. ``toggle`` may
    change weights or install hooks; switching off need not undo what only ``restore`` can.
    """

    kind: MetricKind
    device: str
    seq_len: int
    stride: int
    guards: tuple[str, ...]

    def windows(self) -> Sequence[EvidenceWindow]:
        """Every window, always in the same order."""

    def snapshot(self) -> Any:
        """A copy of the state."""

    def restore(self, snapshot: Any) -> None:
        """Bring the state of a snapshot back, guards off."""

    def fingerprint(self) -> str:
        """A hash of the state as it is."""

    def toggle(self, *, guarded: bool) -> None:
        """Switch the whole guard chain."""

    def evaluate(self, window: EvidenceWindow) -> Loss | AccuracyCounts:
        """Evaluate one window."""


@runtime_checkable
class Reseedable(Protocol):
    """A target with random streams of its own, besides Python's and numpy's."""

    def reseed(self, seeds: PassSeeds) -> None:
        """Set every stream that evaluating may draw from."""


@runtime_checkable
class MemoryMeter(Protocol):
    """A target that knows its own peak of memory better than the interpreter does."""

    def start_memory(self) -> None:
        """Forget earlier peaks."""

    def peak_memory(self) -> int | str:
        """Bytes at the peak, or the reason why nobody can tell."""
