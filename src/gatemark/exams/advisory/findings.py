"""Everything found in the evidence under a policy: numbers by lane, runs, times, other lanes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec
import numpy as np

from gatemark.core.measurement import Measurement, unmeasured
from gatemark.core.policy import Rule
from gatemark.evidence.hygiene import PrivateTextScan
from gatemark.exams.advisory.categories import UNCERTAIN_BUCKETS, lane_name
from gatemark.exams.advisory.decision import BUCKETS
from gatemark.exams.advisory.measure import (
    AdvisoryExamState,
    Times,
    ViolatedField,
    Violation,
    first_violations,
    times_of,
)
from gatemark.exams.advisory.metrics import (
    METRIC,
    CountedGroups,
    Counts,
    Number,
    case_number,
    group_numbers,
    guarded,
    judged,
)
from gatemark.exams.advisory.policy import AdvisoryPolicy, Stability, lane_rules
from gatemark.statistics.homogeneity import homogeneity, largest_shift

SHOWN_VIOLATIONS: Final = 100
RUNS_MAX: Final = 20
OTHER_INPUTS_SHARE: Final = 0.5
"""Runs over inputs that differ are compared when the smallest has this share of the largest."""
SEED: Final = 20_260_606

NumberKey = tuple[str, str | None]
LaneBuckets = dict[str, dict[str, int]]
"""Counts by lane and bucket."""


class PastRun(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The bucket counts of an earlier run, over which fixtures it went, and in which files."""

    run: str
    fixture_sets: tuple[str, ...]
    evidence: tuple[str, ...]
    lanes: LaneBuckets


class OtherLane(NamedTuple):
    """The default bounds that a lane breaks which the policy does not name, or leaves open."""

    broken: tuple[str, ...]
    open: tuple[str, ...]


class AllTimes(NamedTuple):
    """The times of everything, and by lane, service and input class."""

    all: Times
    lanes: dict[str, Times]
    services: dict[str, Times]
    classes: dict[str, Times]


class Findings(NamedTuple):
    """What the evidence holds under a policy. Names are fit to be shown."""

    policy: AdvisoryPolicy
    lost: int
    counts: CountedGroups
    numbers: dict[NumberKey, Number]
    lanes: tuple[str, ...]
    times: AllTimes
    runs: dict[str, LaneBuckets]
    past_runs: tuple[PastRun, ...]
    other_fixture_runs: int
    fixture_sets: tuple[str, ...]
    other_lanes: dict[str, OtherLane]
    violations: list[Violation]
    violation_counts: dict[ViolatedField, int]

    def number(self, name: str, lane: str | None = None) -> Measurement:
        """A measurement over the records that were not lost."""
        return self.numbers[name, lane].measurement

    def guarded(self, rules: Mapping[NumberKey, list[Rule]]) -> tuple[Measurement, ...]:
        """All measurements, without those values that lost records could turn."""
        return tuple(
            guarded(number, rules.get(key, []), self.lost) for key, number in self.numbers.items()
        )


def find(
    state: AdvisoryExamState,
    policy: AdvisoryPolicy,
    history: Sequence[PastRun],
    scan: PrivateTextScan,
    *,
    lost: int,
    digests: frozenset[str],
) -> Findings:
    """Put together what a settled state holds, none of whose labels is in doubt."""
    shown = _shown_names(state, scan)
    shown_lanes = {
        lane: lane_name(*(shown.get(name, name) for name in lane.split("/")))
        for lane in state.lanes
    }
    counts = CountedGroups(
        ((shown_lanes[kind.lane], kind, count) for kind, count in state.kinds.items()), policy
    )
    for noted, count in state.cases.items():
        counts.count_case(shown_lanes[noted.lane], noted.case, count)
    lanes = tuple(sorted(counts.lanes))
    fixture_sets = tuple(sorted(shown.get(name, name) for name in state.fixture_sets))
    times = _all_times(state, shown_lanes)
    runs, sure = _runs(state, shown, shown_lanes)
    past, other_runs = comparable_history(history, runs, fixture_sets, digests)
    numbers = _numbers(counts, times, lost)
    for lane in lanes:
        spread = [
            *(run.lanes.get(lane, {}) for run in past),
            *(run.get(lane, {}) for run in runs.values()),
        ]
        numbers["bucket_shift", lane] = shift_number(
            lane, spread, policy.stability, lost, same_inputs=bool(fixture_sets)
        )
        numbers["comparable_inputs", lane] = _inputs_number(
            lane, counts.lanes[lane], sure.get(lane, {}), lost
        )
    others = _other_lanes(policy, lanes, numbers)
    numbers["other_lanes_below_count", None] = _other_lanes_number(others, len(lanes), lost)
    return Findings(
        policy=policy,
        lost=lost,
        counts=counts,
        numbers=numbers,
        lanes=lanes,
        times=times,
        runs=runs,
        past_runs=tuple(past),
        other_fixture_runs=other_runs,
        fixture_sets=fixture_sets,
        other_lanes=others,
        violations=first_violations(state, SHOWN_VIOLATIONS),
        violation_counts=dict(sorted(state.violation_counts.items())),
    )


