"""What the fold over advisory records keeps: counts by keys, times by lane, and a few records.

The fields of a key are the names of the columns by which records are counted (``record_columns``).
``count_batch`` fills a state, ``merge_states`` joins two.
"""

from __future__ import annotations

from typing import Final

import msgspec

from gatemark.plugins.advisory.input_rows import InputTable
from gatemark.plugins.advisory.record_kind import RecordKind
from gatemark.plugins.advisory.violations import ViolatedField, Violation

NAMED_PER_KIND: Final = 20
"""The most records of one kind that are named by their ids."""


class NamedRecord(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A record by its ids, its shard and its position in it."""

    shard: int
    place: int
    decision_id: str
    fixture_id: str | None
    run: str | None


class RunBucket(msgspec.Struct, frozen=True, array_like=True, gc=False, cache_hash=True):
    """The records of a run and lane in one bucket; a replayed recording was not run again.

    An empty name means no run.
    """

    run: str
    lane: str
    bucket: str
    replayed: bool


class LaneCase(msgspec.Struct, frozen=True, array_like=True):
    """The records of a lane whose notes name one kind of case."""

    lane: str
    case: str


class AdvisoryExamState(msgspec.Struct):
    """Counted records by kind, by run, by case and by fixture set; times by lane; violations.

    ``records`` counts those of the shard. ``first_times`` has the earliest second of each run, and
    ``last`` the latest second of all with its decision. ``named`` has the first records of each
    kind that may be wrong, uncertain or violating.
    """

    shard: int
    records: int = 0
    kinds: dict[RecordKind, int] = {}
    runs: dict[RunBucket, int] = {}
    too_many_runs: bool = False
    cases: dict[LaneCase, int] = {}
    fixture_sets: dict[str, int] = {}
    too_many_sets: bool = False
    times_by_lane: dict[str, bytearray] = {}
    sketches: dict[str, dict[int, int]] = {}
    violations: dict[int, list[Violation]] = {}
    violation_counts: dict[ViolatedField, int] = {}
    named: dict[RecordKind, list[NamedRecord]] = {}
    inputs: InputTable = msgspec.field(default_factory=InputTable)
    too_many_inputs: bool = False
    first_times: dict[str, str] = {}
    last: tuple[str, str] = ("", "")


def list_lanes(state: AdvisoryExamState) -> list[str]:
    """The lanes of all counted records."""
    return sorted({kind.lane for kind in state.kinds})
