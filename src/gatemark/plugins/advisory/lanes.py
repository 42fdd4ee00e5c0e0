"""The lanes that the advisory exam judges."""

from __future__ import annotations

from collections.abc import Mapping

from gatemark.packs.lanes import LaneExam
from gatemark.packs.rescore import DerivedExam
from gatemark.plugins.advisory.promotion_packet import build_packet


def _judge_lanes(derived: DerivedExam) -> Mapping[str, bool]:
    section = derived.summary()["promotion"]
    return {lane: lane in section["candidate_lanes"] for lane in section["lanes"]}


LANE_EXAM = LaneExam("advisory", _judge_lanes, build_packet)
