"""Suites of a pack that read evidence files: run here, judged with all others.

An exam has its own measurements and rules. In a pack they carry the suite's id, so that two suites
of one kind stay apart, and its score is weighted like any other.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from gatemark.core.errors import UsageError
from gatemark.core.measurement import Evidence, EvidenceFile, Measurement, measured, unmeasured
from gatemark.core.policy import Rule, Setting
from gatemark.core.reason import ReasonKind, find_reason
from gatemark.core.result import Figure
from gatemark.evidence.engines.port import Engine
from gatemark.evidence.exam import ExamOutcome, ExamReport, ExamRun
from gatemark.evidence.exam_job import ExamJob, build_exam
from gatemark.evidence.exam_suite import ExamSuite, suites
from gatemark.evidence.reading_choices import ReadingChoices
from gatemark.evidence.run_exam import run_exam
from gatemark.evidence.source import inspect_source
from gatemark.packs.evidence_files import SuiteFiles, name_evidence
from gatemark.packs.pack_file import BASELINE, CANDIDATE
from gatemark.packs.suite_spec import SuiteSpec
from gatemark.packs.suites.suite import ArmsReport
from gatemark.workspace import Workspace

NO_BASELINE_EVIDENCE: Final = ReasonKind(
    "no_baseline_evidence", "the suite has no baseline evidence"
)
KIND_WITHOUT_SCORE: Final = ReasonKind("kind_without_score", "kind {kind} gives no score")


class SuiteOutcome(msgspec.Struct, frozen=True):
    """The exam of one suite: its findings, and the files behind them.

    ``paths`` maps each evidence file to its path and ``attachments`` each written file to its
    content. ``answered_at`` is the time of the candidate's oldest record, if records have a time.
    """

    report: ArmsReport
    accounts: tuple[Evidence, ...]
    paths: dict[str, str]
    attachments: dict[str, bytes]
    answered_at: datetime | None = None

    @property
    def has_baseline(self) -> bool:
        """Whether there is a baseline score to compare with."""
        return any(account.checks["arm"] == BASELINE for account in self.accounts)

    @property
    def files(self) -> tuple[EvidenceFile, ...]:
        """The evidence files of both arms."""
        return tuple(file for account in self.accounts for file in account.files)


def check_exam_suite(suite: SuiteSpec, folder: Path) -> None:
    """Refuse a suite whose kind, options or files cannot be used; reads no record."""
    _find_exam_plugin(suite)
    build_exam(ExamJob(suite.kind, build_suite_options(suite), ReadingChoices()))
    for files in (suite.evidence, suite.baseline_evidence):
        for path in files.values() if isinstance(files, dict) else ():
            inspect_source(str(folder / path), name=path)


def _find_exam_plugin(suite: SuiteSpec) -> ExamSuite:
    plugin = suites().get(suite.kind)
    if not isinstance(plugin, ExamSuite):
        raise UsageError(f"suite {suite.id}: kind {suite.kind!r} does not read evidence files")
    if suite.regression == "non_inferiority":
        raise UsageError(f"suite {suite.id}: kind {suite.kind!r} judges a drop by the point only")
    return plugin


def build_suite_options(suite: SuiteSpec) -> dict[str, Any]:
    """Return the suite's options, with those that follow from its files."""
    plugin = _find_exam_plugin(suite)
    for name, why in plugin.own_options.items():
        if name in suite.options:
            raise UsageError(f"suite {suite.id}: a pack cannot set {name}: {why}")
    by_role = plugin.role_options(suite.evidence or {}) if plugin.role_options else {}
    return {**suite.options, **by_role}


def make_exam_rules(suite: SuiteSpec) -> tuple[tuple[Rule, ...], dict[str, Setting]]:
    """Return the rules and settings that an exam brings to a pack."""
    exam = build_exam(ExamJob(suite.kind, build_suite_options(suite), ReadingChoices()))
    policy = exam.policy()
    found = tuple(_move_into_suite(suite.id, rule) for rule in policy.rules)
    return found, {f"{suite.id}.{name}": value for name, value in policy.settings.items()}


