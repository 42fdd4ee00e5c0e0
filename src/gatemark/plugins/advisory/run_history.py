"""The runs of a lane, now and earlier, taken together: inputs, stability and failed runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from gatemark.core.reason import ReasonKind
from gatemark.plugins.advisory.bucket_shift import measure_shift
from gatemark.plugins.advisory.earlier_runs import (
    EarlierRun,
    Terms,
    add_earlier_false_positives,
    list_failed_runs,
    list_runs_before,
)
from gatemark.plugins.advisory.exam_state import AdvisoryExamState
from gatemark.plugins.advisory.input_conflicts import find_input_problems
from gatemark.plugins.advisory.input_rows import join_tables
from gatemark.plugins.advisory.lane_inputs import (
    RunInputs,
    derive_lane_inputs,
    explain_unequal_runs,
)
from gatemark.plugins.advisory.metrics import METRIC_BY_NAME
from gatemark.plugins.advisory.pinned_fixtures import PinnedFixtures, compare_with_pinned
from gatemark.plugins.advisory.policy import AdvisoryPolicy
from gatemark.plugins.advisory.ranged_number import NumberKey, RangedNumber
from gatemark.plugins.advisory.scored_runs import ScoredRuns

TOO_MANY_RUNS: Final = ReasonKind(
    "too_many_runs", "there are too many runs or inputs to tell them apart"
)


class RunHistory(NamedTuple):
    """The numbers on runs and inputs, the earlier runs behind them, and what blocks each lane."""

    numbers: dict[NumberKey, RangedNumber]
    past_runs: tuple[str, ...]
    held_by: Mapping[str, dict[str, list[str]]] = {}


def measure_run_history(
    state: AdvisoryExamState,
    policy: AdvisoryPolicy,
    terms: Terms,
    runs: ScoredRuns,
    lost: int,
    *,
    shown: Mapping[str, str],
    shown_lanes: Mapping[str, str],
    counted: Mapping[NumberKey, RangedNumber],
) -> RunHistory:
    """Return the numbers on runs and inputs.

    ``counted`` has the numbers of the scored records, to which some of earlier runs are added.
    """
    before = list_runs_before(terms, runs)
    everything = join_tables([state.inputs, *(run.inputs for run in before)])
    numbers: dict[NumberKey, RangedNumber] = {}
    held_by: dict[str, dict[str, list[str]]] = {}
    for raw, lane in shown_lanes.items():
        problems = list(find_input_problems(everything, raw))
        history = _LaneHistory(state, policy, before, (raw, lane), shown)
        found, held_by[lane] = history.measure(runs, terms.fixtures, problems, lost)
        numbers.update({(name, lane): number for name, number in found.items()})
    numbers.update(add_earlier_false_positives(counted, before, shown_lanes.values(), policy))
    return RunHistory(numbers, tuple(run.run for run in before), held_by=held_by)


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
        failed = list_failed_runs(self.before, runs, self.lane, self.stability)
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
        number = measure_shift(lane, spread.values(), self.stability, lost)
        why = explain_unequal_runs(used) if len(used) > 1 else None
        if self.full or (number.measurement.value is not None and why is not None):
            return METRIC_BY_NAME["bucket_shift"].without_value(why or TOO_MANY_RUNS(), lane=lane)
        return number
