"""The state of the advisory fold: counted cells, times by lane, and where violations stand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np

from gatemark.suites.advisory.facts import CellTuple, Collected, Violation
from gatemark.suites.advisory.latency import EXACT_MAX, LaneKey, as_sketch
from gatemark.suites.advisory.policy import AdvisoryPolicy
from gatemark.suites.advisory.tally import Tally, added, tallied

CELLS_MAX: Final = 50_000
"""So many kinds of records are kept apart; beyond, they are tallied and forgotten."""
VIOLATIONS_KEPT: Final = 200


class State(msgspec.Struct):
    """``codes`` and ``times`` are the columns of records not yet counted, one of each per record.

    A code means a cell to the collector that made it, whose number is ``collector``; columns are
    counted before a state leaves its process. ``cells`` and ``tally`` hold disjoint records.
    """

    shard: int
    collector: int = 0
    codes: bytearray = msgspec.field(default_factory=bytearray)
    times: bytearray = msgspec.field(default_factory=bytearray)
    cells: dict[CellTuple, int] = {}
    tally: Tally = {}
    times_by_lane: dict[LaneKey, bytes] = {}
    sketches: dict[LaneKey, dict[int, int]] = {}
    violations: dict[int, list[Violation]] = {}
    violation_counts: dict[tuple[str, str], int] = {}


def note(state: State, found: Collected) -> None:
    """Add the facts of a batch to the columns."""
    state.codes += found.codes.tobytes()
    state.times += found.times.tobytes()
    if found.violations:
        kept = state.violations.setdefault(state.shard, [])
        kept.extend(found.violations[: VIOLATIONS_KEPT - len(kept)])
        for violation in found.violations:
            key = (violation.field.partition("[")[0], violation.kind)
            state.violation_counts[key] = state.violation_counts.get(key, 0) + 1


def settle(state: State, cells: Sequence[CellTuple], policy: AdvisoryPolicy) -> State:
    """Count the columns, whose codes mean these cells; the columns are empty afterwards."""
    if state.codes:
        codes = np.frombuffer(state.codes, dtype=np.uint32)
        times = np.frombuffer(state.times, dtype=np.float64)
        used, own_codes, counts = np.unique(codes, return_inverse=True, return_counts=True)
        own_cells = [cells[code] for code in used.tolist()]
        for cell, count in zip(own_cells, counts.tolist(), strict=True):
            state.cells[cell] = state.cells.get(cell, 0) + count
        lanes: dict[LaneKey, int] = {}
        lane_codes = [lanes.setdefault((str(c[0]), str(c[1])), len(lanes)) for c in own_cells]
        lane_of = np.array(lane_codes)[own_codes]
        known = ~np.isnan(times)
        for lane, number in lanes.items():
            own = times[(lane_of == number) & known]
            if own.size:
                state.times_by_lane[lane] = state.times_by_lane.get(lane, b"") + own.tobytes()
        state.codes, state.times = bytearray(), bytearray()
    return bound(state, policy)


def bound(state: State, policy: AdvisoryPolicy) -> State:
    """Keep a state small: sketches for too many times, a tally for too many cells."""
    _bound_times(state)
    if len(state.cells) > CELLS_MAX:
        state.tally = added(state.tally, tallied(state.cells, policy))
        state.cells = {}
    return state


def _bound_times(state: State) -> None:
    """Turn times into sketches once there are too many of them, or where some already are."""
    count = sum(map(len, state.times_by_lane.values())) // 8
    if count <= EXACT_MAX and not state.sketches:
        return
    for lane, data in state.times_by_lane.items():
        state.sketches[lane] = _summed(state.sketches.get(lane, {}), as_sketch(data))
    state.times_by_lane = {}


def merged(left: State, right: State, policy: AdvisoryPolicy) -> State:
    """One state for two disjoint sets of counted records."""
    total = State(
        shard=min(left.shard, right.shard),
        cells=_summed(left.cells, right.cells),
        tally=added(left.tally, right.tally),
        times_by_lane={
            lane: left.times_by_lane.get(lane, b"") + right.times_by_lane.get(lane, b"")
            for lane in {**left.times_by_lane, **right.times_by_lane}
        },
        sketches={
            lane: _summed(left.sketches.get(lane, {}), right.sketches.get(lane, {}))
            for lane in {**left.sketches, **right.sketches}
        },
        violations={**left.violations, **right.violations},
        violation_counts=_summed(left.violation_counts, right.violation_counts),
    )
    return bound(total, policy)


def first_violations(state: State, limit: int) -> list[Violation]:
    """The first violations in the order of the evidence."""
    ordered = [hit for shard in sorted(state.violations) for hit in state.violations[shard]]
    return ordered[:limit]


def _summed(left: dict, right: dict) -> dict:  # type: ignore[type-arg]
    total = dict(left)
    for key, count in right.items():
        total[key] = total.get(key, 0) + count
    return total
