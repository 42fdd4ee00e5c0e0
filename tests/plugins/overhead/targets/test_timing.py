"""Arms timed side by side: the order of turns, the size of groups, the interval under noise."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from gatemark.plugins.overhead.targets.passes import OverheadRun
from gatemark.plugins.overhead.targets.port import EvidenceWindow, Loss, PassSeeds
from gatemark.plugins.overhead.targets.runner import run_arms
from gatemark.plugins.overhead.targets.timing import group_size, pick_windows, time_side_by_side
from gatemark.plugins.overhead.time_overhead import compare_groups

SEEDS = PassSeeds()


def noise(rng: np.random.Generator, step: float) -> Iterator[tuple[float, float, float]]:
    """A move of the load, a share and a stall each time, drawn in blocks since that is faster."""
    while True:
        drawn = (rng.normal(0, step, 400), rng.random(400), rng.exponential(10, 400))
        yield from zip(*(part.tolist() for part in drawn), strict=True)


class NoisyMachine:
    """A clock under load that lasts: it drifts, wanders, and stalls now and then."""

    def __init__(self, seed: int, *, spread: float, memory: float, stalls: float) -> None:
        self._memory, self._stalls = memory, stalls
        step = spread * math.sqrt(1 - memory**2)
        self._noise = noise(np.random.default_rng(seed), step)
        self._load = 0.0
        self.now = 0.0

    def work(self, ms: float) -> None:
        """Let work of so many milliseconds pass, slowed down by the present load."""
        move, share, stall = next(self._noise)
        self._load = self._memory * self._load + move
        slow = math.exp(self._load) * (1 + self.now / 10)
        if share < self._stalls:
            slow += stall
        self.now += ms * slow / 1000


class Timed:
    """A target that takes two milliseconds per window, and ``cost`` more with its guards."""

    kind: Any = "ppl_causal"
    device = "cpu"
    seq_len = stride = 4
    guards: tuple[str, ...] = ("slow",)

    def __init__(self, machine: NoisyMachine, cost: float = 0.0, switch_ms: float = 0.0) -> None:
        self._machine, self._cost, self._switch_ms = machine, cost, switch_ms
        self._guarded = False
        self.turns: list[str] = []

    def windows(self) -> Sequence[EvidenceWindow]:
        return [EvidenceWindow(bytes([place]), place) for place in range(200)]

    def snapshot(self) -> None:
        return None

    def restore(self, snapshot: None) -> None:
        self._guarded = False

    def fingerprint(self) -> str:
        return "always the same"

    def toggle(self, *, guarded: bool) -> None:
        self._guarded = guarded
        self._machine.work(self._switch_ms)

    def evaluate(self, window: EvidenceWindow) -> Loss:
        self.turns.append("g" if self._guarded else "b")
        self._machine.work(2.0 * (1 + self._cost * self._guarded))
        return Loss(3, 1.0 + window.data + self._guarded / 1000)


def timed(machine: NoisyMachine, **more: float) -> tuple[Timed, OverheadRun]:
    target = Timed(machine, **more)
    return target, run_arms(target, SEEDS, clock=lambda: machine.now)


def quiet() -> NoisyMachine:
    return NoisyMachine(1, spread=0.0, memory=0.0, stalls=0.0)


def interval(run: OverheadRun) -> Any:
    assert not isinstance(run.timing, str)
    columns = ([group.times_ms[arm] for group in run.timing] for arm in ("bare", "guarded"))
    return compare_groups(*columns, 0.95)


MACHINES = [
    {"spread": spread, "memory": memory, "stalls": stalls}
    for spread in (0.1, 0.5)
    for memory in (0.0, 0.9, 0.999)
    for stalls in (0.0, 0.05)
]


def coverage(noise: Any, cost: float = 0.0, runs: int = 100) -> tuple[float, float]:
    """The share of simulated runs whose interval covers 0, and the share that covers the cost."""
    covered = found = 0
    for seed in range(runs):
        machine = NoisyMachine(seed, **noise)

        def evaluate_ms(arm: str, _group: Sequence[int], machine: Any = machine) -> float:
            before = machine.now
            machine.work(2.0 * (1 + cost * (arm == "guarded")))
            return float(1000 * (machine.now - before))

        arms, groups = ("bare", "guarded"), [[place] for place in range(200)]
        run = time_side_by_side(arms, groups, lambda _arm: None, evaluate_ms)
        columns = ([group.times_ms[arm] for group in run] for arm in arms)
        _, ends, _ = compare_groups(*columns, 0.95)
        assert ends is not None
        covered += ends.low <= 0 <= ends.high
        found += ends.low <= cost <= ends.high
    return covered / runs, found / runs


def test_guards_that_cost_no_time_are_seen_as_such_on_noisy_machines() -> None:
    shares = [coverage(noise)[0] for noise in MACHINES]
    assert min(shares) >= 0.90, shares
    assert sum(shares) / len(shares) >= 0.94, shares


def test_a_cost_in_time_is_found_and_told_apart_from_none() -> None:
    noise = {"spread": 0.1, "memory": 0.9, "stalls": 0.05}
    none, half = coverage(noise, cost=0.5)
    assert none == 0
    assert half >= 0.90


def test_arms_take_turns_and_every_other_group_begins_with_the_guards() -> None:
    target, run = timed(quiet(), cost=0.25)
    assert not isinstance(run.timing, str)
    assert [group.windows for group in run.timing] == [1] * 200
    assert "".join(target.turns[-16:]) == "bggbgbbgbggbgbbg"
    overhead, ends, reason = interval(run)
    assert overhead == pytest.approx(0.25, abs=0.002)
    assert (ends.method, reason) == ("t over 20 blocks of time", None)
    assert ends.low == pytest.approx(overhead)
    assert ends.high == pytest.approx(overhead)


def test_the_dearer_a_switch_the_larger_the_groups() -> None:
    _, run = timed(quiet(), switch_ms=4.0)
    assert not isinstance(run.timing, str)
    # A switch is off and on, and the machine slows down a little.
    assert {group.windows for group in run.timing} <= {2, 3, 4}
    assert group_size(200, 2.0, 0.1, 1) == 1
    assert group_size(200, 2.0, 7.0, 1) == 4
    assert group_size(200, 2.0, 9.0, 4) == 4
    assert group_size(200, 2.0, 30.0, 1) == 5
    assert group_size(30, 2.0, 4.0, 1) == 1
    slow = group_size(200, 2.0, 1_000.0, 1)
    assert isinstance(slow, str)
    assert "too slow to time the arms side by side" in slow


def test_slow_switching_leaves_a_reason_and_no_times() -> None:
    _, run = timed(quiet(), switch_ms=5_000.0)
    assert isinstance(run.timing, str)
    assert "switching the guards takes" in run.timing


def test_many_windows_are_timed_in_part() -> None:
    assert pick_windows(3) == [0, 1, 2]
    picked = pick_windows(1_000)
    assert (len(picked), picked[:3], picked[-1]) == (400, [0, 2, 5], 997)


def test_few_groups_have_no_interval() -> None:
    _, ends, reason = compare_groups([(1.0, 2.0)] * 7, [(1.0, 1.0)] * 7, 0.95)
    assert (ends, reason) == (None, "7 timed groups of windows are too few for an interval")


def test_guards_that_stay_off_when_arms_take_turns_leave_the_time_unknown() -> None:
    class Tired(Timed):
        switched = 0

        def toggle(self, *, guarded: bool) -> None:
            self.switched += guarded
            super().toggle(guarded=guarded and self.switched < 10)

    run = run_arms(Tired(quiet()), SEEDS, clock=quiet().__dict__.__len__)
    assert isinstance(run.timing, str)
    assert "the guards did not act on window w000" in run.timing