def _shown_names(state: AdvisoryExamState, scan: PrivateTextScan) -> dict[str, str]:
    """What to show in place of names that look private: a number for each."""
    names = {name for lane in state.lanes for name in lane.split("/")}
    names |= {*state.fixture_sets, *(key.run for key in state.runs)}
    ordered = sorted(names, key=lambda name: (len(name), name))
    withheld = [name for name in ordered if scan.kinds(name)]
    return {name: f"withheld-{number}" for number, name in enumerate(withheld, 1)}


def _all_times(state: AdvisoryExamState, shown_lanes: Mapping[str, str]) -> AllTimes:
    def together(part: Callable[[str], str]) -> dict[str, Times]:
        lanes: dict[str, list[str]] = {}
        for lane, shown in shown_lanes.items():
            lanes.setdefault(part(shown), []).append(lane)
        return {name: times_of(state, lanes[name]) for name in sorted(lanes)}

    return AllTimes(
        all=times_of(state, shown_lanes),
        lanes=together(lambda lane: lane),
        services=together(lambda lane: lane.split("/")[1]),
        classes=together(lambda lane: lane.split("/")[0]),
    )


def _runs(
    state: AdvisoryExamState, shown: Mapping[str, str], shown_lanes: Mapping[str, str]
) -> tuple[dict[str, LaneBuckets], dict[str, dict[str, int]]]:
    """The bucket counts of every run, and the number of its sure records by lane.

    Records without a run form one together. A recording that is played again counts among the
    sure records only: it was not executed again.
    """
    buckets: dict[str, LaneBuckets] = {}
    sure: dict[str, dict[str, int]] = {}
    named = [
        ((shown.get(key.run, key.run), shown_lanes[key.lane]), key, count)
        for key, count in state.runs.items()
    ]
    for (run, lane), key, count in sorted(named, key=lambda row: row[0]):
        by_bucket = buckets.setdefault(run, {}).setdefault(lane, dict.fromkeys(BUCKETS, 0))
        if not key.replayed:
            by_bucket[key.bucket] += count
        by_run = sure.setdefault(lane, {})
        by_run[run] = by_run.get(run, 0) + count * (key.bucket not in UNCERTAIN_BUCKETS)
    return buckets, sure


def _numbers(counts: CountedGroups, times: AllTimes, lost: int) -> dict[NumberKey, Number]:
    found = [
        *group_numbers(counts.all, lost),
        *_latency_numbers(times.all, counts.all.untimed, lost),
    ]
    for lane, own in times.lanes.items():
        of_lane = counts.lanes[lane]
        found += group_numbers(of_lane, lost, lane)
        found.append(case_number(of_lane, lost, lane))
        found += _latency_numbers(own, of_lane.untimed, lost, lane)
    return {number.measurement.key: number for number in found}


def _latency_numbers(
    times: Times, untimed: int, lost: int, lane: str | None = None
) -> Iterable[Number]:
    """The median and the 95th percentile of total time."""
    unknown = untimed + lost
    caveats = () if times.exact is not None else ("from a sketch, up to 0.1 % too high",)
    for percent in (50, 95):
        metric = METRIC[f"p{percent}_total_ms"]
        value = times.percentile(percent)
        low, high = times.bounds(percent, unknown) if unknown else (value or 0.0, value)
        excluded = {"unknown": unknown} if unknown else None
        found = (
            metric.unmeasured(metric.empty, lane=lane)
            if value is None
            else metric.measured(value, n=times.n, lane=lane, caveats=caveats, excluded=excluded)
        )
        yield Number(found, low, high)


