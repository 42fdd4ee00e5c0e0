"""Run both arms over the same windows from the same state.

(1) Check the facts of the target, and name the windows by content and plan. (2) Take a snapshot and
its hash. (3) Evaluate all windows four times: bare, guarded, guarded, bare. The first pass runs
before any guard is touched, so that a guard which never comes off shows in the last pass. Restore
the state and compare its hash before and after each pass, and seed every random generator before
it. (4) Measure memory where the passes could not. (5) Time the arms side by side, and each guard
alone where the target can switch on one.
"""

from __future__ import annotations

import math
import random
import statistics
import sys
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar

import numpy as np

from gatemark.core.errors import BadInputError, IncomparableError
from gatemark.core.progress import Progress
from gatemark.plugins.overhead.costs import GuardCosts
from gatemark.plugins.overhead.targets.loading import (
    MAX_TEXT,
    NamedWindow,
    check_facts,
    check_memory,
    check_outcome,
    check_outcomes,
    name_target_errors,
    name_windows,
)
from gatemark.plugins.overhead.targets.passes import ArmMemory, OverheadRun, PassOutcome, PassRun
from gatemark.plugins.overhead.targets.port import (
    AccuracyCounts,
    ArmName,
    Batched,
    Loss,
    MemoryMeter,
    OverheadTarget,
    PassSeeds,
    Reseedable,
    SingleGuards,
)
from gatemark.plugins.overhead.targets.process_peak import ProcessPeak
from gatemark.plugins.overhead.targets.state_reset import Reloading, Restoring
from gatemark.plugins.overhead.targets.timing import (
    SHORTEST_MS,
    TimedGroup,
    group_size,
    pick_windows,
    time_side_by_side,
)

ORDER: Final[tuple[ArmName, ...]] = ("bare", "guarded", "guarded", "bare")
MEMORY_WINDOWS: Final = 8
SWITCH_TRIES: Final = 3
"""The fastest try counts; other load on the machine only adds time."""
GUARD_GROUPS: Final = 40
"""Groups of windows that each guard is timed alone on."""
T = TypeVar("T")
Clock = Callable[[], float]
Values = dict[str, dict[int, PassOutcome]]
"""Outcomes by arm and place of the window."""
GUARD_ARM: Final = "guard "
"""Prefix of the name of an arm with one guard alone."""


def run_arms(
    kept: OverheadTarget | Reloading,
    seeds: PassSeeds,
    *,
    clock: Clock,
    batch_size: int = 1,
    meter: ProcessPeak | None = None,
    on_progress: Progress | None = None,
) -> OverheadRun:
    """Measure a target with its guards off and on."""
    # Step 1.
    target = kept.target if isinstance(kept, Reloading) else kept
    check_facts(target)
    facts = {name: getattr(target, name) for name in ("kind", "device", "seq_len", "stride")}
    guards = tuple(target.guards)
    windows = name_windows(target)
    if batch_size > 1 and not isinstance(target, Batched):
        raise BadInputError(
            f"overhead target: batch_size {batch_size} needs evaluate_batch(windows), "
            f"which {type(target).__name__} does not have"
        )
    # Step 2.
    state = kept if isinstance(kept, Reloading) else Restoring(target)
    del target
    runner = _Runner(
        state, seeds, windows, clock=clock, batch_size=batch_size, meter=meter or ProcessPeak()
    )
    # Step 3.
    timed = pick_windows(len(windows))
    total = len(ORDER) * len(windows) + 4 * len(timed)

    def tick(done: int) -> None:
        if on_progress is not None:
            on_progress(done, total)

    passes = [runner.run_pass(arm, tick, number * len(windows)) for number, arm in enumerate(ORDER)]
    # Step 4.
    memory = {arm: runner.measure_memory(arm, passes) for arm in ORDER[:2]}
    # Step 5.
    timing, guard_runs = runner.time_arms(passes, timed, tick)
    if isinstance(timing, str):
        tick(total)
    return OverheadRun(
        **facts,
        guards=guards,
        seeds=seeds,
        snapshot_hash=runner.state_hash,
        windows=windows,
        passes=tuple(passes),
        memory=memory,
        installs_ms=tuple(runner.installs_ms),
        timing=timing,
        guard_runs=guard_runs,
    )


