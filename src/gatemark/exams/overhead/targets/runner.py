"""Run both arms over the same windows from the same state.

(1) Check the facts of the target, and name the windows by content and plan. (2) Take a snapshot and
its hash. (3) Evaluate all windows four times: bare, guarded, guarded, bare. The first pass runs
before any guard is touched, so that a guard which never comes off shows in the last pass. Restore
the state and compare its hash before and after each pass, and seed every random generator before
it. (4) Measure memory in short passes of their own, because tracing memory costs time.
"""

from __future__ import annotations

import math
import random
import sys
import tracemalloc
from collections.abc import Callable, Sequence
from numbers import Integral, Real
from typing import Final, TypeGuard, get_args

import msgspec
import numpy as np

from gatemark.core.canonical import digest, digest_bytes
from gatemark.core.errors import BadInputError, IncomparableError
from gatemark.core.progress import Progress
from gatemark.exams.overhead.records import MAX_COUNT, MetricKind
from gatemark.exams.overhead.targets.loading import target_code
from gatemark.exams.overhead.targets.port import (
    AccuracyCounts,
    ArmName,
    EvidenceWindow,
    Loss,
    MemoryMeter,
    OverheadTarget,
    PassSeeds,
    Reseedable,
)

MAX_TEXT: Final = 512


def check_facts(target: OverheadTarget) -> None:
    """Refuse a target whose facts do not fit an arm file."""
    kinds = get_args(MetricKind)
    _must(target.kind in kinds, "kind", f"one of {', '.join(kinds)}", target.kind)
    _must(_is_text(target.device), "device", "a text", target.device)
    for name in ("seq_len", "stride"):
        value = getattr(target, name)
        _must(_is_count(value) and value >= 1, name, "a whole number >= 1", value)
    guards: object = target.guards
    is_list = isinstance(guards, tuple | list) and all(map(_is_text, guards))
    _must(is_list, "guards", "a tuple of names", guards)


def checked_outcome(kind: str, outcome: object, place: str) -> Loss | AccuracyCounts:
    """Return an outcome of the right type in plain numbers; ``place`` names window and arm."""
    wanted = AccuracyCounts if kind == "accuracy" else Loss
    if not isinstance(outcome, wanted):
        raise BadInputError(
            f"overhead target: evaluate() of window {place} must give {wanted.__name__} for kind "
            f"{kind}, got {type(outcome).__name__}"
        )
    subject = f"evaluate() of window {place}: "
    if isinstance(outcome, AccuracyCounts):
        for name in ("correct", "total"):
            value = getattr(outcome, name)
            _must(_is_count(value), subject + name, "a whole number >= 0", value)
        return AccuracyCounts(correct=int(outcome.correct), total=int(outcome.total))
    tokens, loss = outcome.tokens, outcome.loss
    _must(_is_count(tokens), subject + "tokens", "a whole number >= 0", tokens)
    _must(_is_number(loss, Real), subject + "loss", "a number", loss)
    try:
        return Loss(tokens=int(tokens), loss=float(loss))
    except OverflowError:
        return Loss(tokens=int(tokens), loss=math.inf)


def checked_memory(peak: object) -> int | str:
    """Return the peak in bytes, or the reason why it is unknown."""
    if isinstance(peak, str) and peak.strip():
        return peak
    if _is_count(peak):
        return int(peak)
    raise _wrong("peak_memory()", "bytes as a whole number >= 0, or a reason", peak)


def _must(holds: bool, subject: str, wanted: str, got: object) -> None:
    if not holds:
        raise _wrong(subject, wanted, got)


def _wrong(subject: str, wanted: str, got: object) -> BadInputError:
    seen = got if isinstance(got, str | int | float | None) else type(got).__name__
    return BadInputError(f"overhead target: {subject} must be {wanted}, got {seen!r:.80}")


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip()) and len(value) <= MAX_TEXT


def _is_number(value: object, kind: type) -> TypeGuard[float]:
    """Whether a value is a number of that kind, numpy's included; booleans are not."""
    return isinstance(value, kind) and not isinstance(value, bool)


