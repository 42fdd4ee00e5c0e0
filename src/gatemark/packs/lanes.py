"""Lanes: candidates for discussion that an exam names, and the packet that people discuss.

An exam that judges lanes offers a ``LaneExam`` named ``LANE_EXAM`` in its module ``lanes``. The
entry point of a plugin is called ``lane_exam.NAME``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

import msgspec

from gatemark.core.errors import UsageError
from gatemark.core.registry import Registry
from gatemark.core.result import Result
from gatemark.ledger.port import BlobStore
from gatemark.packs.rescore import DerivedExam, derive_exams
from gatemark.workspace import Workspace


class NoLaneExamError(UsageError):
    """No installed exam judges the lanes of a result."""


class LanePacket(msgspec.Struct, frozen=True):
    """What people need to discuss a lane. ``status`` is that of the sealed result."""

    lane: str
    status: str
    result: str
    sealed_by: str
    scope: str
    rollback_plan: str
    reviewer: str
    numbers: tuple[str, ...]
    runs: tuple[str, ...]
    models: tuple[str, ...]
    caveats: tuple[str, ...]
    blockers: tuple[str, ...]
    statement: str
    oldest_answer: str | None = None

    @property
    def sections(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Return the parts of the packet, each with its lines."""
        return (
            ("Scope", (self.scope,)),
            ("Rollback plan", (self.rollback_plan,)),
            ("Reviewer", (self.reviewer,)),
            ("Blockers", self.blockers),
            ("Caveats", self.caveats),
            ("Numbers", self.numbers),
            ("Runs", self.runs),
            ("Models", self.models),
        )


class LaneExam(msgspec.Struct, frozen=True):
    """An exam that judges lanes.

    ``judge_lanes`` says of each lane of an exam whether it is a candidate for discussion.
    ``build_packet`` takes a lane and the id of a result.
    """

    kind: str
    judge_lanes: Callable[[DerivedExam], Mapping[str, bool]]
    build_packet: Callable[[Workspace, str, str], LanePacket]


@cache
def lane_exams() -> Registry[LaneExam]:
    """Return the registry of exams that judge lanes."""
    return Registry(
        kind="lane exam",
        places=(),
        attribute="LANE_EXAM",
        plugin_type=LaneExam,
        name_of=lambda exam: exam.kind,
    )


def find_lane_exams(result: Result) -> tuple[LaneExam, ...]:
    """Return the exams that judge the lanes of a result; raise NoLaneExamError without any."""
    kinds = {evidence.checks.get("kind") for evidence in result.evidence}
    found = tuple(exam for exam in lane_exams() if exam.kind in kinds)
    if not found:
        raise NoLaneExamError(f"no installed exam judges the lanes of result {result.id[7:19]}")
    return found


def candidate_lanes(blobs: BlobStore, result: Result) -> tuple[str, ...]:
    """Return the lanes that are candidates for discussion, derived from the evidence."""
    found: dict[str, bool] = {}
    for exam in find_lane_exams(result):
        for derived in derive_exams(blobs, result, exam.kind):
            for lane, is_candidate in exam.judge_lanes(derived).items():
                # Records that speak against a lane do so in whichever suite they lie.
                found[lane] = found.get(lane, True) and is_candidate
    return tuple(lane for lane, is_candidate in found.items() if is_candidate)
