"""Everything found in the evidence under a policy: numbers by lane, times, runs, violations."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Final, NamedTuple

from gatemark.core.measurement import Measurement
from gatemark.core.policy import Rule
from gatemark.evidence.private_text import PrivateTextScan
from gatemark.plugins.advisory.counted_groups import CountedGroups
from gatemark.plugins.advisory.earlier_runs import Terms
from gatemark.plugins.advisory.exam_state import AdvisoryExamState, list_lanes
from gatemark.plugins.advisory.latency import AllTimes, group_times, measure_latency
from gatemark.plugins.advisory.measure_group import measure_cases, measure_group
from gatemark.plugins.advisory.other_lanes import OtherLane, count_other_lanes, judge_other_lanes
from gatemark.plugins.advisory.policy import AdvisoryPolicy, make_lane_name
from gatemark.plugins.advisory.ranged_number import (
    NumberKey,
    RangedNumber,
    guard_number,
)
from gatemark.plugins.advisory.run_history import RunHistory, measure_run_history
from gatemark.plugins.advisory.scored_runs import ScoredRuns, group_scored_runs
from gatemark.plugins.advisory.shown_names import choose_shown_names
from gatemark.plugins.advisory.violations import ViolatedField, Violation
from gatemark.plugins.advisory.wrong_records import WrongRecords, find_wrong_records

SHOWN_VIOLATIONS: Final = 100


class Findings(NamedTuple):
    """The findings in the evidence under a policy. Names are safe to show."""

    policy: AdvisoryPolicy
    lost: int
    counts: CountedGroups
    numbers: dict[NumberKey, RangedNumber]
    lanes: tuple[str, ...]
    times: AllTimes
    runs: ScoredRuns
    history: RunHistory
    public_names: dict[str, str]
    other_lanes: dict[str, OtherLane]
    violations: list[Violation]
    violation_counts: dict[ViolatedField, int]
    wrong: WrongRecords

    def get_measurement(self, name: str, lane: str | None = None) -> Measurement:
        """Return a measurement over the records that were not lost."""
        return self.numbers[name, lane].measurement

    def guard_measurements(self, rules: Iterable[Rule]) -> tuple[Measurement, ...]:
        """Return all measurements, without values that lost records could change."""
        by_key: dict[NumberKey, list[Rule]] = {}
        for rule in rules:
            by_key.setdefault((rule.metric, rule.scope), []).append(rule)
        return tuple(
            guard_number(number, by_key.get(key, []), self.lost)
            for key, number in self.numbers.items()
        )


def derive_findings(
    state: AdvisoryExamState,
    policy: AdvisoryPolicy,
    terms: Terms,
    scan: PrivateTextScan,
    *,
    lost: int,
) -> Findings:
    """Return the findings of a settled state whose labels are all defined."""
    shown = choose_shown_names(state, scan)
    shown_lanes = {
        lane: make_lane_name(*(shown.get(name, name) for name in lane.split("/")))
        for lane in list_lanes(state)
    }
    counts = CountedGroups(
        ((shown_lanes[kind.lane], kind, count) for kind, count in state.kinds.items()),
        policy,
    )
    for noted, count in state.cases.items():
        counts.count_case(shown_lanes[noted.lane], noted.case, count)
    lanes = tuple(sorted(counts.lanes))
    times = group_times(state, shown_lanes)
    runs = group_scored_runs(state, shown, shown_lanes)
    numbers = _measure_everything(counts, times, lost)
    history = measure_run_history(
        state,
        policy,
        terms,
        runs,
        lost,
        shown=shown,
        shown_lanes=shown_lanes,
        counted=numbers,
    )
    numbers |= history.numbers
    others = judge_other_lanes(policy, lanes, numbers, terms)
    numbers["other_lanes_below_count", None] = count_other_lanes(others, len(lanes), lost)
    return Findings(
        policy=policy,
        lost=lost,
        counts=counts,
        numbers=numbers,
        lanes=lanes,
        times=times,
        runs=runs,
        history=history,
        public_names=shown,
        other_lanes=others,
        violations=_list_first_violations(state),
        violation_counts=dict(sorted(state.violation_counts.items())),
        wrong=find_wrong_records(
            state, counts.scored, shown=shown, shown_lanes=shown_lanes, scan=scan
        ),
    )


def _measure_everything(
    counts: CountedGroups, times: AllTimes, lost: int
) -> dict[NumberKey, RangedNumber]:
    found = [
        *measure_group(counts.all, lost),
        *measure_latency(times.all, counts.all.untimed, lost),
    ]
    for lane, own in times.lanes.items():
        of_lane = counts.lanes[lane]
        found += measure_group(of_lane, lost, lane)
        found.append(measure_cases(of_lane, lost, lane))
        found += measure_latency(own, of_lane.untimed, lost, lane)
    return {number.measurement.key: number for number in found}


def _list_first_violations(state: AdvisoryExamState) -> list[Violation]:
    """Return the first violations in the order of the evidence."""
    ordered = (hit for shard in sorted(state.violations) for hit in state.violations[shard])
    return list(islice(ordered, SHOWN_VIOLATIONS))