def _is_count(value: object) -> TypeGuard[int]:
    return _is_number(value, Integral) and 0 <= value <= MAX_COUNT


ORDER: Final[tuple[ArmName, ...]] = ("bare", "guarded", "guarded", "bare")
MEMORY_WINDOWS: Final = 8
MAX_WINDOWS: Final = 1_000_000
SHORTEST_MS: Final = 1e-6
"""Minimum recorded time; a coarse clock may see none at all."""

Clock = Callable[[], float]


class NamedWindow(msgspec.Struct, frozen=True):
    """A window with the id and hash of the arm files."""

    window_id: str
    content_hash: str
    window: EvidenceWindow


class PassRun(msgspec.Struct, frozen=True):
    """One pass: an outcome and a time per window, and the hashes of the state around it."""

    arm: ArmName
    outcomes: tuple[Loss | AccuracyCounts, ...]
    latency_ms: tuple[float, ...]
    before: str
    after: str
    restored: str


class OverheadRun(msgspec.Struct, frozen=True, kw_only=True):
    """All passes. ``memory`` is the peak in bytes, or a reason, per arm."""

    kind: str
    device: str
    seq_len: int
    stride: int
    guards: tuple[str, ...]
    seeds: PassSeeds
    snapshot_hash: str
    windows: tuple[NamedWindow, ...]
    passes: tuple[PassRun, ...]
    memory: dict[ArmName, int | str]


def run_arms(
    target: OverheadTarget,
    seeds: PassSeeds,
    *,
    clock: Clock,
    on_progress: Progress | None = None,
) -> OverheadRun:
    """Measure a target with its guards off and on."""
    # Step 1.
    check_facts(target)
    windows = name_windows(target)
    # Step 2.
    runner = _Runner(target, seeds, windows, clock)
    # Step 3.
    total = len(ORDER) * len(windows)
    passes = []
    for number, arm in enumerate(ORDER):

        def tick(done: int, before: int = number * len(windows)) -> None:
            if on_progress is not None:
                on_progress(before + done, total)

        passes.append(runner.run_pass(arm, tick))
    # Step 4.
    memory: dict[ArmName, int | str] = {
        "bare": runner.peak_memory("bare"),
        "guarded": runner.peak_memory("guarded"),
    }
    return OverheadRun(
        kind=target.kind,
        device=target.device,
        seq_len=target.seq_len,
        stride=target.stride,
        guards=tuple(target.guards),
        seeds=seeds,
        snapshot_hash=runner.state_hash,
        windows=windows,
        passes=tuple(passes),
        memory=memory,
    )


def name_windows(target: OverheadTarget) -> tuple[NamedWindow, ...]:
    """Name windows by content, place and plan, so that no two plans share a name."""
    with target_code("windows()"):
        windows = tuple(target.windows())
    if not windows:
        raise BadInputError("overhead target: windows() must give at least one window, got none")
    if len(windows) > MAX_WINDOWS:
        raise BadInputError(f"overhead target: windows() gave more than {MAX_WINDOWS} windows")
    plan = {"seq_len": target.seq_len, "stride": target.stride, "windows": len(windows)}
    named = []
    for place, window in enumerate(windows):
        if not isinstance(getattr(window, "content", None), bytes):
            raise BadInputError(
                f"overhead target: windows() must give EvidenceWindow(content=bytes, data=…), "
                f"got {type(window).__name__} at {place} without content in bytes"
            )
        content = digest_bytes(window.content)
        name = digest({"plan": plan, "place": place, "content": content})
        named.append(NamedWindow(f"w{place:06d}-{name[7:19]}", content, window))
    return tuple(named)


