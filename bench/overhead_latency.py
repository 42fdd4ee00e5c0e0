"""How often the interval of time covers 0 for guards that do nothing, on this machine as it is.

The target computes on one thread, its toggle does nothing, and both arms take turns as in
``gatemark overhead run``. The claim is about noise, so the more load there is, the better.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence

import numpy as np

from bench.measure import Line
from gatemark.plugins.overhead.records import MetricKind
from gatemark.plugins.overhead.targets.port import EvidenceWindow, Loss, PassSeeds
from gatemark.plugins.overhead.targets.runner import run_arms
from gatemark.plugins.overhead.time_overhead import compare_groups

RUNS = 100
WINDOWS = 200
SIZE = 10_000
COVERED = 93


class NoGuards:
    """A window is a tenth of a millisecond of arithmetic; the guards do nothing."""

    kind: MetricKind = "ppl_causal"
    device, seq_len, stride = "cpu", SIZE, SIZE
    guards: tuple[str, ...] = ("nothing",)

    def __init__(self) -> None:
        self._numbers = np.random.default_rng(5).normal(size=SIZE)

    def windows(self) -> Sequence[EvidenceWindow]:
        return [EvidenceWindow(n.to_bytes(4, "big"), n) for n in range(WINDOWS)]

    def snapshot(self) -> None:
        return None

    def restore(self, snapshot: None) -> None:
        pass

    def fingerprint(self) -> str:
        return "always the same"

    def toggle(self, *, guarded: bool) -> None:
        pass

    def evaluate(self, window: EvidenceWindow) -> Loss:
        return Loss(SIZE, 1 + float(np.tanh(self._numbers + window.data).mean()))


def lines() -> Iterator[Line]:
    """The share of runs whose interval covers 0, how wide it is, and how noisy the machine was."""
    covered, widths, noise = 0, [], []
    for _ in range(RUNS):
        run = run_arms(NoGuards(), PassSeeds(), clock=time.perf_counter)
        assert not isinstance(run.timing, str), run.timing
        bare, guarded = (
            [group.times_ms[arm] for group in run.timing] for arm in ("bare", "guarded")
        )
        _, interval, _ = compare_groups(bare, guarded, 0.95)
        assert interval is not None
        covered += interval.low <= 0 <= interval.high
        widths.append(interval.high - interval.low)
        times = [ms for found in run.passes for ms in found.latency_ms]
        noise.append(statistics.quantiles(times, n=20)[-1] / statistics.median(times))
    yield Line("noise: p95 / median of the time of a window", statistics.median(noise), "x")
    yield Line("width of the interval, median", 100 * statistics.median(widths), "%")
    yield Line(f"guards that do nothing, {RUNS} runs: 0 is covered", covered, "%", at_least=COVERED)
