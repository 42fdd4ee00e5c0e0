"""What a run was like, where that bears on its verdict: rules that exist only when they apply.

A condition that holds keeps a run from passing and cannot be waived; one that warns is a caveat on
the first page. Each is kept among the settings of the sealed policy, so that judging the same
evidence again comes to the same rules.

One condition is that everything could be asked. Counting an outage as a wrong answer would fail a
candidate for somebody else's network; leaving the items out would let a number rest on those that
happened to arrive. So a suite with such items has no score, and the verdict is held open, whichever
arm or judge could not be asked. What was answered still counts where more answers cannot mend it: a
probe that broke stays broken.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from gatemark.core.errors import BadInputError
from gatemark.core.measurement import Measurement, unmeasured
from gatemark.core.policy import Rule, Severity, Waiver
from gatemark.core.result import Result
from gatemark.packs.answers import Answer
from gatemark.packs.suites.suite import ArmsEvidence, ArmsReport
from gatemark.targets.port import OUTAGES

ASKED: Final = "run.asked"
CONTRADICTED: Final = "run.contradicted"
IN_PROCESS: Final = "run.in_process"
ISOLATED: Final = "run.isolated"
CACHED: Final = "run.cached"

SEVERITIES: Final[Mapping[str, Severity]] = {
    CONTRADICTED: "hold",
    ASKED: "hold",
    IN_PROCESS: "hold",
    ISOLATED: "warn",
    CACHED: "warn",
}
"""In the order in which they are spoken of."""

Conditions = Mapping[str, str]
"""Why each condition that applies does so."""


def condition_rules(conditions: Conditions) -> tuple[Rule, ...]:
    """Return one rule per condition; none of them can be met."""
    return tuple(
        Rule(id=name, metric=name, op=">=", bound=1.0, severity=severity)
        for name, severity in SEVERITIES.items()
        if name in conditions
    )


def condition_measurements(conditions: Conditions) -> tuple[Measurement, ...]:
    """Return what the rules of the conditions look at: no number, and the reason."""
    return tuple(
        unmeasured(name, conditions[name], direction="higher_is_better")
        for name in SEVERITIES
        if name in conditions
    )


def conditions_of(result: Result) -> dict[str, str]:
    """Return the conditions under which a sealed result was made."""
    settings = result.policy.settings
    return {name: str(settings[name]) for name in SEVERITIES if name in settings}


def refuse_waived_conditions(waivers: Sequence[Waiver]) -> None:
    """Refuse waivers for conditions that nobody can excuse."""
    for waiver in waivers:
        if SEVERITIES.get(waiver.rule) == "hold":
            raise BadInputError(f"{waiver.rule} cannot be waived: such a run never passes")


BROKEN_PROBES = "newly_broken_count"
SHOWN_LENGTH = 300


def asked(answers: Sequence[Answer]) -> tuple[Answer, ...]:
    """Return the answers to what could be asked."""
    return tuple(answer for answer in answers if answer.error not in OUTAGES)


def outage_condition(arms: Mapping[str, Mapping[str, Sequence[Answer]]]) -> dict[str, str]:
    """Return the condition that holds a verdict open when something could not be asked."""
    told = []
    for arm, suites in arms.items():
        # A suite that looks at another's answers has the very same ones.
        told_once = {id(answers): answers for answers in suites.values()}.values()
        lost = [answer for answers in told_once for answer in _lost(answers)]
        total = sum(len(answers) for answers in told_once)
        if lost:
            reason = " ".join((lost[0].reason or "no reason was given").split())[:SHOWN_LENGTH]
            told.append(f"{lost[0].error}: {reason} ({arm}: {len(lost)} of {total} calls)")
    return {ASKED: "; ".join(told)} if told else {}


def without_outages(evidence: ArmsEvidence) -> ArmsEvidence:
    """Return the evidence without what could not be asked, of either arm."""
    baseline = None if evidence.baseline is None else asked(evidence.baseline)
    return msgspec.structs.replace(evidence, candidate=asked(evidence.candidate), baseline=baseline)


def outage_objection(evidence: ArmsEvidence) -> str | None:
    """Say why a suite has no score, when something in it could not be asked."""
    counts = {
        "candidate": len(_lost(evidence.candidate)),
        "baseline": len(_lost(evidence.baseline or ())),
    }
    told = [f"{count} calls of the {arm}" for arm, count in counts.items() if count]
    return f"{' and '.join(told)} could not be asked" if told else None


def held_report(report: ArmsReport, objection: str) -> ArmsReport:
    """Return a report without numbers that the missing answers could change."""
    return ArmsReport(
        score=_held(report.score, objection),
        baseline_score=_held(report.baseline_score, objection),
        measurements=tuple(
            number if number.name == BROKEN_PROBES and number.value else _held(number, objection)
            for number in report.measurements
        ),
        figures=report.figures,
        delta_error=None,
    )


def _lost(answers: Sequence[Answer]) -> list[Answer]:
    return [answer for answer in answers if answer.error in OUTAGES]


def _held(number: Measurement, objection: str) -> Measurement:
    return unmeasured(
        number.name,
        objection,
        direction=number.direction,
        unit=number.unit,
        n=number.n,
        version=number.version,
        lane=number.lane,
    )
