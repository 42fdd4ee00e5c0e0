"""Whether a judge may gate: its agreement with people on answers that both graded."""

from __future__ import annotations

from typing import Final

import msgspec

from gatemark.core.measurement import Measurement, measured, unmeasured
from gatemark.core.policy import Rule
from gatemark.core.reason import Reason, ReasonKind
from gatemark.core.result import Table
from gatemark.packs.graders import Graders, find_judge_task
from gatemark.packs.judge_replies import QUALIFICATION, Graded
from gatemark.packs.judge_spec import JudgeSpec
from gatemark.packs.labelled_answers import Labels, make_labelled_set
from gatemark.packs.pack import Pack
from gatemark.packs.suite_spec import SuiteSpec
from gatemark.packs.suites.suite import PREFERRED, ArmsReport
from gatemark.scorers.scorer import JudgeQualification


def find_judge_spec(pack: Pack, suite: SuiteSpec) -> JudgeSpec:
    """Return the judge of a suite."""
    return pack.judges[str(suite.judge)]


JUDGE_NOT_ASKED: Final = ReasonKind(
    "judge_not_asked", "the judge could not be asked about {count} labelled answers"
)
ANOTHER_JUDGE: Final = ReasonKind(
    "another_judge", "another judge graded than the one that was compared with people"
)
JUDGE_MAY_NOT_GATE: Final = ReasonKind("judge_may_not_gate", "the judge may not gate: {because}")
JUDGE_WITHOUT_BOUND: Final = ReasonKind(
    "judge_without_bound", "no lower bound of the judge's agreement (n={n})"
)
METRIC = "judge_qualification"
GATING = frozenset({"score", "baseline_score", "regression", "newly_broken_count", PREFERRED})
"""Numbers that are withheld while a judge is not qualified."""


class SuiteQualification(msgspec.Struct, frozen=True):
    """A judge's qualification in one suite, with the replies behind it."""

    suite: str
    labels: str
    qualification: JudgeQualification
    graded: Graded


async def qualify_judges(
    pack: Pack, graders: Graders, labels: Labels
) -> dict[str, SuiteQualification]:
    """Return the qualification of every suite's judge."""
    found = {}
    for suite in pack.suites:
        if suite.judge is not None:
            found[suite.id] = await _qualify_judge(
                find_judge_spec(pack, suite), suite, graders, labels
            )
    return found


async def _qualify_judge(
    judge: JudgeSpec, suite: SuiteSpec, graders: Graders, labels: Labels
) -> SuiteQualification:
    # Needs numpy, which only packs with a judge should load.
    from gatemark.scorers.judge.qualification import judge_agreement  # noqa: PLC0415

    task = find_judge_task(suite)
    labelled = make_labelled_set(labels(str(suite.judge)), task)
    graded = await graders.grade(suite, QUALIFICATION, labelled.items)
    qualification = judge_agreement(
        {key[0]: task.label(item, graded.replies[key]) for key, item in labelled.items.items()},
        labelled.labels,
        judge=graded.judge,
        gate=judge.qualification_min,
        min_items=judge.min_items,
    )
    return SuiteQualification(suite.id, labelled.reference, qualification, graded)


def make_qualification_rule(suite: SuiteSpec, judge: JudgeSpec) -> Rule:
    """Return the rule that makes a verdict inconclusive while a judge is not qualified."""
    least = judge.qualification_min
    return suite.rule("judge", METRIC, ">=", least, severity="hold", min_n=judge.min_items)


def apply_qualification(
    report: ArmsReport, suite: str, found: SuiteQualification, graded: Graded
) -> ArmsReport:
    """Return a judge's report, without numbers if the judge is not qualified.

    A suite over another's answers depends on the other's judge, whose qualification is shown there.
    """
    unasked = found.graded.outages()
    objection: Reason | None
    if unasked:
        objection = JUDGE_NOT_ASKED(count=len(unasked))
    elif found.qualification.covers(graded.judge):
        objection = None
    elif found.qualification.judge != graded.judge:
        objection = ANOTHER_JUDGE()
    else:
        objection = JUDGE_MAY_NOT_GATE(because=found.qualification.reason)
    own = suite == found.suite
    numbers = (*report.measurements, *((_measure_agreement(found, objection),) if own else ()))
    return msgspec.structs.replace(
        report,
        score=_withhold(report.score, objection),
        baseline_score=_withhold(report.baseline_score, objection),
        measurements=tuple(
            _withhold(number, objection) if number.name in GATING else number for number in numbers
        ),
        figures=(*report.figures, *((_make_table(found),) if own else ())),
        delta_error=None if objection else report.delta_error,
    )


def _withhold(number: Measurement, objection: Reason | None) -> Measurement:
    if objection is None:
        return number
    return unmeasured(
        number.name, objection, direction=number.direction, n=number.n, scope=number.scope
    )


def _measure_agreement(found: SuiteQualification, objection: Reason | None) -> Measurement:
    qualification = found.qualification
    lows = [low for low in (qualification.kappa_low, qualification.ac1_low) if low is not None]
    reached = len(lows) == 2 and min(lows) >= qualification.gate
    if len(lows) < 2 or found.graded.outages() or (objection is not None and reached):
        reason = objection or JUDGE_WITHOUT_BOUND(n=qualification.n)
        return unmeasured(
            METRIC, reason, direction="higher_is_better", n=qualification.n, scope=found.suite
        )
    return measured(
        METRIC, min(lows), n=qualification.n, direction="higher_is_better", scope=found.suite
    )


def _make_table(found: SuiteQualification) -> Table:
    qualification = found.qualification
    rows = (
        ("may gate", "yes" if qualification.allowed else f"no: {qualification.reason}"),
        ("answers graded by people", qualification.n),
        ("kappa", _round_number(qualification.kappa)),
        ("kappa, lower bound", _round_number(qualification.kappa_low)),
        ("AC1", _round_number(qualification.ac1)),
        ("AC1, lower bound", _round_number(qualification.ac1_low)),
        ("needed", qualification.gate),
        ("judge", qualification.judge),
        ("labels", found.labels),
    )
    return Table(f"{found.suite}: the judge and people", ("fact", "value"), rows, len(rows))


def _round_number(number: float | None) -> float | None:
    return None if number is None else round(number, 4)