def _inputs_number(lane: str, counts: Counts, sure: Mapping[str, int], lost: int) -> Number:
    """How many inputs of a lane were compared: asking again about one does not make it two.

    No more than the comparable records, and no more than the largest run has sure records.
    """
    metric = METRIC["comparable_inputs"]
    n = counts.records
    if not sure:
        # This reason has always had the default unit, and measurements are sealed: it stays.
        why = "there are too many runs to tell them apart"
        missing = unmeasured(metric.name, why, direction=metric.direction, n=n, lane=lane)
        return Number(missing, 0, None)
    inputs = min(counts.parts["comparable_records"], max(sure.values()))
    return Number(metric.measured(inputs, n=n, lane=lane), inputs, inputs + lost)


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
    other_runs = 0
    for past in history:
        if sorted(past.fixture_sets) != sorted(fixture_sets):
            other_runs += 1
        elif past.run not in here and digests.isdisjoint(past.evidence):
            kept[past.run] = past
    return [kept[run] for run in sorted(kept)], other_runs


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
    no run may be a mere sample of another.
    """
    metric = METRIC["bucket_shift"]
    table = [[run.get(bucket, 0) for bucket in BUCKETS] for run in runs if any(run.values())]
    table = table[-RUNS_MAX:]
    n = sum(map(sum, table))
    if len(table) < rule.runs_min:
        why = f"{len(table)} runs have records of this lane, needs {rule.runs_min}"
        return Number(metric.unmeasured(why, n=n, lane=lane), 0.0, 1.0)
    shift = largest_shift(table)
    if shift > rule.shift_max:
        test = homogeneity(table, np.random.default_rng(SEED))
        if test.p_value >= rule.alpha:
            why = (
                f"a shift of {shift:.4f} may be chance (p = {test.p_value:.3f} by {test.method}, "
                f"{len(table)} runs, n = {n})"
            )
            return Number(metric.unmeasured(why, n=n, lane=lane), 0.0, 1.0)
    least, most = min(map(sum, table)), max(map(sum, table))
    if shift <= rule.shift_max and least < most * (1 if same_inputs else OTHER_INPUTS_SHARE):
        why = f"runs have from {least} to {most} records of this lane: not all saw the same inputs"
        return Number(metric.unmeasured(why, n=n, lane=lane), 0.0, 1.0)
    found = metric.measured(shift, n=n, lane=lane)
    if not lost:
        return Number(found, shift, shift)
    # Lost records could have moved two distributions, or have been a run of their own.
    room = lost / (min(map(sum, table)) + lost / 2)
    return Number(found, max(0.0, shift - room), 1.0)


def _other_lanes(
    policy: AdvisoryPolicy, lanes: Sequence[str], numbers: Mapping[NumberKey, Number]
) -> dict[str, OtherLane]:
    others = {}
    for lane in lanes:
        if lane in policy.lanes:
            continue
        rules = lane_rules(lane, policy.lane_defaults, policy.stability.shift_max)
        answers = {
            rule.id.removeprefix(f"{lane}."): judged(rule, numbers.get((rule.metric, lane)))
            for rule in rules
        }
        others[lane] = OtherLane(
            broken=tuple(name for name, answer in answers.items() if answer is False),
            open=tuple(name for name, answer in answers.items() if answer is None),
        )
    return others


def _other_lanes_number(others: Mapping[str, OtherLane], lane_count: int, lost: int) -> Number:
    """How many lanes that the policy does not name break the default bounds."""
    metric = METRIC["other_lanes_below_count"]
    broken = [lane for lane, found in others.items() if found.broken]
    unsure = [f"{lane} ({', '.join(found.open)})" for lane, found in others.items() if found.open]
    if not broken and (unsure or lost):
        why = (
            f"could not be judged: {'; '.join(unsure[:3])}"
            + (f" and {len(unsure) - 3} more" if len(unsure) > 3 else "")
            if unsure
            else f"{lost} lost records may be of any lane"
        )
        return Number(metric.unmeasured(why, n=lane_count, lane=None), 0, None)
    caveats = tuple(f"{lane} breaks {', '.join(others[lane].broken)}" for lane in broken[:5])
    found = metric.measured(len(broken), n=lane_count, lane=None, caveats=caveats)
    return Number(found, len(broken), len(broken))
