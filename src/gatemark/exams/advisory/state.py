"""The state of the advisory fold: counted kinds, times by lane, and where violations stand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeVar

import msgspec
import numpy as np

from gatemark.exams.advisory.facts import Collected, Collector, KindTuple, LaneKey, Violation
from gatemark.exams.advisory.latency import EXACT_MAX, as_sketch

NAMES_MAX: Final = 2_000
"""So many runs or fixture sets are told apart; beyond, none are."""
VIOLATIONS_KEPT: Final = 200
REPLAYED: Final = "replayed."
"""Stands before the buckets of recordings that were played again."""

K = TypeVar("K")
LaneCounts = dict[int, int]


class AdvisoryExamState(msgspec.Struct):
    """``codes`` and ``times`` are the columns of records not yet counted, one of each per record.

    A code means something to the collector that made it, so columns are counted before a state
    leaves its process. Lanes go by their place in ``lanes``. ``runs`` counts buckets by run and
    lane, ``cases`` what notes say by lane.
    """

    shard: int
    codes: bytearray = msgspec.field(default_factory=bytearray)
    times: bytearray = msgspec.field(default_factory=bytearray)
    lanes: list[LaneKey] = []
    kinds: dict[KindTuple, LaneCounts] = {}
    runs: dict[str, dict[int, dict[str, int]]] = {}
    too_many_runs: bool = False
    cases: dict[int, dict[str, int]] = {}
    fixture_sets: dict[str, int] = {}
    too_many_sets: bool = False
    times_by_lane: dict[int, bytes] = {}
    sketches: dict[int, dict[int, int]] = {}
    violations: dict[int, list[Violation]] = {}
    violation_counts: dict[tuple[str, str], int] = {}


def note(state: AdvisoryExamState, found: Collected) -> None:
    """Add the facts of a batch to the columns."""
    state.codes += found.codes.tobytes()
    state.times += found.times.tobytes()
    if found.violations:
        kept = state.violations.setdefault(state.shard, [])
        kept.extend(found.violations[: VIOLATIONS_KEPT - len(kept)])
        for violation in found.violations:
            key = (violation.field.partition("[")[0], violation.kind)
            state.violation_counts[key] = state.violation_counts.get(key, 0) + 1


def settle(state: AdvisoryExamState, collector: Collector) -> AdvisoryExamState:
    """Count the columns, whose codes mean something to this collector; they are empty then."""
    if not state.codes:
        return state
    codes = np.frombuffer(state.codes, dtype=np.int64)
    times = np.frombuffer(state.times, dtype=np.float64)
    used, own_codes, counts = np.unique(codes, return_inverse=True, return_counts=True)
    meanings = [collector.meaning(code) for code in used.tolist()]
    numbers = _lane_numbers(state, [meaning.lane for meaning in meanings])
    timed = ~np.isnan(times)
    lane_of, own_times = np.array(numbers)[own_codes][timed], times[timed]
    for lane in np.unique(lane_of).tolist():
        data = own_times[lane_of == lane].tobytes()
        state.times_by_lane[lane] = state.times_by_lane.get(lane, b"") + data
    for lane, meaning, count in zip(numbers, meanings, counts.tolist(), strict=True):
        _count(state.kinds.setdefault(meaning.kind, {}), lane, count)
        if not state.too_many_runs:
            buckets = state.runs.setdefault(meaning.run, {}).setdefault(lane, {})
            # A recording that is played again was not executed again.
            played = REPLAYED if meaning.kind[0] == "offline_fixture" else ""
            _count(buckets, f"{played}{meaning.kind[7]}", count)
        if meaning.case is not None:
            _count(state.cases.setdefault(lane, {}), meaning.case, count)
        if meaning.fixture_set is not None and not state.too_many_sets:
            _count(state.fixture_sets, meaning.fixture_set, count)
    state.codes, state.times = bytearray(), bytearray()
    return bound(state)


def bound(state: AdvisoryExamState) -> AdvisoryExamState:
    """Keep a state small: sketches for too many times, no names for too many names."""
    if state.too_many_runs or len(state.runs) > NAMES_MAX:
        state.runs, state.too_many_runs = {}, True
    if state.too_many_sets or len(state.fixture_sets) > NAMES_MAX:
        state.fixture_sets, state.too_many_sets = {}, True
    count = sum(map(len, state.times_by_lane.values())) // 8
    if count > EXACT_MAX or state.sketches:
        for lane, data in state.times_by_lane.items():
            state.sketches[lane] = _summed(state.sketches.get(lane, {}), as_sketch(data))
        state.times_by_lane = {}
    return state


def merged(left: AdvisoryExamState, right: AdvisoryExamState) -> AdvisoryExamState:
    """One state for two disjoint sets of counted records."""
    total = AdvisoryExamState(
        shard=min(left.shard, right.shard),
        lanes=list(left.lanes),
        kinds={kind: dict(counts) for kind, counts in left.kinds.items()},
        runs={
            run: {lane: dict(buckets) for lane, buckets in lanes.items()}
            for run, lanes in left.runs.items()
        },
        too_many_runs=left.too_many_runs or right.too_many_runs,
        cases={lane: dict(counts) for lane, counts in left.cases.items()},
        fixture_sets=_summed(left.fixture_sets, right.fixture_sets),
        too_many_sets=left.too_many_sets or right.too_many_sets,
        times_by_lane=dict(left.times_by_lane),
        sketches=dict(left.sketches),
        violations={**left.violations, **right.violations},
        violation_counts=_summed(left.violation_counts, right.violation_counts),
    )
    numbers = _lane_numbers(total, right.lanes)
    for kind, counts in right.kinds.items():
        into = total.kinds.setdefault(kind, {})
        for lane, count in counts.items():
            _count(into, numbers[lane], count)
    for run, lanes in right.runs.items():
        by_lane = total.runs.setdefault(run, {})
        for lane, buckets in lanes.items():
            by_lane[numbers[lane]] = _summed(by_lane.get(numbers[lane], {}), buckets)
    for lane, cases in right.cases.items():
        total.cases[numbers[lane]] = _summed(total.cases.get(numbers[lane], {}), cases)
    for lane, data in right.times_by_lane.items():
        number = numbers[lane]
        total.times_by_lane[number] = total.times_by_lane.get(number, b"") + data
    for lane, sketch in right.sketches.items():
        total.sketches[numbers[lane]] = _summed(total.sketches.get(numbers[lane], {}), sketch)
    return bound(total)


def first_violations(state: AdvisoryExamState, limit: int) -> list[Violation]:
    """The first violations in the order of the evidence."""
    ordered = [hit for shard in sorted(state.violations) for hit in state.violations[shard]]
    return ordered[:limit]


def _lane_numbers(state: AdvisoryExamState, lanes: list[LaneKey]) -> list[int]:
    """Where each of these lanes stands in a state, which learns those it did not know."""
    places = {lane: number for number, lane in enumerate(state.lanes)}
    for lane in lanes:
        if lane not in places:
            places[lane] = len(state.lanes)
            state.lanes.append(lane)
    return [places[lane] for lane in lanes]


def _count(counts: dict[K, int], key: K, count: int) -> None:
    counts[key] = counts.get(key, 0) + count


def _summed(left: Mapping[K, int], right: Mapping[K, int]) -> dict[K, int]:
    total = dict(left)
    for key, count in right.items():
        total[key] = total.get(key, 0) + count
    return total
