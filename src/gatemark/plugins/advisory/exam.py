"""The advisory exam: one fold over decision records, judged by an advisory policy.

Earlier runs are evidence. Every file of the role ``history`` is read as strictly as the scored
records, judged by the policy and sealed with the result. Copies count once, and files that share
records are refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final, cast

import msgspec
import numpy as np

from gatemark.core.canonical import digest
from gatemark.core.errors import BadInputError, UsageError
from gatemark.core.fold import Measure
from gatemark.core.measurement import Evidence, Measurement, measured, unmeasured
from gatemark.core.policy import Policy, Rule, Setting, Verdict
from gatemark.core.record import Problem
from gatemark.core.registry import Registry
from gatemark.evidence.exam import Exam, ExamOutcome, ExamReport, ExamRun, VerdictNotes
from gatemark.evidence.exam_job import ExamJob, build_exam
from gatemark.evidence.exam_suite import DocumentType, EvidenceRole, ExamSuite
from gatemark.evidence.fold_files import fold_each
from gatemark.evidence.private_text import PrivateTextScan
from gatemark.evidence.run_exam import examine_files
from gatemark.plugins.advisory.broken_rules import find_broken_rules
from gatemark.plugins.advisory.count_batch import count_batch
from gatemark.plugins.advisory.earlier_files import (
    EarlierFile,
    count_shared,
    read_earlier_file,
    refuse_shared_records,
)
from gatemark.plugins.advisory.earlier_runs import EarlierRun, Terms
from gatemark.plugins.advisory.exam_state import AdvisoryExamState, list_lanes
from gatemark.plugins.advisory.figures import draw_figures
from gatemark.plugins.advisory.findings import Findings, derive_findings
from gatemark.plugins.advisory.fixtures.fixture import (
    Fixture,
    FixtureLabel,
    FixtureManifest,
    ShadowInput,
)
from gatemark.plugins.advisory.gate_rules import build_rules
from gatemark.plugins.advisory.merge_states import bound_size, merge_states
from gatemark.plugins.advisory.metrics import NO_COMPARABLE_RECORDS
from gatemark.plugins.advisory.pinned_fixtures import PinnedFixtures
from gatemark.plugins.advisory.policy import ADVISORY_LANES_MAX, AdvisoryPolicy
from gatemark.plugins.advisory.promotion import build_notes, build_promotion
from gatemark.plugins.advisory.record import parse_moment
from gatemark.plugins.advisory.summary import AdvisorySummary, build_summary
from gatemark.plugins.advisory.summary_facts import SUMMARY_SCHEMA, build_facts
from gatemark.plugins.advisory.undefined_labels import find_undefined, has_undefined
from gatemark.plugins.advisory.wrong_records import describe_wrong_records

FACTS_VERSION: Final = 2
"""Changes whenever a state of the same records would hold something else."""
FUTURE_HOURS_MAX: Final = 24
"""Maximum hours that a record's time may be ahead of the clock."""
DECISIONS: Final = "decisions"
HISTORY: Final = "history"


class AdvisoryOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The policy, and the fixtures that every run must have.

    Earlier runs are no option: their decision files have the role ``history``.
    """

    policy: Annotated[
        AdvisoryPolicy, msgspec.Meta(description="Bounds, labels and privacy rules of the lanes.")
    ] = AdvisoryPolicy()
    fixtures: Annotated[
        PinnedFixtures | None,
        msgspec.Meta(description="Fixtures that every run must have decided."),
    ] = None


class AdvisoryExam(Exam[AdvisoryExamState]):
    """Comparison, conduct, proof and latency of advisory services, lane by lane."""

    schema = "npu_advisory_decision_v1"
    form = "decision"
    state = AdvisoryExamState

    def __init__(self, options: AdvisoryOptions) -> None:
        self.options = options
        self.earlier: tuple[EarlierFile, ...] = ()
        self.now: datetime | None = None
        self._ids: bytes = b""
        self._scan = PrivateTextScan(options.policy.privacy)

    @property
    def facts_key(self) -> str:
        """Return a key for everything besides the evidence that a state depends on."""
        return digest([FACTS_VERSION, self.options.policy.reading_digest])

    def zero(self, shard: int) -> AdvisoryExamState:
        return AdvisoryExamState(shard=shard)

    def step(self, state: AdvisoryExamState, batch: Sequence[Any]) -> AdvisoryExamState:
        count_batch(state, batch, self._scan)
        return state

    def finalize_shard(self, state: AdvisoryExamState) -> AdvisoryExamState:
        return bound_size(state)

    def merge(self, left: AdvisoryExamState, right: AdvisoryExamState) -> AdvisoryExamState:
        return merge_states(left, right)

    def rebase_shard(self, state: AdvisoryExamState, shard: int) -> AdvisoryExamState:
        by = shard - state.shard
        state.shard = shard
        state.violations = {place + by: hits for place, hits in state.violations.items()}
        state.named = {
            kind: [msgspec.structs.replace(one, shard=one.shard + by) for one in named]
            for kind, named in state.named.items()
        }
        return state

    def needs_strict_pass(self, state: AdvisoryExamState) -> bool:
        fixed = frozenset(AdvisoryPolicy().bucket_rules)
        return has_undefined(state, self.options.policy, fixed)

    def refuse_future(self, state: AdvisoryExamState) -> None:
        """Refuse a time in the future.

        Sealed records were checked when they were sealed, so nothing is refused when they are
        derived again.
        """
        if self.now is None:
            return
        end = self.now.astimezone(UTC) + timedelta(hours=FUTURE_HOURS_MAX)
        moment, name = state.last
        if moment > end.strftime("%Y-%m-%dT%H:%M:%S"):
            raise BadInputError(
                f"decision {name}: its time {moment}Z lies in the future, more than "
                f"{FUTURE_HOURS_MAX} hours after now; correct the clock that wrote it, or leave "
                "the record out"
            )

    def problems(self, record: Any) -> Sequence[Problem]:
        return find_undefined(record, self.options.policy)

    def policy(self) -> Policy:
        options = self.options
        settings: dict[str, Setting] = {
            "advisory_policy": options.policy.name,
            "advisory_policy_digest": options.policy.digest,
            "stability_runs_min": options.policy.stability.runs_min,
            "stability_alpha": options.policy.stability.alpha,
        }
        if options.fixtures is not None:
            settings["fixtures_digest"] = digest(options.fixtures)
        return Policy(name="advisory", rules=self._build_rules(), settings=settings)

    def _build_rules(self) -> tuple[Rule, ...]:
        return build_rules(self.options.policy, pinned=self.options.fixtures is not None)

    def note_ids(self, hashes: bytearray) -> None:
        """Record which records are scored, so that none of them counts as an earlier one."""
        self._ids = bytes(hashes)

    def derive_earlier_runs(
        self, state: AdvisoryExamState, evidence: str, *, lost: int
    ) -> tuple[EarlierRun, ...]:
        """Return the runs of a file of earlier decisions, judged by the policy.

        Runs that share a file share its faults.
        """
        found = self._find(state, Terms(), lost=lost)
        broken = find_broken_rules(found, self.options.policy)
        began = {name or evidence: moment for name, moment in found.runs.began.items()}
        return tuple(
            EarlierRun(
                run=run or evidence,
                began=began.get(run or evidence, ""),
                evidence=evidence,
                lanes=lanes,
                inputs=state.inputs.select_runs(
                    {
                        name
                        for name in state.inputs.runs
                        if found.public_names.get(name, name) == run
                    }
                ),
                broken=broken,
                high_false_positives={
                    lane: counts.parts["high_severity_false_positive_count"]
                    for lane, counts in found.counts.lanes.items()
                    if place == 0
                },
            )
            for place, (run, lanes) in enumerate(found.runs.buckets.items())
        )

    def finish(self, state: AdvisoryExamState) -> ExamReport:
        return self._build_report(state, lost=0, digests=frozenset())

    def account(self, state: AdvisoryExamState, evidence: Evidence) -> ExamReport:
        digests = frozenset(file.digest for file in evidence.files)
        return self._build_report(state, lost=evidence.lost_count, digests=digests)

    def closing(self, report: ExamReport, evidence: Evidence, verdict: Verdict) -> VerdictNotes:
        section = build_promotion(
            self.options.policy, self.policy(), report.facts, evidence, verdict
        )
        notes = build_notes(section, verdict)
        return notes._replace(caveats=(*notes.caveats, *describe_wrong_records(report.facts)))

    def summary(
        self, report: ExamReport, evidence: Evidence, verdict: Verdict
    ) -> dict[str, object]:
        return build_summary(self.options.policy, self.policy(), report, evidence, verdict)

    def _build_report(
        self, state: AdvisoryExamState, *, lost: int, digests: frozenset[str]
    ) -> ExamReport:
        found = self._find(state, self._build_terms(digests), lost=lost)
        first = min(found.runs.began.values(), default=None)
        return ExamReport(
            measurements=found.guard_measurements(self._build_rules()),
            figures=draw_figures(found),
            attachments={},
            facts=build_facts(found),
            score=_measure_score(found),
            answered_at=None if first is None else parse_moment(f"{first}Z"),
        )

    def _build_terms(self, digests: frozenset[str]) -> Terms:
        """Return what the state is judged by, after comparing the files of earlier runs."""
        earlier: dict[str, EarlierRun] = {}
        ids = np.unique(np.frombuffer(self._ids, dtype="<u8"))
        for file in self.earlier:
            if file.file.digest in digests:
                continue
            shared = count_shared(file.ids, ids)
            for run in file.runs:
                # The runs of a scored file may also be in the history, each in a file of its own.
                earlier[run.run] = run._replace(shared=shared, name=file.file.name)
        return Terms(
            earlier=sorted(earlier.values(), key=lambda run: (run.began, run.run)),
            fixtures=self.options.fixtures,
        )

    def _find(self, state: AdvisoryExamState, terms: Terms, *, lost: int) -> Findings:
        policy = self.options.policy
        self.finalize_shard(state)
        self.refuse_future(state)
        if has_undefined(state, policy, frozenset(policy.bucket_rules)):
            raise BadInputError("some records use a label or bucket rule that is not in the policy")
        lane_count = len(list_lanes(state))
        if lane_count > ADVISORY_LANES_MAX:
            raise BadInputError(
                f"the evidence has {lane_count} lanes, more than {ADVISORY_LANES_MAX}"
            )
        return derive_findings(state, policy, terms, self._scan, lost=lost)


def _measure_score(found: Findings) -> Measurement:
    """Return the agreement rate as if every lost record disagreed."""
    counts = found.counts.all
    agreed, n = counts.parts["agreement_rate"], counts.wholes["agreement_rate"]
    if n == 0:
        return unmeasured("score", NO_COMPARABLE_RECORDS(), direction="higher_is_better")
    excluded = {"lost": found.lost} if found.lost else None
    return measured(
        "score", agreed / (n + found.lost), n=n, direction="higher_is_better", excluded=excluded
    )


def examine_decisions(run: ExamRun) -> ExamOutcome:
    """Score decision files together with the files of earlier runs."""
    roles = set(run.roles)
    if DECISIONS not in roles or not roles <= {DECISIONS, HISTORY}:
        raise UsageError(f"{run.kind} reads files with the roles {DECISIONS!r} and {HISTORY!r}")
    own = replace(run, files=[given for given in run.files if given[0] == DECISIONS])
    exam = build_exam(ExamJob.of(own))
    judge = cast(AdvisoryExam, exam)
    judge.now = run.now
    paths = [path for role, path in run.files if role == HISTORY]
    if not paths:
        return examine_files(own, exam=exam)
    files: list[EarlierFile] = []
    for read in fold_each(run, exam, paths):
        files.append(read_earlier_file(read, judge.derive_earlier_runs))
        refuse_shared_records(files)
    judge.earlier = tuple(files)
    outcome = examine_files(own, exam=exam, on_ids=judge.note_ids)
    evidence = msgspec.structs.replace(
        outcome.evidence, files=(*outcome.evidence.files, *(earlier.file for earlier in files))
    )
    return msgspec.structs.replace(outcome, evidence=evidence)


def _build(options: AdvisoryOptions, _measures: Registry[Measure[Any]]) -> AdvisoryExam:
    return AdvisoryExam(options)


SUITE = ExamSuite(
    kind="advisory",
    summary="Do advisory recommendations agree with their references, and did nothing else happen?",
    options=AdvisoryOptions,
    build=_build,
    roles=(
        EvidenceRole(DECISIONS, "Decision records, one per line.", positional=True, many=True),
        EvidenceRole(HISTORY, "Decision records of earlier runs.", many=True),
    ),
    examine=examine_decisions,
    documents=(
        DocumentType(
            "gatemark.advisory_policy/1", "A policy file of the advisory exam.", AdvisoryPolicy
        ),
        DocumentType("gatemark.advisory_fixture/1", "One line of a fixture file.", Fixture),
        DocumentType(
            "gatemark.advisory_manifest/1", "The manifest that pins fixtures.", FixtureManifest
        ),
        DocumentType(
            "gatemark.advisory_label/1",
            "One line of a labels file: what a person or Atlas decided about a fixture.",
            FixtureLabel,
        ),
        DocumentType(
            "gatemark.advisory_input/1", "One line of the inputs of a shadow.", ShadowInput
        ),
        DocumentType(SUMMARY_SCHEMA, "The summary of an advisory run.", AdvisorySummary),
    ),
)
