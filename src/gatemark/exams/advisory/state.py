"""What the fold over advisory records keeps; ``collect`` fills a state, ``merge`` joins two."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from gatemark.exams.advisory.inputs import InputTable
from gatemark.exams.advisory.kind import RecordKind


class Violation(NamedTuple):
    """Where a record violates something: by id and field, never by content."""

    decision_id: str
    field: str
    kind: str


class ViolatedField(msgspec.Struct, frozen=True, array_like=True, order=True):
    """A field with violations, and their kind."""

    field: str
    kind: str


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

    ``codes``, ``times``, ``pairs`` and ``run_places`` are the columns of records not yet counted,
    one of each per record; ``run_names`` has the runs. A code has a meaning only for the collector
    that made it, so columns are counted before a state leaves its process. ``first_times`` has the
    earliest second of each run, and ``last`` the latest second of all with its decision. ``named``
    has the first records of each kind that may be wrong, uncertain or violating; ``named_codes``
    has them before they are counted.
    """

    shard: int
    codes: bytearray = msgspec.field(default_factory=bytearray)
    times: bytearray = msgspec.field(default_factory=bytearray)
    pairs: bytearray = msgspec.field(default_factory=bytearray)
    run_places: bytearray = msgspec.field(default_factory=bytearray)
    run_names: dict[str, int] = {}
    kinds: dict[RecordKind, int] = {}
    runs: dict[RunBucket, int] = {}
    too_many_runs: bool = False
    cases: dict[LaneCase, int] = {}
    fixture_sets: dict[str, int] = {}
    too_many_sets: bool = False
    times_by_lane: dict[str, bytes] = {}
    sketches: dict[str, dict[int, int]] = {}
    violations: dict[int, list[Violation]] = {}
    violation_counts: dict[ViolatedField, int] = {}
    named_codes: dict[int, list[NamedRecord]] = {}
    named: dict[RecordKind, list[NamedRecord]] = {}
    inputs: InputTable = msgspec.field(default_factory=InputTable)
    too_many_inputs: bool = False
    first_times: dict[str, str] = {}
    last: tuple[str, str] = ("", "")


def list_lanes(state: AdvisoryExamState) -> list[str]:
    """The lanes of all counted records."""
    return sorted({kind.lane for kind in state.kinds})
