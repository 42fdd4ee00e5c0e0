"""The exam ``deliveries``: whether enough deliveries were on time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec

from deliveries.measure import OnTimeState
from deliveries.records import Trip
from gatemark.core.fold import Measure
from gatemark.core.measurement import Evidence
from gatemark.core.policy import Policy, Rule, Verdict
from gatemark.core.registry import Registry
from gatemark.evidence.exam import Exam, ExamReport
from gatemark.evidence.exam_options import option
from gatemark.evidence.exam_suite import EvidenceRole, ExamSuite


class DeliveriesOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of the exam."""

    min_share: Annotated[float, option("Minimum share of trips on time.", low=0, high=1)] = 0.95
    grace_minutes: Annotated[float, option("Minutes that a trip may be late.", low=0)] = 0.0


class DeliveriesExam(Exam[OnTimeState]):
    """Counts trips that took no longer than promised."""

    schema = "deliveries.trip/1"
    form = "trip"
    state = OnTimeState

    def __init__(self, options: DeliveriesOptions, measures: Registry[Measure[Any]]) -> None:
        self.options = options
        self._measure = measures.get("on_time")

    def zero(self, shard: int) -> OnTimeState:
        del shard
        return OnTimeState()

    def step(self, state: OnTimeState, batch: Sequence[Trip]) -> OnTimeState:
        grace = self.options.grace_minutes
        kept = [trip.minutes <= trip.promised_minutes + grace for trip in batch]
        counted: OnTimeState = self._measure.step(state, kept)
        return counted

    def merge(self, left: OnTimeState, right: OnTimeState) -> OnTimeState:
        merged: OnTimeState = self._measure.merge(left, right)
        return merged

    def policy(self) -> Policy:
        return Policy(
            name="deliveries",
            rules=(Rule("deliveries.on_time", "on_time_share", ">=", self.options.min_share),),
            settings=msgspec.to_builtins(self.options),
        )

    def finish(self, state: OnTimeState) -> ExamReport:
        (share,) = self._measure.finish(state)
        return ExamReport(
            measurements=(share,),
            figures=(),
            attachments={},
            facts={"trips": state.count, "on_time": state.on_time},
            score=msgspec.structs.replace(share, name="score"),
        )

    def summary(self, report: ExamReport, evidence: Evidence, verdict: Verdict) -> dict[str, Any]:
        return {**report.facts, "verdict": verdict.outcome, "rejected": evidence.rejected}


SUITE = ExamSuite(
    kind="deliveries",
    summary="Were enough deliveries on time?",
    options=DeliveriesOptions,
    build=DeliveriesExam,
    roles=(EvidenceRole("trips", "Trips, one per line.", positional=True, many=True),),
)
