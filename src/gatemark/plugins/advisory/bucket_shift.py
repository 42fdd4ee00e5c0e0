"""How far the distribution over confidence buckets of one run is from those of the others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np

from gatemark.core.reason import ReasonKind
from gatemark.plugins.advisory.confidence_buckets import BUCKETS
from gatemark.plugins.advisory.metrics import METRIC_BY_NAME
from gatemark.plugins.advisory.policy import Stability
from gatemark.plugins.advisory.ranged_number import RangedNumber
from gatemark.statistics.homogeneity import assess_homogeneity, largest_shift

RUNS_MAX: Final = 20
OTHER_INPUTS_SHARE: Final = 0.5
"""Runs over inputs that differ are compared when the smallest has this share of the largest."""
SHIFT_SEED: Final = 20_260_606
TOO_FEW_RUNS: Final = ReasonKind(
    "too_few_runs", "{runs} runs have records of this lane, needs {needed}"
)
SHIFT_MAY_BE_CHANCE: Final = ReasonKind(
    "shift_may_be_chance",
    "a shift of {shift:.4f} may be chance (p = {p:.3f} by {method}, {runs} runs, n = {n})",
)
RUNS_DIFFER_IN_SIZE: Final = ReasonKind(
    "runs_differ_in_size",
    "runs have from {least} to {most} records of this lane: not all saw the same inputs",
)


def measure_shift(
    lane: str,
    runs: Iterable[Mapping[str, int]],
    rule: Stability,
    lost: int,
) -> RangedNumber:
    """Return how far the most distant run is from the others.

    A shift beyond the tolerance that may be chance measures neither instability nor stability. Runs
    may differ in size, but no run may be a mere sample of another.
    """
    metric = METRIC_BY_NAME["bucket_shift"]
    table = [[run.get(bucket, 0) for bucket in BUCKETS] for run in runs if any(run.values())]
    table = table[-RUNS_MAX:]
    n = sum(map(sum, table))
    if len(table) < rule.runs_min:
        why = TOO_FEW_RUNS(runs=len(table), needed=rule.runs_min)
        return metric.without_value(why, n=n, lane=lane)
    shift = largest_shift(table)
    if shift > rule.shift_max:
        test = assess_homogeneity(table, np.random.default_rng(SHIFT_SEED))
        if test.p_value >= rule.alpha:
            why = SHIFT_MAY_BE_CHANCE(
                shift=shift, p=test.p_value, method=test.method, runs=len(table), n=n
            )
            return metric.without_value(why, n=n, lane=lane)
    least, most = min(map(sum, table)), max(map(sum, table))
    if shift <= rule.shift_max and least < most * OTHER_INPUTS_SHARE:
        why = RUNS_DIFFER_IN_SIZE(least=least, most=most)
        return metric.without_value(why, n=n, lane=lane)
    if not lost:
        return metric.with_value(shift, shift, shift, n=n, lane=lane)
    # Lost records could have shifted two distributions, or have been a run of their own.
    room = lost / (least + lost / 2)
    return metric.with_value(shift, max(0.0, shift - room), 1.0, n=n, lane=lane)
