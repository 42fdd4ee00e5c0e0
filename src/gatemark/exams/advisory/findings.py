"""Everything that was found, put together once: numbers by lane, runs, times, other lanes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gatemark.core.measurement import Measurement, measured, unmeasured
from gatemark.core.policy import Rule
from gatemark.exams.advisory.categories import lane_name
from gatemark.exams.advisory.facts import LaneKey, Violation
from gatemark.exams.advisory.latency import Times, gathered
from gatemark.exams.advisory.masked_names import ShownNames
from gatemark.exams.advisory.numbers import (
    WORSE_UP,
    Number,
    case_number,
    group_numbers,
    guarded,
    judged,
    latency_numbers,
)
from gatemark.exams.advisory.policy import AdvisoryPolicy
from gatemark.exams.advisory.rules import lane_rules
from gatemark.exams.advisory.stability import (
    LaneBuckets,
    PastRun,
    comparable_history,
    inputs_number,
    runs_of,
    shift_number,
)
from gatemark.exams.advisory.state import AdvisoryExamState, first_violations
from gatemark.exams.advisory.tally import ALL, Counts, Tally

SHOWN_VIOLATIONS = 100
OTHER_LANES_BELOW = "other_lanes_below_count"

NumberKey = tuple[str, str | None]


class OtherLane(NamedTuple):
    """How a lane that the policy does not name fares by the default bounds: rules by their end."""

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
    tally: Tally
    numbers: dict[NumberKey, Number]
    lanes: tuple[str, ...]
    times: AllTimes
    runs: dict[str, LaneBuckets]
    past_runs: tuple[PastRun, ...]
    other_fixture_runs: int
    fixture_sets: tuple[str, ...]
    other_lanes: dict[str, OtherLane]
    violations: list[Violation]
    violation_counts: dict[tuple[str, str], int]

    def counts(self, *group: str) -> Counts:
        """The counts of a group; empty when it has no records."""
        return self.tally.get(group, {})

    def number(self, name: str, lane: str | None = None) -> Measurement:
        """A measurement as it was found, whatever was lost."""
        return self.numbers[name, lane].measurement

    def guarded(self, rules: Mapping[NumberKey, list[Rule]]) -> tuple[Measurement, ...]:
        """All measurements, without those values that lost records could turn."""
        return tuple(
            guarded(number, rules.get(key, []), self.lost) for key, number in self.numbers.items()
        )


def found_in(
    state: AdvisoryExamState,
    tally: Tally,
    history: Sequence[PastRun],
    policy: AdvisoryPolicy,
    names: ShownNames,
    *,
    lost: int,
    digests: frozenset[str],
) -> Findings:
    """Put together what a settled state holds."""
    tally = names.tally(tally)
    lanes = tuple(sorted(group[1] for group in tally if group[0] == "lane"))
    fixture_sets = tuple(sorted(group[1] for group in tally if group[0] == "set" and group[1]))
    times = _all_times(state, names, lanes)
    runs = runs_of(tally)
    past, strangers = comparable_history(history, runs, fixture_sets, digests)
    numbers = _numbers(tally, times, lost)
    for lane in lanes:
        spread = [
            *(run.lanes.get(lane, {}) for run in past),
            *(run.get(lane, {}) for run in runs.values()),
        ]
        numbers["bucket_shift", lane] = shift_number(
            lane, spread, policy.stability, lost, same_inputs=bool(fixture_sets)
        )
        numbers["comparable_inputs", lane] = inputs_number(lane, tally, lost)
    others = _other_lanes(policy, lanes, numbers)
    numbers[OTHER_LANES_BELOW, None] = _other_lanes_number(others, len(lanes), lost)
    return Findings(
        policy=policy,
        lost=lost,
        tally=tally,
        numbers=numbers,
        lanes=lanes,
        times=times,
        runs=runs,
        past_runs=tuple(past),
        other_fixture_runs=strangers,
        fixture_sets=fixture_sets,
        other_lanes=others,
        violations=first_violations(state, SHOWN_VIOLATIONS),
        violation_counts=dict(sorted(state.violation_counts.items())),
    )


def _all_times(state: AdvisoryExamState, names: ShownNames, lanes: Sequence[str]) -> AllTimes:
    shown = [lane_name(*names.key(key)) for key in state.lanes]
    keys: list[LaneKey] = [(lane.split("/")[0], lane.split("/")[1]) for lane in lanes]

    def together(chosen: Sequence[str]) -> Times:
        numbers = [number for number, lane in enumerate(shown) if lane in chosen]
        return gathered(numbers, state.times_by_lane, state.sketches)

    services = sorted({service for _, service in keys})
    classes = sorted({input_class for input_class, _ in keys})
    return AllTimes(
        all=together(lanes),
        lanes={lane: together([lane]) for lane in lanes},
        services={
            name: together([lane_name(*key) for key in keys if key[1] == name]) for name in services
        },
        classes={
            name: together([lane_name(*key) for key in keys if key[0] == name]) for name in classes
        },
    )


def _numbers(tally: Tally, times: AllTimes, lost: int) -> dict[NumberKey, Number]:
    everything = tally.get(ALL, {})
    found = [
        *group_numbers(everything, lost),
        *latency_numbers(times.all, everything.get("untimed", 0), lost),
    ]
    for lane, own in times.lanes.items():
        counts = tally["lane", lane]
        found += group_numbers(counts, lost, lane)
        found.append(case_number(counts, lost, lane))
        found += latency_numbers(own, counts.get("untimed", 0), lost, lane)
    return {number.measurement.key: number for number in found}


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
    """How many lanes that nobody named stay below the default bounds."""
    broken = [lane for lane, found in others.items() if found.broken]
    unsure = [f"{lane} ({', '.join(found.open)})" for lane, found in others.items() if found.open]
    if not broken and (unsure or lost):
        why = (
            f"could not be judged: {'; '.join(unsure[:3])}"
            + (f" and {len(unsure) - 3} more" if len(unsure) > 3 else "")
            if unsure
            else f"{lost} lost records may be of any lane"
        )
        found = unmeasured(OTHER_LANES_BELOW, why, direction=WORSE_UP, n=lane_count, unit="count")
        return Number(found, 0, None)
    found = measured(
        OTHER_LANES_BELOW,
        len(broken),
        n=lane_count,
        direction=WORSE_UP,
        unit="count",
        caveats=tuple(f"{lane} breaks {', '.join(others[lane].broken)}" for lane in broken[:5]),
    )
    return Number(found, len(broken), len(broken))
