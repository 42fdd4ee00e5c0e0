"""Runs over the inputs of a lane, now and earlier: which compare, are stable, and failed.

Version 1 of the rules took earlier runs from summaries. Since version 2 they are derived from their
records.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec
import numpy as np

from gatemark.core.errors import BadInputError
from gatemark.core.measurement import unmeasured
from gatemark.exams.advisory.decision import BUCKETS
from gatemark.exams.advisory.inputs import (
    InputTable,
    PinnedFixtures,
    RunInputs,
    fixture_differences,
    joined_tables,
    lane_inputs,
    lane_problems,
    unequal_runs,
)
from gatemark.exams.advisory.metrics import METRIC, Counts, Number, NumberKey
from gatemark.exams.advisory.policy import (
    FIRST_RULES,
    UNCERTAIN_BUCKETS,
    AdvisoryPolicy,
    RulesVersion,
    Stability,
)
from gatemark.exams.advisory.state import AdvisoryExamState
from gatemark.statistics.homogeneity import homogeneity, largest_shift

RUNS_MAX: Final = 20
OTHER_INPUTS_SHARE: Final = 0.5
"""Runs over inputs that differ are compared when the smallest has this share of the largest."""
SEED: Final = 20_260_606
_TOO_MANY: Final = "there are too many runs or inputs to tell them apart"

LaneBuckets = dict[str, dict[str, int]]
"""Counts by lane and bucket."""


class PastRun(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The bucket counts of an earlier run, its fixtures, and its files."""

    run: str
    fixture_sets: tuple[str, ...]
    evidence: tuple[str, ...]
    lanes: LaneBuckets


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
    """What a state is judged by besides the policy: version, earlier runs, pinned fixtures."""

    version: RulesVersion = FIRST_RULES
    summaries: Sequence[PastRun] = ()
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

    numbers: dict[NumberKey, Number]
    past_runs: tuple[str, ...]
    left_out: int = 0
    held_by: Mapping[str, dict[str, list[str]]] = {}


