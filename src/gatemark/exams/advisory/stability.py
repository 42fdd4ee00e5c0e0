"""What several runs say together: how alike they spread over buckets, how many inputs they saw."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
import numpy as np

from gatemark.core.measurement import measured, unmeasured
from gatemark.exams.advisory.categories import BUCKETS, UNCERTAIN_BUCKETS
from gatemark.exams.advisory.numbers import BETTER_UP, WORSE_UP, Number
from gatemark.exams.advisory.policy import Stability
from gatemark.exams.advisory.state import REPLAYED
from gatemark.exams.advisory.tally import Tally
from gatemark.statistics.homogeneity import homogeneity, largest_shift

RUNS_MAX: Final = 20
OTHER_INPUTS_SHARE: Final = 0.5
"""Runs over inputs that differ are compared when the smallest has this share of the largest."""
SEED: Final = 20_260_606
NAME: Final = "bucket_shift"

LaneBuckets = dict[str, dict[str, int]]
"""Counts by lane and bucket."""


class PastRun(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The bucket counts of an earlier run, over which fixtures it went, and in which files."""

    run: str
    fixture_sets: tuple[str, ...]
    evidence: tuple[str, ...]
    lanes: LaneBuckets


def runs_of(tally: Tally) -> dict[str, LaneBuckets]:
    """The bucket counts of every run in the evidence; records without a run form one together."""
    runs: dict[str, LaneBuckets] = {}
    for group, counts in sorted(tally.items()):
        if group[0] == "run":
            _, run, lane = group
            buckets: dict[str, int] = {bucket: counts.get(bucket, 0) for bucket in BUCKETS}
            runs.setdefault(run, {})[lane] = buckets
    return runs


def inputs_number(lane: str, tally: Tally, lost: int) -> Number:
    """How many inputs of a lane were compared: asking again about one does not make it two.

    No more than the comparable records, and no more than the largest run has sure records.
    """
    name = "comparable_inputs"
    counts = tally["lane", lane]
    n = counts.get("records", 0)
    sure = [
        sum(
            count
            for bucket, count in buckets.items()
            if bucket.removeprefix(REPLAYED) not in UNCERTAIN_BUCKETS
        )
        for group, buckets in tally.items()
        if group[0] == "run" and group[2] == lane
    ]
    if not sure:
        why = "there are too many runs to tell them apart"
        return Number(unmeasured(name, why, direction=BETTER_UP, n=n, lane=lane), 0, None)
    inputs = min(counts.get("comparable", 0), max(sure))
    found = measured(name, inputs, n=n, direction=BETTER_UP, unit="count", lane=lane)
    return Number(found, inputs, inputs + lost)


def comparable_history(
    history: Sequence[PastRun],
    here: Mapping[str, LaneBuckets],
    fixture_sets: Sequence[str],
    digests: frozenset[str],
) -> tuple[list[PastRun], int]:
    """The earlier runs over the same fixtures, each once, and how many had to be left out.

    A run that is in the evidence itself, or a summary of that very evidence, is no earlier run.
    """
    kept: dict[str, PastRun] = {}
    strangers = 0
    for past in history:
        if sorted(past.fixture_sets) != sorted(fixture_sets):
            strangers += 1
        elif past.run not in here and digests.isdisjoint(past.evidence):
            kept[past.run] = past
    return [kept[run] for run in sorted(kept)], strangers


def shift_number(
    lane: str,
    runs: Sequence[Mapping[str, int]],
    rule: Stability,
    lost: int,
    *,
    same_inputs: bool,
) -> Number:
    """How far the run that is furthest from the others is away from them.

    A shift beyond the tolerance that may be chance is no measurement of instability, and none of
    stability either. Runs over the ``same_inputs`` have as many records each; where they do not,
    some are gone, and what is left cannot speak for stability. Other runs may differ in size, but
    not so that one is a mere sample of another.
    """
    table = [[run.get(bucket, 0) for bucket in BUCKETS] for run in runs if any(run.values())]
    table = table[-RUNS_MAX:]
    n = sum(map(sum, table))
    if len(table) < rule.runs_min:
        why = f"{len(table)} runs have records of this lane, needs {rule.runs_min}"
        return Number(unmeasured(NAME, why, direction=WORSE_UP, n=n, lane=lane), 0.0, 1.0)
    shift = largest_shift(table)
    if shift > rule.shift_max:
        test = homogeneity(table, np.random.default_rng(SEED))
        if test.p_value >= rule.alpha:
            why = (
                f"a shift of {shift:.4f} may be chance (p = {test.p_value:.3f} by {test.method}, "
                f"{len(table)} runs, n = {n})"
            )
            return Number(unmeasured(NAME, why, direction=WORSE_UP, n=n, lane=lane), 0.0, 1.0)
    least, most = min(map(sum, table)), max(map(sum, table))
    if shift <= rule.shift_max and least < most * (1 if same_inputs else OTHER_INPUTS_SHARE):
        why = f"runs have from {least} to {most} records of this lane: not all saw the same inputs"
        return Number(unmeasured(NAME, why, direction=WORSE_UP, n=n, lane=lane), 0.0, 1.0)
    found = measured(NAME, shift, n=n, direction=WORSE_UP, lane=lane)
    if not lost:
        return Number(found, shift, shift)
    # Lost records could have moved two distributions, or have been a run of their own.
    room = lost / (min(map(sum, table)) + lost / 2)
    return Number(found, max(0.0, shift - room), 1.0)