def run_suite(
    kind: str,
    options: Mapping[str, Any],
    by_role: Mapping[str, str],
    engine: Engine,
    now: datetime | None = None,
) -> ExamOutcome:
    """Run one suite's exam over the evidence of one arm."""
    return run_exam(
        ExamRun(
            kind=kind,
            options=dict(options),
            files=list(by_role.items()),
            reading=ReadingChoices(),
            engine=engine,
            now=now,
        )
    )


def examine_suite(
    workspace: Workspace,
    suite: SuiteSpec,
    files: SuiteFiles,
    *,
    now: datetime | None = None,
) -> SuiteOutcome:
    """Run one suite's exam over the evidence of every arm.

    ``now`` is for exams that refuse records dated in the future; None when a sealed result is
    derived again.
    """
    options = build_suite_options(suite)
    found = {
        arm: run_suite(suite.kind, options, by_role, workspace.engine, now)
        for arm, by_role in files.arms()
    }
    accounts, paths = [], {}
    for arm, by_role in files.arms():
        names = {path: name_evidence(suite.id, arm, role) for role, path in by_role.items()}
        paths.update({name: path for path, name in names.items()})
        accounts.append(_rename_account(found[arm].evidence, suite, arm, names))
    baseline = found.get(BASELINE)
    return SuiteOutcome(
        report=_build_report(
            suite, found[CANDIDATE].report, None if baseline is None else baseline.report
        ),
        accounts=tuple(accounts),
        paths=paths,
        attachments={
            f"{suite.id}/{arm}-{name}": data
            for arm, outcome in found.items()
            for name, data in outcome.report.attachments.items()
        },
        answered_at=found[CANDIDATE].report.answered_at,
    )


def _rename_account(
    evidence: Evidence, suite: SuiteSpec, arm: str, names: Mapping[str, str]
) -> Evidence:
    return msgspec.structs.replace(
        evidence,
        files=tuple(
            msgspec.structs.replace(file, name=names.get(file.name, file.name))
            for file in evidence.files
        ),
        checks={**evidence.checks, "suite": suite.id, "kind": suite.kind, "arm": arm},
    )


def _move_into_suite(suite: str, rule: Rule) -> Rule:
    return msgspec.structs.replace(
        rule,
        id=f"{suite}.{rule.id}",
        scope=_name_scope(suite, rule.scope),
        fallback_rules=tuple(_move_into_suite(suite, other) for other in rule.fallback_rules),
    )


def _name_scope(suite: str, scope: str | None) -> str:
    return suite if scope is None else f"{suite}/{scope}"


def _build_report(
    suite: SuiteSpec, candidate: ExamReport, baseline: ExamReport | None
) -> ArmsReport:
    score = _name_score("score", suite, candidate)
    before = (
        unmeasured(
            "baseline_score",
            NO_BASELINE_EVIDENCE(),
            direction="higher_is_better",
            scope=suite.id,
        )
        if baseline is None
        else _name_score("baseline_score", suite, baseline)
    )
    numbers = [
        msgspec.structs.replace(number, scope=_name_scope(suite.id, number.scope))
        for number in candidate.measurements
    ]
    if baseline is not None:
        numbers.append(_measure_drop(suite.id, score, before))
    return ArmsReport(
        score=score,
        baseline_score=before,
        measurements=tuple(numbers),
        figures=tuple(_add_title(suite.id, figure) for figure in candidate.figures),
        delta_error=None,
    )


def _name_score(name: str, suite: SuiteSpec, report: ExamReport) -> Measurement:
    if report.score is None:
        reason = KIND_WITHOUT_SCORE(kind=suite.kind)
        return unmeasured(name, reason, direction="higher_is_better", scope=suite.id)
    return msgspec.structs.replace(report.score, name=name, scope=suite.id)


def _measure_drop(scope: str, score: Measurement, before: Measurement) -> Measurement:
    if score.value is None or before.value is None:
        reason = find_reason(score, before)
        return unmeasured("regression", reason, direction="lower_is_better", scope=scope)
    drop = before.value - score.value
    return measured("regression", drop, n=score.n, direction="lower_is_better", scope=scope)


def _add_title(suite: str, figure: Figure) -> Figure:
    return msgspec.structs.replace(figure, title=f"{suite}: {figure.title}")