class _Runner:
    """A target, its snapshot, and the hash that every restore must give."""

    def __init__(
        self, target: OverheadTarget, seeds: PassSeeds, windows: Sequence[NamedWindow], clock: Clock
    ) -> None:
        self._target = target
        self._seeds = seeds
        self._windows = windows
        self._clock = clock
        self.state_hash = self._fingerprint()
        with target_code("snapshot()"):
            self._snapshot = target.snapshot()
        self._touched = False
        self._reseed()
        self._evaluate("bare", self._windows[0])
        self._restore("warming up")

    def run_pass(self, arm: ArmName, tick: Callable[[int], None]) -> PassRun:
        """Evaluate every window once with the guards off or on."""
        before = self._restore(f"the {arm} arm")
        if arm == "guarded" and not self._touched:
            # The first call pays for what later ones find ready.
            self._prepare(arm)
            self._evaluate(arm, self._windows[0])
            before = self._restore("warming up")
        self._prepare(arm)
        outcomes: list[Loss | AccuracyCounts] = []
        times: list[float] = []
        for done, window in enumerate(self._windows, start=1):
            started = self._clock()
            outcome = self._evaluate(arm, window)
            elapsed_ms = (self._clock() - started) * 1000.0
            outcomes.append(
                checked_outcome(self._target.kind, outcome, f"{window.window_id} in the {arm} arm")
            )
            times.append(max(elapsed_ms, SHORTEST_MS))
            tick(done)
        after = self._fingerprint()
        return PassRun(
            arm=arm,
            outcomes=tuple(outcomes),
            latency_ms=tuple(times),
            before=before,
            after=after,
            restored=self._restore(f"the {arm} arm"),
        )

    def peak_memory(self, arm: ArmName) -> int | str:
        """Return the peak in bytes over a few windows, or the reason why it is unknown."""
        self._restore(f"the memory pass of the {arm} arm")
        self._prepare(arm)
        shown = self._windows[:MEMORY_WINDOWS]
        target = self._target
        if isinstance(target, MemoryMeter):
            with target_code("start_memory()"):
                target.start_memory()
            for window in shown:
                self._evaluate(arm, window)
            with target_code("peak_memory()"):
                peak = target.peak_memory()
            return checked_memory(peak)
        tracemalloc.start()
        try:
            for window in shown:
                self._evaluate(arm, window)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    def _prepare(self, arm: ArmName) -> None:
        self._reseed()
        if arm == "bare" and not self._touched:
            return
        self._touched = True
        with target_code(f"toggle(guarded={arm == 'guarded'})"):
            self._target.toggle(guarded=arm == "guarded")

    def _restore(self, around: str) -> str:
        with target_code("restore()"):
            if self._touched:
                self._target.toggle(guarded=False)
            self._target.restore(self._snapshot)
        found = self._fingerprint()
        if found != self.state_hash:
            raise IncomparableError(
                f"overhead target: restore() around {around} did not bring the state back: "
                f"hash was {self.state_hash}, is {found}"
            )
        return found

    def _fingerprint(self) -> str:
        with target_code("fingerprint()"):
            found = str(self._target.fingerprint())
        if not found.strip() or len(found) > MAX_TEXT:
            raise BadInputError(
                f"overhead target: fingerprint() must give a text of 1 to {MAX_TEXT} characters, "
                f"got {len(found)}"
            )
        return found

    def _reseed(self) -> None:
        """Seed every generator that evaluating may draw from."""
        seeds = self._seeds
        if seeds.python is not None:
            random.seed(seeds.python)
        if seeds.numpy is not None:
            np.random.seed(seeds.numpy % 2**32)
        torch = sys.modules.get("torch")
        if seeds.torch is not None and torch is not None:
            torch.manual_seed(seeds.torch)
        if isinstance(self._target, Reseedable):
            with target_code("reseed()"):
                self._target.reseed(seeds)

    def _evaluate(self, arm: ArmName, window: NamedWindow) -> Loss | AccuracyCounts:
        with target_code(f"evaluate() of window {window.window_id} in the {arm} arm"):
            return self._target.evaluate(window.window)


def largest_repeat_shift(run: OverheadRun, arm: ArmName) -> float | None:
    """Return the largest change of a window between two passes of an arm, if all are finite."""
    passes = [found.outcomes for found in run.passes if found.arm == arm]
    shifts = [
        abs(_value(first) - _value(again))
        for first, again in zip(passes[0], passes[-1], strict=True)
    ]
    largest = max(shifts)
    return largest if math.isfinite(largest) else None


def _value(outcome: Loss | AccuracyCounts) -> float:
    return outcome.loss if isinstance(outcome, Loss) else float(outcome.correct)
