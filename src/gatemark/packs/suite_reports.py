"""Examine one suite of a pack over the answers of both arms."""

from __future__ import annotations

import msgspec

from gatemark.packs.embeddings import parse_embedding_options
from gatemark.packs.judge_qualification import apply_qualification
from gatemark.packs.margins import find_bound
from gatemark.packs.outages import find_outage_objection, remove_outages, withhold_report
from gatemark.packs.part_scores import measure_parts
from gatemark.packs.questions import make_asked_rows
from gatemark.packs.run import AnsweredRun, name_scorers
from gatemark.packs.suite_plugins import find_suite_plugin, parse_suite_options
from gatemark.packs.suite_spec import SuiteSpec
from gatemark.packs.suites.suite import ArmsEvidence, ArmsReport


def examine_answers(
    answered: AnsweredRun,
    suite: SuiteSpec,
    *,
    pooled: frozenset[str],
    alpha: float,
) -> ArmsReport:
    """Return the report of one suite; what could not be asked or judged has no numbers in it."""
    opened, baseline = answered.run.opened, answered.baseline
    plugin = find_suite_plugin(suite)
    evidence = ArmsEvidence(
        spec=suite,
        rows=make_asked_rows(suite.kind, opened.snapshots[suite.id].rows),
        candidate=answered.candidate[suite.id],
        baseline=None if baseline is None else baseline[suite.id],
        margin=find_bound(opened.pack, suite, pooled),
        alpha=alpha,
        replies=answered.graded[suite.id].replies if suite.id in answered.graded else {},
    )
    objection = find_outage_objection(evidence)
    heard = evidence if objection is None else remove_outages(evidence)
    report = plugin.examine(heard, parse_suite_options(suite, plugin.options))
    if suite.dataset is not None and any(answer.parts for answer in heard.candidate):
        parts = measure_parts(heard, plugin, parse_suite_options(suite, plugin.options))
        report = msgspec.structs.replace(report, measurements=(*report.measurements, *parts))
    if objection is not None:
        report = withhold_report(report, objection)
    report = _add_caveat(report, name_scorers(evidence.candidate))
    if suite.is_embedded:
        model = parse_embedding_options(suite).model
        caveat = f"similarity by {model}, which was not compared with people's judgement"
        report = _add_caveat(report, caveat)
    graded_in = suite.id if suite.comparing_judge else suite.source or suite.id
    if graded_in not in answered.qualifications:
        return report
    return apply_qualification(
        report, suite.id, answered.qualifications[graded_in], answered.graded[graded_in]
    )


def _add_caveat(report: ArmsReport, caveat: str | None) -> ArmsReport:
    """Return a report that says who or what scored, if it was not Gatemark."""
    if caveat is None:
        return report
    score = msgspec.structs.replace(report.score, caveats=(*report.score.caveats, caveat))
    return msgspec.structs.replace(report, score=score)
