"""The advisory exam: one fold over decision records, judged by an advisory policy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from gatemark.core.canonical import digest
from gatemark.core.errors import BadInputError
from gatemark.core.fold import Measure
from gatemark.core.measurement import Evidence, Measurement, measured, unmeasured
from gatemark.core.policy import Policy, Rule, Verdict
from gatemark.core.record import Problem
from gatemark.core.registry import Registry
from gatemark.evidence.exam import EvidenceRole, Exam, ExamReport, ExamSuite, VerdictNotes
from gatemark.evidence.hygiene import PrivateTextScan
from gatemark.exams.advisory.decision import bucket_of
from gatemark.exams.advisory.findings import Findings, PastRun, find
from gatemark.exams.advisory.measure import AdvisoryExamState, Collector, merged, needs_strict_pass
from gatemark.exams.advisory.policy import LANES_MAX, AdvisoryPolicy, all_rules, lane_name
from gatemark.exams.advisory.views import (
    facts_document,
    figures,
    promotion_closing,
    promotion_section,
    summary_document,
)

DECISIONS: Final = "decisions"
FACTS_VERSION: Final = 3
"""Changes whenever a state of the same records would hold something else."""


class AdvisoryOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The policy, and the earlier runs that stability is judged against."""

    policy: AdvisoryPolicy = AdvisoryPolicy()
    history: tuple[PastRun, ...] = ()


class AdvisoryExam(Exam[AdvisoryExamState]):
    """Comparison, conduct, proof and latency of advisory services, lane by lane."""

    schema = "npu_advisory_decision_v1"
    form = "decision"
    state = AdvisoryExamState

    def __init__(self, options: AdvisoryOptions) -> None:
        self.options = options
        self._scan = PrivateTextScan(options.policy.privacy)
        self._collector = Collector(self._scan)

    @property
    def facts_key(self) -> str:
        """Names everything besides the evidence that a state depends on."""
        return digest([FACTS_VERSION, self.options.policy.reading_digest])

    def zero(self, shard: int) -> AdvisoryExamState:
        self._collector.forget()
        return AdvisoryExamState(shard=shard)

    def step(self, state: AdvisoryExamState, batch: Sequence[Any]) -> AdvisoryExamState:
        self._collector.collect(state, batch)
        return state

    def finalize_shard(self, state: AdvisoryExamState) -> AdvisoryExamState:
        return self._collector.settle(state)

    def merge(self, left: AdvisoryExamState, right: AdvisoryExamState) -> AdvisoryExamState:
        return merged(self.finalize_shard(left), self.finalize_shard(right))

    def rebase_shard(self, state: AdvisoryExamState, shard: int) -> AdvisoryExamState:
        by = shard - state.shard
        state.shard = shard
        state.violations = {place + by: hits for place, hits in state.violations.items()}
        return state

    def needs_strict_pass(self, state: AdvisoryExamState) -> bool:
        fixed = frozenset(AdvisoryPolicy().bucket_rules)
        return needs_strict_pass(self.finalize_shard(state), self.options.policy, fixed)

    def problems(self, record: Any) -> Sequence[Problem]:
        """Labels and bucket rules that the policy does not explain; values are not repeated."""
        policy = self.options.policy
        lane = lane_name(record.input_class, record.service.name)
        known = policy.taxonomy(lane)
        found = []
        for path, label in (
            ("$.recommendation.label", record.recommendation.label),
            ("$.human_or_atlas_decision.label", record.human_or_atlas_decision.label),
        ):
            if label and not known.knows(label):
                allowed = ", ".join((*known.labels, *known.aliases))
                found.append(Problem(path, f"the policy knows no such label (it has: {allowed})"))
        confidence = record.confidence
        edges = policy.bucket_rules.get(confidence.bucket_rule)
        if edges is None:
            rules = ", ".join(policy.bucket_rules)
            found.append(
                Problem(
                    "$.confidence.bucket_rule", f"the policy knows no such rule (it has: {rules})"
                )
            )
        elif confidence.score or confidence.score == 0:
            expected = bucket_of(confidence.score, edges)
            if confidence.bucket != expected:
                found.append(
                    Problem("$.confidence.bucket", f"must be {expected}, got {confidence.bucket}")
                )
        return found

    def policy(self) -> Policy:
        options = self.options
        return Policy(
            name="advisory",
            rules=all_rules(options.policy),
            settings={
                "advisory_policy": options.policy.name,
                "advisory_policy_digest": options.policy.digest,
                "history_digest": digest(options.history) if options.history else None,
                "stability_runs_min": options.policy.stability.runs_min,
                "stability_alpha": options.policy.stability.alpha,
            },
        )

    def finish(self, state: AdvisoryExamState) -> ExamReport:
        return self._report(state, lost=0, digests=frozenset())

    def account(self, state: AdvisoryExamState, evidence: Evidence) -> ExamReport:
        digests = frozenset(file.digest for file in evidence.files)
        return self._report(state, lost=evidence.lost_count, digests=digests)

    def closing(self, report: ExamReport, evidence: Evidence, verdict: Verdict) -> VerdictNotes:
        section = promotion_section(
            self.options.policy, self.policy(), report.facts, evidence, verdict
        )
        return promotion_closing(section, verdict)

    def summary(
        self, report: ExamReport, evidence: Evidence, verdict: Verdict
    ) -> dict[str, object]:
        return summary_document(self.options.policy, self.policy(), report, evidence, verdict)

    def _report(
        self, state: AdvisoryExamState, *, lost: int, digests: frozenset[str]
    ) -> ExamReport:
        policy = self.options.policy
        self.finalize_shard(state)
        if needs_strict_pass(state, policy, frozenset(policy.bucket_rules)):
            raise BadInputError("some records use a label or bucket rule that is not in the policy")
        lane_count = len(state.lanes)
        if lane_count > LANES_MAX:
            raise BadInputError(f"the evidence has {lane_count} lanes, more than {LANES_MAX}")
        found = find(state, policy, self.options.history, self._scan, lost=lost, digests=digests)
        return ExamReport(
            measurements=found.guarded(self._rules_by_key()),
            figures=figures(found),
            attachments={},
            facts=facts_document(found),
            score=_score(found),
        )

    def _rules_by_key(self) -> dict[tuple[str, str | None], list[Rule]]:
        by_key: dict[tuple[str, str | None], list[Rule]] = {}
        for rule in all_rules(self.options.policy):
            by_key.setdefault((rule.metric, rule.lane), []).append(rule)
        return by_key


def _score(found: Findings) -> Measurement:
    """The agreement rate as if every lost record disagreed."""
    counts = found.counts.all
    agreed, n = counts.parts["agreement_rate"], counts.wholes["agreement_rate"]
    if n == 0:
        return unmeasured("score", "no comparable records", direction="higher_is_better")
    excluded = {"lost": found.lost} if found.lost else None
    return measured(
        "score", agreed / (n + found.lost), n=n, direction="higher_is_better", excluded=excluded
    )


def _build(options: AdvisoryOptions, _measures: Registry[Measure[Any]]) -> AdvisoryExam:
    return AdvisoryExam(options)


SUITE = ExamSuite(
    kind="advisory",
    summary="Do advisory recommendations agree with their references, and did nothing else happen?",
    options=AdvisoryOptions,
    build=_build,
    roles=(EvidenceRole(DECISIONS, "Decision records, one per line.", positional=True, many=True),),
)
