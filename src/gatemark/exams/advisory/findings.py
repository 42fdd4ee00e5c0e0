"""Everything found in the evidence under a policy: numbers by lane, times, other lanes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple

import numpy as np

from gatemark.core.measurement import Measurement
from gatemark.core.policy import Rule
from gatemark.core.reason import ReasonKind
from gatemark.evidence.private_text import PrivateTextScan
from gatemark.exams.advisory.counts import CountedGroups, GroupCounts
from gatemark.exams.advisory.history import (
    RunNumbers,
    ScoredRuns,
    Terms,
    group_scored_runs,
    measure_runs,
)
from gatemark.exams.advisory.metrics import COUNT_METRICS, METRIC_BY_NAME, RATE_METRICS
from gatemark.exams.advisory.numbers import NumberKey, RangedNumber, guard_number, judge_number
from gatemark.exams.advisory.policy import AdvisoryPolicy, make_lane_name
from gatemark.exams.advisory.rules import (
    ASKED_OVERALL,
    build_global_rules,
    build_input_rules,
    build_lane_rules,
    build_overall_rules,
)
from gatemark.exams.advisory.state import AdvisoryExamState, ViolatedField, Violation, list_lanes
from gatemark.exams.advisory.wrong_records import WrongRecords, find_wrong_records
from gatemark.report.words import first_few
from gatemark.statistics.quantiles import Times

SHOWN_VIOLATIONS: Final = 100
LANES_OPEN: Final = ReasonKind("lanes_open", "could not be judged: {lanes}")
LOST_OF_ANY_LANE: Final = ReasonKind("lost_of_any_lane", "{lost} lost records may be of any lane")


def join_times(state: AdvisoryExamState, lanes: Iterable[str]) -> Times:
    """Return the times of several lanes together."""
    chosen = list(lanes)
    if any(lane in state.sketches for lane in chosen) or (
        state.sketches and not state.times_by_lane
    ):
        total: Counter[int] = Counter()
        for lane in chosen:
            total.update(state.sketches.get(lane, {}))
        return Times(None, total)
    parts = [np.frombuffer(state.times_by_lane.get(lane, b""), np.float64) for lane in chosen]
    return Times(np.sort(np.concatenate(parts)) if parts else np.zeros(0), {})


def measure_group(
    counts: GroupCounts, lost: int, lane: str | None = None
) -> Iterator[RangedNumber]:
    """Yield every count and rate of one group."""
    for metric in COUNT_METRICS:
        count = counts.parts[metric.name]
        yield metric.with_value(count, count, count + lost, n=counts.records, lane=lane)
    for metric in RATE_METRICS:
        count, n = counts.parts[metric.name], counts.wholes[metric.name]
        if n == 0 and metric.or_of is not None:
            n = counts.wholes[metric.or_of]
        if n == 0:
            yield metric.without_value(metric.empty(), lane=lane)
        else:
            low, high = count / (n + lost), (count + lost) / (n + lost)
            yield metric.with_value(count / n, low, high, n=n, lane=lane)


def measure_cases(counts: GroupCounts, lost: int, lane: str) -> RangedNumber:
    """Return how many of the four kinds of cases a lane lacks."""
    metric, lacking = METRIC_BY_NAME["missing_case_kind_count"], len(counts.missing_cases)
    return metric.with_value(lacking, max(0, lacking - lost), lacking, n=counts.records, lane=lane)


class OtherLane(NamedTuple):
    """The default limits broken by a lane that the policy does not name, or leaves open."""

    broken: list[str]
    open: list[str]


class AllTimes(NamedTuple):
    """All times, and the times by lane, service and input class."""

    all: Times
    lanes: dict[str, Times]
    services: dict[str, Times]
    classes: dict[str, Times]


class Findings(NamedTuple):
    """The findings in the evidence under a policy. Names are safe to show."""

    policy: AdvisoryPolicy
    lost: int
    counts: CountedGroups
    numbers: dict[NumberKey, RangedNumber]
    lanes: tuple[str, ...]
    times: AllTimes
    runs: ScoredRuns
    history: RunNumbers
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
    shown = _choose_shown_names(state, scan)
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
    times = _group_times(state, shown_lanes)
    runs = group_scored_runs(state, shown, shown_lanes)
    numbers = _measure_everything(counts, times, lost)
    history = measure_runs(
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
    others = _judge_other_lanes(policy, lanes, numbers, terms)
    numbers["other_lanes_below_count", None] = _count_other_lanes(others, len(lanes), lost)
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


def find_broken_rules(found: Findings, policy: AdvisoryPolicy) -> dict[str, tuple[str, ...]]:
    """Return the rules that the runs of some evidence break on their own, by lane.

    The numbers of inputs and runs are judged over all runs together and left out. Limits that
    apply only to all lanes together count for each of them.
    """
    together = [
        rule
        for rule in build_overall_rules(policy.overall)
        if rule.id.removeprefix("advisory.") in ASKED_OVERALL
    ]
    shared = [
        rule.id
        for rule in (*build_global_rules(), *together)
        if judge_number(rule, found.numbers.get((rule.metric, None))) is False
    ]
    broken = {}
    for lane in found.lanes:
        own = build_lane_rules(policy, lane)
        broken[lane] = (
            *shared,
            *(
                rule.id.removeprefix(f"{lane}.")
                for rule in own
                if rule.metric not in _OVER_ALL_RUNS
                and judge_number(rule, found.numbers.get((rule.metric, lane))) is False
            ),
        )
    return broken


_OVER_ALL_RUNS: Final = frozenset(("comparable_inputs", "missing_case_kind_count", "bucket_shift"))


def _choose_shown_names(state: AdvisoryExamState, scan: PrivateTextScan) -> dict[str, str]:
    """Return replacements for names that look private: a number for each."""
    names = {name for lane in list_lanes(state) for name in lane.split("/")}
    names |= {*state.fixture_sets, *(key.run for key in state.runs)}
    ordered = sorted(names, key=lambda name: (len(name), name))
    withheld = [name for name in ordered if scan.kinds(name)]
    return {name: f"withheld-{number}" for number, name in enumerate(withheld, 1)}


def _group_times(state: AdvisoryExamState, shown_lanes: Mapping[str, str]) -> AllTimes:
    def join_by(part: Callable[[str], str]) -> dict[str, Times]:
        lanes: dict[str, list[str]] = {}
        for lane, shown in shown_lanes.items():
            lanes.setdefault(part(shown), []).append(lane)
        return {name: join_times(state, lanes[name]) for name in sorted(lanes)}

    return AllTimes(
        all=join_times(state, shown_lanes),
        lanes=join_by(lambda lane: lane),
        services=join_by(lambda lane: lane.split("/")[1]),
        classes=join_by(lambda lane: lane.split("/")[0]),
    )


def _measure_everything(
    counts: CountedGroups, times: AllTimes, lost: int
) -> dict[NumberKey, RangedNumber]:
    found = [
        *measure_group(counts.all, lost),
        *_measure_latency(times.all, counts.all.untimed, lost),
    ]
    for lane, own in times.lanes.items():
        of_lane = counts.lanes[lane]
        found += measure_group(of_lane, lost, lane)
        found.append(measure_cases(of_lane, lost, lane))
        found += _measure_latency(own, of_lane.untimed, lost, lane)
    return {number.measurement.key: number for number in found}


def _measure_latency(
    times: Times, untimed: int, lost: int, lane: str | None = None
) -> Iterable[RangedNumber]:
    """Yield the median and the 95th percentile of total time."""
    unknown = untimed + lost
    caveats = () if times.exact is not None else ("from a sketch, up to 0.1 % too high",)
    for percent in (50, 95):
        metric = METRIC_BY_NAME[f"p{percent}_total_ms"]
        value = times.percentile(percent)
        if value is None:
            yield metric.without_value(metric.empty(), lane=lane)
            continue
        low, high = times.bounds(percent, unknown) if unknown else (value, value)
        excluded = {"unknown": unknown} if unknown else None
        yield metric.with_value(
            value, low, high, n=times.n, lane=lane, caveats=caveats, excluded=excluded
        )


def _judge_other_lanes(
    policy: AdvisoryPolicy,
    lanes: Sequence[str],
    numbers: Mapping[NumberKey, RangedNumber],
    terms: Terms,
) -> dict[str, OtherLane]:
    others = {}
    for lane in lanes:
        if lane in policy.lanes:
            continue
        rules = (
            *build_lane_rules(policy, lane),
            *build_input_rules(lane, pinned=terms.fixtures is not None),
        )
        answers = {
            rule.id.removeprefix(f"{lane}."): judge_number(rule, numbers.get((rule.metric, lane)))
            for rule in rules
        }
        others[lane] = OtherLane(
            broken=[name for name, answer in answers.items() if answer is False],
            open=[name for name, answer in answers.items() if answer is None],
        )
    return others


def _count_other_lanes(others: Mapping[str, OtherLane], lane_count: int, lost: int) -> RangedNumber:
    """Return how many lanes that the policy does not name break the default limits."""
    metric = METRIC_BY_NAME["other_lanes_below_count"]
    broken = [lane for lane, found in others.items() if found.broken]
    unsure = [f"{lane} ({', '.join(found.open)})" for lane, found in others.items() if found.open]
    if not broken and (unsure or lost):
        why = (
            LANES_OPEN.word(
                f"could not be judged: {first_few(unsure, 3, '; ')}",
                lanes="; ".join(unsure[:3]),
                count=len(unsure),
            )
            if unsure
            else LOST_OF_ANY_LANE(lost=lost)
        )
        return metric.without_value(why, n=lane_count, lane=None)
    caveats = tuple(f"{lane} breaks {', '.join(others[lane].broken)}" for lane in broken[:5])
    count = len(broken)
    return metric.with_value(count, count, count, n=lane_count, lane=None, caveats=caveats)


def _list_first_violations(state: AdvisoryExamState) -> list[Violation]:
    """Return the first violations in the order of the evidence."""
    ordered = (hit for shard in sorted(state.violations) for hit in state.violations[shard])
    return list(islice(ordered, SHOWN_VIOLATIONS))
