"""Merge the states of two disjoint sets of records, and limit the size of a state."""

from __future__ import annotations

from typing import Final

import numpy as np

from gatemark.core.fold import add_counts
from gatemark.plugins.advisory.exam_state import NAMED_PER_KIND, AdvisoryExamState, NamedRecord
from gatemark.plugins.advisory.input_rows import InputTable, join_tables
from gatemark.statistics.quantiles import sketch_values

EXACT_MAX: Final = 2_000_000
"""Up to this many times in all, percentiles are exact."""
NAMES_MAX: Final = 2_000
"""Up to this many runs or fixture sets are counted apart; beyond, none are."""
INPUTS_MAX: Final = 2_000_000
"""Up to this many inputs, counted once per run and kind, are told apart; beyond, none are."""


def keep_first_named(left: list[NamedRecord], right: list[NamedRecord]) -> list[NamedRecord]:
    """Return the first records of two lists in the order of the evidence."""
    if not left or not right:
        return left or right[:NAMED_PER_KIND]
    if len(left) == NAMED_PER_KIND and left[-1].shard < right[0].shard:
        return left
    ordered = sorted([*left, *right], key=lambda named: (named.shard, named.place))
    return ordered[:NAMED_PER_KIND]


def merge_states(left: AdvisoryExamState, right: AdvisoryExamState) -> AdvisoryExamState:
    """Return one state for two disjoint sets of counted records."""
    lanes = {*left.times_by_lane, *right.times_by_lane}
    sketched_lanes = {*left.sketches, *right.sketches}
    total = AdvisoryExamState(
        shard=min(left.shard, right.shard),
        records=left.records + right.records,
        kinds=add_counts(left.kinds, right.kinds),
        runs=add_counts(left.runs, right.runs),
        too_many_runs=left.too_many_runs or right.too_many_runs,
        cases=add_counts(left.cases, right.cases),
        fixture_sets=add_counts(left.fixture_sets, right.fixture_sets),
        too_many_sets=left.too_many_sets or right.too_many_sets,
        times_by_lane={
            lane: left.times_by_lane.get(lane, bytearray()) + right.times_by_lane.get(lane, b"")
            for lane in lanes
        },
        sketches={
            lane: add_counts(left.sketches.get(lane, {}), right.sketches.get(lane, {}))
            for lane in sketched_lanes
        },
        violations={**left.violations, **right.violations},
        violation_counts=add_counts(left.violation_counts, right.violation_counts),
        named={
            kind: keep_first_named(left.named.get(kind, []), right.named.get(kind, []))
            for kind in {**left.named, **right.named}
        },
        inputs=join_tables([left.inputs, right.inputs]),
        too_many_inputs=left.too_many_inputs or right.too_many_inputs,
        first_times=dict(left.first_times),
        last=max(left.last, right.last),
    )
    for run, first in right.first_times.items():
        total.first_times[run] = min(first, total.first_times.get(run, first))
    return bound_size(total)


def bound_size(state: AdvisoryExamState) -> AdvisoryExamState:
    """Limit the size of a state: sketches for too many times, no names for too many names."""
    if state.too_many_runs or len(state.first_times) > NAMES_MAX:
        state.runs, state.too_many_runs = {}, True
        state.first_times, state.inputs = {}, InputTable()
    if state.too_many_sets or len(state.fixture_sets) > NAMES_MAX:
        state.fixture_sets, state.too_many_sets = {}, True
    if len(state.inputs) > INPUTS_MAX:
        state.inputs.drop_repeats()
    if state.too_many_inputs or len(state.inputs) > INPUTS_MAX:
        state.inputs, state.too_many_inputs = InputTable(), True
    if len(state.named) > NAMES_MAX:
        # Enough kinds are wrong: one record of each is enough.
        state.named = {kind: named[:1] for kind, named in state.named.items()}
    size = sum(map(len, state.times_by_lane.values())) // 8
    if size > EXACT_MAX or state.sketches:
        for lane, data in state.times_by_lane.items():
            more = sketch_values(np.frombuffer(data, dtype=np.float64))
            state.sketches[lane] = add_counts(state.sketches.get(lane, {}), more)
        state.times_by_lane = {}
    return state
