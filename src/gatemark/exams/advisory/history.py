"""Runs over the inputs of a lane, now and earlier: which compare, are stable, and failed.

Earlier runs are derived from their records; a summary is not evidence.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec
import numpy as np

from gatemark.core.errors import BadInputError
from gatemark.core.reason import ReasonKind
from gatemark.exams.advisory.buckets import BUCKETS
from gatemark.exams.advisory.category import UNCERTAIN_BUCKETS
from gatemark.exams.advisory.inputs import (
    InputTable,
    PinnedFixtures,
    RunInputs,
    compare_with_pinned,
    derive_lane_inputs,
    explain_unequal_runs,
    find_input_problems,
    join_tables,
)
from gatemark.exams.advisory.metrics import METRIC_BY_NAME
from gatemark.exams.advisory.numbers import NumberKey, RangedNumber
from gatemark.exams.advisory.policy import AdvisoryPolicy, Stability
from gatemark.exams.advisory.state import AdvisoryExamState
from gatemark.statistics.homogeneity import assess_homogeneity, largest_shift

RUNS_MAX: Final = 20
OTHER_INPUTS_SHARE: Final = 0.5
"""Runs over inputs that differ are compared when the smallest has this share of the largest."""
SHIFT_SEED: Final = 20_260_606
TOO_MANY_RUNS: Final = ReasonKind(
    "too_many_runs", "there are too many runs or inputs to tell them apart"
)
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

LaneBuckets = dict[str, dict[str, int]]
"""Counts by lane and bucket."""


class EarlierRun(NamedTuple):
    """An earlier run, derived from its records. ``broken`` has the rules it broke, by lane.

    ``high_false_positives`` counts false positives of high severity by lane, in the first run of a
    file for all of its runs. ``began`` is its first second, in UTC. Lanes have the names that may
    be shown. ``shared`` counts the records of its file, called ``name``, that are being scored as
    well.
    """

    run: str
    began: str
    evidence: str
    lanes: LaneBuckets
    inputs: InputTable
    broken: Mapping[str, tuple[str, ...]]
    name: str = ""
    shared: int = 0
    high_false_positives: Mapping[str, int] | None = None


class Terms(NamedTuple):
    """What a state is judged by besides the policy: earlier runs and pinned fixtures."""

    earlier: Sequence[EarlierRun] = ()
    fixtures: PinnedFixtures | None = None


class ScoredRuns(NamedTuple):
    """The runs that are scored: bucket counts and first seconds by run, certain records by lane.

    Records without a run form one together. A replayed recording counts among the certain records
    only: it was not executed again. Names are safe to show.
    """

    buckets: dict[str, LaneBuckets]
    certain: dict[str, dict[str, int]]
    began: dict[str, str]
    fixture_sets: tuple[str, ...]


class RunNumbers(NamedTuple):
    """The numbers on runs and inputs, the earlier runs behind them, and what blocks each lane."""

    numbers: dict[NumberKey, RangedNumber]
    past_runs: tuple[str, ...]
    held_by: Mapping[str, dict[str, list[str]]] = {}


def group_scored_runs(
    state: AdvisoryExamState, shown: Mapping[str, str], shown_lanes: Mapping[str, str]
) -> ScoredRuns:
    """Return the runs of a state under names that may be shown."""
    buckets: dict[str, LaneBuckets] = {}
    certain: dict[str, dict[str, int]] = {}
    named = [
        ((shown.get(key.run, key.run), shown_lanes[key.lane]), key, count)
        for key, count in state.runs.items()
    ]
    for (run, lane), key, count in sorted(named, key=lambda row: row[0]):
        by_bucket = buckets.setdefault(run, {}).setdefault(lane, dict.fromkeys(BUCKETS, 0))
        if not key.replayed:
            by_bucket[key.bucket] += count
        by_run = certain.setdefault(lane, {})
        by_run[run] = by_run.get(run, 0) + count * (key.bucket not in UNCERTAIN_BUCKETS)
    return ScoredRuns(
        buckets=buckets,
        certain=certain,
        began={shown.get(run, run): moment for run, moment in state.first_times.items()},
        fixture_sets=tuple(sorted(shown.get(name, name) for name in state.fixture_sets)),
    )


def _measure_shift(
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


def measure_runs(
    state: AdvisoryExamState,
    policy: AdvisoryPolicy,
    terms: Terms,
    runs: ScoredRuns,
    lost: int,
    *,
    shown: Mapping[str, str],
    shown_lanes: Mapping[str, str],
    counted: Mapping[NumberKey, RangedNumber],
) -> RunNumbers:
    """Return the numbers on runs and inputs.

    ``counted`` has the numbers of the scored records, to which some of earlier runs are added.
    """
    before = _list_runs_before(terms, runs)
    everything = join_tables([state.inputs, *(run.inputs for run in before)])
    numbers: dict[NumberKey, RangedNumber] = {}
    held_by: dict[str, dict[str, list[str]]] = {}
    for raw, lane in shown_lanes.items():
        problems = list(find_input_problems(everything, raw))
        history = _LaneHistory(state, policy, before, (raw, lane), shown)
        found, held_by[lane] = history.measure(runs, terms.fixtures, problems, lost)
        numbers.update({(name, lane): number for name, number in found.items()})
    numbers.update(_add_earlier_false_positives(counted, before, shown_lanes.values(), policy))
    return RunNumbers(numbers, tuple(run.run for run in before), held_by=held_by)


def _list_runs_before(terms: Terms, runs: ScoredRuns) -> list[EarlierRun]:
    """Return the earlier runs that are not scored now; none may share records with these."""
    before = [run for run in terms.earlier if run.run not in runs.buckets]
    for run in before:
        if run.shared:
            raise BadInputError(
                f"{run.name}: has {run.shared} records that are in the scored files too"
            )
    return before


def _add_earlier_false_positives(
    counted: Mapping[NumberKey, RangedNumber],
    before: Sequence[EarlierRun],
    lanes: Iterable[str],
    policy: AdvisoryPolicy,
) -> Iterator[tuple[NumberKey, RangedNumber]]:
    """Yield the false positives of high severity over the runs that are judged together."""
    name = "high_severity_false_positive_count"
    recent = before[-(policy.stability.clean_runs - 1) :] if policy.stability.clean_runs > 1 else ()
    for lane in (None, *lanes):
        earlier = sum(
            count
            for run in recent
            for own, count in (run.high_false_positives or {}).items()
            if lane in (None, own)
        )
        if not earlier:
            continue
        found, low, high = counted[name, lane]
        if found.value is not None:
            found = msgspec.structs.replace(
                found,
                value=found.value + earlier,
                caveats=(*found.caveats, f"{earlier} of them in earlier runs"),
            )
        yield (
            (name, lane),
            RangedNumber(found, low + earlier, None if high is None else high + earlier),
        )


class _LaneHistory:
    """The inputs of one lane, now and in earlier runs."""

    def __init__(
        self,
        state: AdvisoryExamState,
        policy: AdvisoryPolicy,
        before: Sequence[EarlierRun],
        lanes: tuple[str, str],
        shown: Mapping[str, str],
    ) -> None:
        raw, self.lane = lanes
        self.stability = policy.stability
        self.before = before
        self.full = state.too_many_inputs or state.too_many_runs
        self.now = derive_lane_inputs(state.inputs, raw, policy)
        self.by_run: dict[str, RunInputs] = {}
        for run in before:
            for inputs in derive_lane_inputs(run.inputs, raw, policy).by_run.values():
                self.by_run[run.run] = inputs
        self.by_run |= {shown.get(run, run): own for run, own in self.now.by_run.items()}

    def measure(
        self, runs: ScoredRuns, fixtures: PinnedFixtures | None, problems: list[str], lost: int
    ) -> tuple[dict[str, RangedNumber], dict[str, list[str]]]:
        """Return the numbers on inputs and earlier runs, and the blockers of the lane as text."""
        failed = self._list_failed_runs(runs)
        found = {
            "bucket_shift": self._measure_lane_shift(runs, lost),
            "comparable_inputs": self._count("comparable_inputs", self.now.comparable, lost),
            "input_conflict_count": self._count("input_conflict_count", len(problems), lost),
            "failed_run_count": self._count("failed_run_count", max(0, len(failed) - 1), 0),
        }
        held = {"inputs": problems, "history": failed}
        if self.now.real:
            held["comparable"] = [f"{self.now.real} inputs of a shadow do not count here"]
        if fixtures is not None:
            now = {run: own for run, own in self.by_run.items() if run in runs.buckets}
            count, texts = compare_with_pinned(now, fixtures, self.lane)
            name = "fixture_difference_count"
            found[name] = self._count(name, count, lost)
            held["fixtures"] = list(texts)
        return found, {name: texts for name, texts in held.items() if texts}

    def _count(self, name: str, count: int, lost: int) -> RangedNumber:
        metric = METRIC_BY_NAME[name]
        if self.full:
            return metric.without_value(TOO_MANY_RUNS(), lane=self.lane)
        n = sum(own.size for own in self.by_run.values())
        return metric.with_value(count, count, count + lost, n=n, lane=self.lane)

    def _measure_lane_shift(self, runs: ScoredRuns, lost: int) -> RangedNumber:
        lane = self.lane
        spread = {run.run: run.lanes.get(lane, {}) for run in self.before}
        spread |= {run: found.get(lane, {}) for run, found in runs.buckets.items()}
        used = {run: own for run, own in self.by_run.items() if any(spread.get(run, {}).values())}
        number = _measure_shift(lane, spread.values(), self.stability, lost)
        why = explain_unequal_runs(used) if len(used) > 1 else None
        if self.full or (number.measurement.value is not None and why is not None):
            return METRIC_BY_NAME["bucket_shift"].without_value(why or TOO_MANY_RUNS(), lane=lane)
        return number

    def _list_failed_runs(self, runs: ScoredRuns) -> list[str]:
        """Return the earlier runs that broke a rule, unless enough clean runs followed."""
        failed = [run for run in self.before if run.broken.get(self.lane)]
        if not failed:
            return []
        last = max(run.began for run in failed)
        times = [run.began for run in self.before if not run.broken.get(self.lane)]
        times += [runs.began.get(run, "") for run in runs.buckets]
        clean = sum(moment > last for moment in times)
        if clean >= self.stability.clean_runs:
            return []
        return [
            *(f"run {run.run} broke {', '.join(run.broken[self.lane])}" for run in failed),
            f"{clean} clean runs since then, needs {self.stability.clean_runs}",
        ]