class _Runner:
    """A target, how its state is reset, and the hash that it must then have."""

    def __init__(
        self,
        state: Restoring | Reloading,
        seeds: PassSeeds,
        windows: Sequence[NamedWindow],
        *,
        clock: Clock,
        batch_size: int,
        meter: ProcessPeak,
    ) -> None:
        self._state = state
        self._seeds = seeds
        self._windows = windows
        self._clock = clock
        self._batch_size = batch_size
        self._meter = meter
        self.installs_ms: list[float] = []
        self.state_hash = self._take_fingerprint()
        self._touched = False
        self._is_fresh = True
        self._needs_restore = False
        self._reseed()
        self._evaluate("bare", self._windows[:batch_size])
        self._restore("warming up")

    def run_pass(self, arm: ArmName, tick: Callable[[int], None], done: int) -> PassRun:
        """Evaluate every window once with the guards off or on; ``done`` windows came before."""
        before = self._restore(f"the {arm} arm")
        if arm == "guarded" and not self._touched:
            # The first call is slower, because later ones find caches filled.
            self._prepare(arm)
            self._evaluate(arm, self._windows[: self._batch_size])
            before = self._restore("warming up")
        cannot_reset = self._meter.reset()
        self._prepare(arm)
        outcomes: list[PassOutcome] = []
        times: list[float] = []
        for batch in _split_batches(self._windows, self._batch_size):
            found, elapsed_ms = self._time_batch(arm, batch)
            outcomes.extend(found)
            times.extend([max(elapsed_ms / len(batch), SHORTEST_MS)] * len(batch))
            tick(done + len(outcomes))
        peak_rss = cannot_reset or self._meter.read()
        after = self._take_fingerprint()
        return PassRun(
            arm=arm,
            outcomes=tuple(outcomes),
            latency_ms=tuple(times),
            before=before,
            after=after,
            restored=self._restore(f"the {arm} arm"),
            peak_rss=peak_rss,
        )

    def measure_memory(self, arm: ArmName, passes: Sequence[PassRun]) -> ArmMemory:
        """Return the peak of the device, else of the process, else of Python's allocator.

        The bare peak is that of the first pass, before any guard could leave something behind;
        the guarded one is the larger of both passes.
        """
        peaks = [found.peak_rss for found in passes if found.arm == arm]
        known = [peak for peak in peaks if isinstance(peak, int)]
        rss: int | str = peaks[0]
        if arm == "guarded" and len(known) == len(peaks):
            rss = max(known)
        if isinstance(self._state.target, MemoryMeter):
            device = self._measure_device_peak(arm, self._state.target)
            if isinstance(device, int):
                return ArmMemory(device, "device", rss)
        if isinstance(rss, int):
            return ArmMemory(rss, "process", rss)
        return ArmMemory(self._measure_traced_peak(arm), "python", rss)

    def time_arms(
        self, passes: Sequence[PassRun], places: Sequence[int], tick: Callable[[int], None]
    ) -> tuple[tuple[TimedGroup, ...] | str, tuple[GuardCosts, ...]]:
        """Time both arms side by side, then each guard alone; or say why that cannot be done."""
        switch_ms = self._try_switching()
        if isinstance(switch_ms, str):
            return switch_ms, ()
        window_ms = statistics.median(ms for found in passes for ms in found.latency_ms)
        size = group_size(len(places), window_ms, switch_ms, self._batch_size)
        if isinstance(size, str):
            return size, ()
        groups = list(_split_batches(places, size))
        values: Values = {}
        done = len(ORDER) * len(self._windows)

        def count(windows: int) -> None:
            nonlocal done
            done += windows
            tick(done)

        self._restore("timing")
        self._reseed()
        evaluate_ms = self._make_evaluator(values, count)
        timed = time_side_by_side(("bare", "guarded"), groups, self._switch, evaluate_ms)
        if (place := _find_unguarded(passes, values["guarded"])) is not None:
            self._restore("timing")
            name = self._windows[place].window_id
            return f"the guards did not act on window {name} when the arms took turns", ()
        alone = self._time_guards(groups[:GUARD_GROUPS])
        self._restore("timing")
        return timed, alone

    def _time_guards(self, groups: Sequence[Sequence[int]]) -> tuple[GuardCosts, ...]:
        """Time each guard alone, where there are several and the target can switch on one."""
        guards = tuple(self._state.target.guards)
        if len(set(guards)) < max(2, len(guards)) or not isinstance(
            self._state.target, SingleGuards
        ):
            return ()
        arms = ("bare", *(GUARD_ARM + name for name in guards))
        values: Values = {}
        evaluate_ms = self._make_evaluator(values, lambda _windows: None)
        timed = time_side_by_side(arms, groups, self._switch, evaluate_ms)
        fastest = {arm: sum(min(group.times_ms[arm]) for group in timed) for arm in arms}
        return tuple(
            GuardCosts(
                name=arm.removeprefix(GUARD_ARM),
                windows=len(values[arm]),
                bare_ms=fastest["bare"],
                alone_ms=fastest[arm],
                shift=_average_shift(values["bare"], values[arm]),
            )
            for arm in arms[1:]
        )

    def _make_evaluator(
        self, values: Values, count: Callable[[int], None]
    ) -> Callable[[str, Sequence[int]], float]:
        """Return a function that times a group of windows and notes their outcomes."""

        def evaluate_ms(arm: str, group: Sequence[int]) -> float:
            spent = 0.0
            for batch in _split_batches(group, self._batch_size):
                found, elapsed = self._time_batch(arm, [self._windows[place] for place in batch])
                spent += elapsed
                values.setdefault(arm, {}).update(zip(batch, found, strict=True))
                count(len(batch))
            return spent

        return evaluate_ms

    def _try_switching(self) -> float | str:
        """Return how long a switch takes, and find out whether the toggle alone undoes the guards.

        If it does not, every switch needs a restore; a target that is built again for each pass has
        none, so its arms cannot take turns.
        """
        self._needs_restore = False
        self._restore("timing")
        self._switch("guarded")
        self._evaluate("guarded", self._windows[: self._batch_size])
        self._switch("bare")
        self._needs_restore = self._take_fingerprint() != self.state_hash
        if self._needs_restore and not self._state.is_cheap:
            return "the toggle does not undo the guards, and building the target again is slow"
        return min(self._switch_ms() for _ in range(SWITCH_TRIES))

    def _switch_ms(self) -> float:
        started = self._clock()
        self._switch("guarded")
        self._switch("bare")
        return (self._clock() - started) * 1000 / 2

    def _switch(self, arm: str) -> None:
        """Switch to an arm during timing; the hash of the state is not computed."""
        self._is_fresh = False
        if self._needs_restore:
            self._state.bring_back(is_touched=True)
        else:
            self._toggle(guarded=False)
        if arm == "guarded":
            self._toggle(guarded=True)
        elif arm.startswith(GUARD_ARM) and isinstance(self._state.target, SingleGuards):
            name = arm.removeprefix(GUARD_ARM)
            with name_target_errors(f"toggle_one({name!r})"):
                self._state.target.toggle_one(name)

    def _measure_device_peak(self, arm: ArmName, target: MemoryMeter) -> int | str:
        """Return the peak of the device over a few windows, or why it is unknown."""
        self._restore(f"the memory pass of the {arm} arm")
        self._prepare(arm)
        with name_target_errors("start_memory()"):
            target.start_memory()
        self._evaluate_some(arm)
        with name_target_errors("peak_memory()"):
            return check_memory(target.peak_memory())

    def _measure_traced_peak(self, arm: ArmName) -> int:
        """Return the peak of Python's allocator over a few windows."""
        self._restore(f"the memory pass of the {arm} arm")
        self._prepare(arm)
        tracemalloc.start()
        try:
            self._evaluate_some(arm)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    def _evaluate_some(self, arm: ArmName) -> None:
        for batch in _split_batches(self._windows[:MEMORY_WINDOWS], self._batch_size):
            self._evaluate(arm, batch)

    def _prepare(self, arm: ArmName) -> None:
        self._reseed()
        if arm == "bare" and not self._touched:
            return
        self._is_fresh = False
        self._touched = True
        started = self._clock()
        self._toggle(guarded=arm == "guarded")
        if arm == "guarded":
            self.installs_ms.append(max((self._clock() - started) * 1000, SHORTEST_MS))

    def _toggle(self, *, guarded: bool) -> None:
        with name_target_errors(f"toggle(guarded={guarded})"):
            self._state.target.toggle(guarded=guarded)

    def _restore(self, around: str) -> str:
        if self._state.is_cheap or not self._is_fresh:
            self._state.bring_back(is_touched=self._touched)
            self._is_fresh = True
        found = self._take_fingerprint()
        if found != self.state_hash:
            raise IncomparableError(
                f"overhead target: {self._state.verb} around {around} did not bring the state "
                f"back: hash was {self.state_hash}, is {found}; a guard that is removed must undo "
                "all it changed, on the model and on itself"
            )
        return found

    def _take_fingerprint(self) -> str:
        with name_target_errors("fingerprint()"):
            found = str(self._state.target.fingerprint())
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
        if isinstance(self._state.target, Reseedable):
            with name_target_errors("reseed()"):
                self._state.target.reseed(seeds)

    def _time_batch(
        self, arm: str, batch: Sequence[NamedWindow]
    ) -> tuple[list[PassOutcome], float]:
        """Return the outcomes of a batch of windows, and the milliseconds that they took."""
        started = self._clock()
        found = self._evaluate(arm, batch)
        elapsed_ms = (self._clock() - started) * 1000.0
        kind = self._state.target.kind
        return [
            check_outcome(kind, outcome, f"{window.window_id} in the {arm} arm")
            for window, outcome in zip(batch, found, strict=True)
        ], elapsed_ms

    def _evaluate(self, arm: str, batch: Sequence[NamedWindow]) -> Sequence[PassOutcome]:
        self._is_fresh = False
        target = self._state.target
        if self._batch_size > 1 and isinstance(target, Batched):
            place = f"{batch[0].window_id} to {batch[-1].window_id} in the {arm} arm"
            with name_target_errors(f"evaluate_batch() of windows {place}"):
                found = target.evaluate_batch([window.window for window in batch])
            return check_outcomes(found, len(batch), place)
        (window,) = batch
        with name_target_errors(f"evaluate() of window {window.window_id} in the {arm} arm"):
            return [target.evaluate(window.window)]


def _split_batches(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]


def _find_unguarded(passes: Sequence[PassRun], found: dict[int, PassOutcome]) -> int | None:
    """Return a window that the guards change in a pass but not when the arms took turns."""
    bare, guarded = passes[0].outcomes, passes[1].outcomes
    return next(
        (place for place, one in found.items() if one == bare[place] != guarded[place]), None
    )


def _average_shift(bare: dict[int, PassOutcome], alone: dict[int, PassOutcome]) -> float | None:
    """Return the mean increase of the loss, or the drop of accuracy, over the windows of both."""
    weight = shift = 0.0
    for place, before in bare.items():
        after = alone[place]
        if isinstance(before, Loss) and isinstance(after, Loss):
            weight += before.tokens
            shift += before.tokens * (after.loss - before.loss)
        elif isinstance(before, AccuracyCounts) and isinstance(after, AccuracyCounts):
            weight += before.total
            shift += before.correct - after.correct
    return shift / weight if weight and math.isfinite(shift) else None