def scored_runs(
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


def numbers_by_summaries(
    lanes: Mapping[str, Counts],
    policy: AdvisoryPolicy,
    history: Sequence[PastRun],
    runs: ScoredRuns,
    lost: int,
    *,
    digests: frozenset[str],
) -> RunNumbers:
    """Return the numbers on runs and inputs by version 1 of the rules."""
    past, left_out = _comparable(history, runs, digests)
    every = [*(run.lanes for run in past), *runs.buckets.values()]
    same = bool(runs.fixture_sets)
    numbers: dict[NumberKey, Number] = {}
    for lane, own in sorted(lanes.items()):
        spread = [run.get(lane, {}) for run in every]
        shift = _shift_number(lane, spread, policy.stability, lost, same_inputs=same)
        numbers["bucket_shift", lane] = shift
        certain = runs.certain.get(lane, {})
        numbers["comparable_inputs", lane] = _inputs_number(lane, own, certain, lost)
    return RunNumbers(numbers, tuple(run.run for run in past), left_out)


def _comparable(
    history: Sequence[PastRun], runs: ScoredRuns, digests: frozenset[str]
) -> tuple[list[PastRun], int]:
    """Return the earlier runs over the same fixtures, each once, and how many were left out.

    A run in the evidence itself, or a summary of that very evidence, is not an earlier run.
    """
    kept: dict[str, PastRun] = {}
    left_out = 0
    for past in history:
        if sorted(past.fixture_sets) != sorted(runs.fixture_sets):
            left_out += 1
        elif past.run not in runs.buckets and digests.isdisjoint(past.evidence):
            kept[past.run] = past
    return [kept[run] for run in sorted(kept)], left_out


def _inputs_number(lane: str, counts: Counts, certain: Mapping[str, int], lost: int) -> Number:
    """Return how many inputs of a lane were compared; asking again does not add one.

    No more than the comparable records, and no more than the certain records of the largest run.
    """
    metric = METRIC["comparable_inputs"]
    n = counts.records
    if not certain:
        # This reason has always had the default unit, and measurements are sealed, so it stays.
        why = "there are too many runs to tell them apart"
        missing = unmeasured(metric.name, why, direction=metric.direction, n=n, lane=lane)
        return Number(missing, 0, None)
    inputs = min(counts.parts["comparable_records"], max(certain.values()))
    return metric.measured(inputs, inputs, inputs + lost, n=n, lane=lane)


def _shift_number(
    lane: str,
    runs: Iterable[Mapping[str, int]],
    rule: Stability,
    lost: int,
    *,
    same_inputs: bool,
) -> Number:
    """Return how far the most distant run is from the others.

    A shift beyond the tolerance that may be chance measures neither instability nor stability. Runs
    over the ``same_inputs`` have the same number of records each; if not, some are missing, and the
    rest cannot show stability. Other runs may differ in size, but no run may be a mere sample of
    another.
    """
    metric = METRIC["bucket_shift"]
    table = [[run.get(bucket, 0) for bucket in BUCKETS] for run in runs if any(run.values())]
    table = table[-RUNS_MAX:]
    n = sum(map(sum, table))
    if len(table) < rule.runs_min:
        why = f"{len(table)} runs have records of this lane, needs {rule.runs_min}"
        return metric.unmeasured(why, n=n, lane=lane)
    shift = largest_shift(table)
    if shift > rule.shift_max:
        test = homogeneity(table, np.random.default_rng(SEED))
        if test.p_value >= rule.alpha:
            why = (
                f"a shift of {shift:.4f} may be chance (p = {test.p_value:.3f} by {test.method}, "
                f"{len(table)} runs, n = {n})"
            )
            return metric.unmeasured(why, n=n, lane=lane)
    least, most = min(map(sum, table)), max(map(sum, table))
    if shift <= rule.shift_max and least < most * (1 if same_inputs else OTHER_INPUTS_SHARE):
        why = f"runs have from {least} to {most} records of this lane: not all saw the same inputs"
        return metric.unmeasured(why, n=n, lane=lane)
    if not lost:
        return metric.measured(shift, shift, shift, n=n, lane=lane)
    # Lost records could have shifted two distributions, or have been a run of their own.
    room = lost / (least + lost / 2)
    return metric.measured(shift, max(0.0, shift - room), 1.0, n=n, lane=lane)


def numbers_by_records(
    state: AdvisoryExamState,
    policy: AdvisoryPolicy,
    terms: Terms,
    runs: ScoredRuns,
    lost: int,
    *,
    shown: Mapping[str, str],
    shown_lanes: Mapping[str, str],
    counted: Mapping[NumberKey, Number],
) -> RunNumbers:
    """Return the numbers on runs and inputs since version 2 of the rules.

    ``counted`` has the numbers of the scored records, to which some of earlier runs are added.
    """
    before = _runs_before(terms, runs)
    everything = joined_tables([state.inputs, *(run.inputs for run in before)])
    numbers: dict[NumberKey, Number] = {}
    held_by: dict[str, dict[str, list[str]]] = {}
    for raw, lane in shown_lanes.items():
        problems = list(lane_problems(everything, raw, terms.version))
        history = _LaneHistory(state, policy, before, (raw, lane), shown, version=terms.version)
        found, held_by[lane] = history.numbers(runs, terms.fixtures, problems, lost)
        numbers.update({(name, lane): number for name, number in found.items()})
    numbers.update(_with_earlier_false_positives(counted, before, shown_lanes.values(), policy))
    return RunNumbers(numbers, tuple(run.run for run in before), held_by=held_by)


def _runs_before(terms: Terms, runs: ScoredRuns) -> list[EarlierRun]:
    """Return the earlier runs that are not scored now; none may share records with these."""
    before = [run for run in terms.earlier if run.run not in runs.buckets]
    for run in before:
        if run.shared:
            raise BadInputError(
                f"{run.name}: has {run.shared} records that are in the scored files too"
            )
    return before


def _with_earlier_false_positives(
    counted: Mapping[NumberKey, Number],
    before: Sequence[EarlierRun],
    lanes: Iterable[str],
    policy: AdvisoryPolicy,
) -> Iterator[tuple[NumberKey, Number]]:
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
        yield (name, lane), Number(found, low + earlier, None if high is None else high + earlier)


class _LaneHistory:
    """The inputs of one lane, now and in earlier runs."""

    def __init__(
        self,
        state: AdvisoryExamState,
        policy: AdvisoryPolicy,
        before: Sequence[EarlierRun],
        lanes: tuple[str, str],
        shown: Mapping[str, str],
        *,
        version: int,
    ) -> None:
        raw, self.lane = lanes
        self.stability = policy.stability
        self.before = before
        self.full = state.too_many_inputs or state.too_many_runs
        self.now = lane_inputs(state.inputs, raw, policy, version)
        self.by_run: dict[str, RunInputs] = {}
        for run in before:
            for inputs in lane_inputs(run.inputs, raw, policy, version).by_run.values():
                self.by_run[run.run] = inputs
        self.by_run |= {shown.get(run, run): own for run, own in self.now.by_run.items()}

    def numbers(
        self, runs: ScoredRuns, fixtures: PinnedFixtures | None, problems: list[str], lost: int
    ) -> tuple[dict[str, Number], dict[str, list[str]]]:
        """Return the numbers on inputs and earlier runs, and the blockers of the lane as text."""
        failed = self._failed_runs(runs)
        found = {
            "bucket_shift": self._shift(runs, lost),
            "comparable_inputs": self._counted("comparable_inputs", self.now.comparable, lost),
            "input_conflict_count": self._counted("input_conflict_count", len(problems), lost),
            "failed_run_count": self._counted("failed_run_count", max(0, len(failed) - 1), 0),
        }
        held = {"inputs": problems, "history": failed}
        if self.now.real:
            held["comparable"] = [f"{self.now.real} inputs of a shadow do not count here"]
        if fixtures is not None:
            now = {run: own for run, own in self.by_run.items() if run in runs.buckets}
            count, texts = fixture_differences(now, fixtures, self.lane)
            name = "fixture_difference_count"
            found[name] = self._counted(name, count, lost)
            held["fixtures"] = list(texts)
        return found, {name: texts for name, texts in held.items() if texts}

    def _counted(self, name: str, count: int, lost: int) -> Number:
        metric = METRIC[name]
        if self.full:
            return metric.unmeasured(_TOO_MANY, lane=self.lane)
        n = sum(own.size for own in self.by_run.values())
        return metric.measured(count, count, count + lost, n=n, lane=self.lane)

    def _shift(self, runs: ScoredRuns, lost: int) -> Number:
        lane = self.lane
        spread = {run.run: run.lanes.get(lane, {}) for run in self.before}
        spread |= {run: found.get(lane, {}) for run, found in runs.buckets.items()}
        used = {run: own for run, own in self.by_run.items() if any(spread.get(run, {}).values())}
        number = _shift_number(lane, spread.values(), self.stability, lost, same_inputs=False)
        why = unequal_runs(used) if len(used) > 1 else None
        if self.full or (number.measurement.value is not None and why is not None):
            return METRIC["bucket_shift"].unmeasured(why or _TOO_MANY, lane=lane)
        return number

    def _failed_runs(self, runs: ScoredRuns) -> list[str]:
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
