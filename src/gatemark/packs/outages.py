"""Calls that could not be made, and what they do to a suite.

Counting an outage as a wrong answer would fail a candidate for somebody else's network; leaving the
items out would base a number on those that happened to arrive. So a suite with such items has no
score, and the verdict is inconclusive, whichever arm or judge could not be called. Answers still
count if more answers cannot change the finding: a broken probe stays broken.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from gatemark.core.measurement import Measurement, unmeasured
from gatemark.core.reason import Reason, ReasonKind
from gatemark.packs.answers import Answer
from gatemark.packs.conditions import ASKED
from gatemark.packs.suites.suite import ArmsEvidence, ArmsReport
from gatemark.targets.port import OUTAGES

CALLS_NOT_MADE: Final = ReasonKind(
    "calls_not_made",
    "{candidate} calls of the candidate and {baseline} calls of the baseline could not be asked",
)
BROKEN_PROBES = "newly_broken_count"
SHOWN_LENGTH = 300


def select_asked(answers: Sequence[Answer]) -> tuple[Answer, ...]:
    """Return the answers to what could be asked."""
    return tuple(answer for answer in answers if answer.error not in OUTAGES)


def find_outage_condition(arms: Mapping[str, Mapping[str, Sequence[Answer]]]) -> dict[str, str]:
    """Return the condition that holds a verdict open when something could not be asked."""
    reasons = []
    for arm, suites in arms.items():
        # A suite over another's answers has the same answers.
        each_once = {id(answers): answers for answers in suites.values()}.values()
        lost = [answer for answers in each_once for answer in _select_lost(answers)]
        total = sum(len(answers) for answers in each_once)
        if lost:
            reason = " ".join((lost[0].reason or "no reason was given").split())[:SHOWN_LENGTH]
            reasons.append(f"{lost[0].error}: {reason} ({arm}: {len(lost)} of {total} calls)")
    return {ASKED: "; ".join(reasons)} if reasons else {}


def remove_outages(evidence: ArmsEvidence) -> ArmsEvidence:
    """Return the evidence without what could not be asked, of either arm."""
    baseline = None if evidence.baseline is None else select_asked(evidence.baseline)
    return msgspec.structs.replace(
        evidence, candidate=select_asked(evidence.candidate), baseline=baseline
    )


def find_outage_objection(evidence: ArmsEvidence) -> Reason | None:
    """Return why a suite has no score if some calls in it could not be made, or None."""
    candidate = len(_select_lost(evidence.candidate))
    baseline = len(_select_lost(evidence.baseline or ()))
    counts = {"candidate": candidate, "baseline": baseline}
    calls = [f"{count} calls of the {arm}" for arm, count in counts.items() if count]
    if not calls:
        return None
    text = f"{' and '.join(calls)} could not be asked"
    return CALLS_NOT_MADE.word(text, candidate=candidate, baseline=baseline)


def withhold_report(report: ArmsReport, objection: Reason) -> ArmsReport:
    """Return a report without numbers that the missing answers could change."""
    return ArmsReport(
        score=_withhold(report.score, objection),
        baseline_score=_withhold(report.baseline_score, objection),
        measurements=tuple(
            number
            if number.name == BROKEN_PROBES and number.value
            else _withhold(number, objection)
            for number in report.measurements
        ),
        figures=report.figures,
        delta_error=None,
    )


def _select_lost(answers: Sequence[Answer]) -> list[Answer]:
    return [answer for answer in answers if answer.error in OUTAGES]


def _withhold(number: Measurement, objection: Reason) -> Measurement:
    return unmeasured(
        number.name,
        objection,
        direction=number.direction,
        unit=number.unit,
        n=number.n,
        version=number.version,
        scope=number.scope,
    )
