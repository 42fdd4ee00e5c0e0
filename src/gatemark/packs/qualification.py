"""Whether a suite's judge may gate: asked about answers that people graded, and compared."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from gatemark.core.errors import BadInputError
from gatemark.core.figure import Table
from gatemark.core.measurement import Measurement, measured, unmeasured
from gatemark.core.policy import Rule
from gatemark.evidence.rows import Row, Snapshot, read_dataset
from gatemark.packs.grading import LICENCE, Graded, Graders, Items, judge_options, judge_spec
from gatemark.packs.pack import JudgeSpec, Pack, SuiteSpec
from gatemark.packs.suites.suite import ArmsReport
from gatemark.scorers.judge.grading import JudgeOptions, grade_replies
from gatemark.scorers.scorer import JudgeQualification, Scorable

METRIC = "judge_licence"
ONCE = 1
GATING = frozenset({"score", "baseline_score", "regression", "newly_broken_count"})
"""What an unlicensed judge may not say; the rest is printed for people."""


class LabelledSet(msgspec.Struct, frozen=True):
    """Answers that people graded: what the judge is shown, and what they said."""

    reference: str
    items: dict[tuple[str, int], Scorable]
    labels: dict[str, str]


class SuiteQualification(msgspec.Struct, frozen=True):
    """A judge's qualification in one suite, with the replies it rests on."""

    suite: str
    labels: str
    qualification: JudgeQualification
    graded: Graded


Labels = Callable[[str, JudgeSpec, JudgeOptions], LabelledSet]
"""Finds what people said, by the judge's name and spec, for a rubric."""


def labels_in(folder: Path) -> Labels:
    """Labels in the files that a pack names, found from its folder."""
    return lambda _name, judge, options: read_labels(folder / judge.labels, judge.labels, options)


def read_labels(path: Path, name: str, options: JudgeOptions) -> LabelledSet:
    """The labelled answers of a file."""
    return labelled_set(read_dataset(str(path), name), options)


def labelled_set(snapshot: Snapshot, options: JudgeOptions) -> LabelledSet:
    """Rows as labelled answers: each with an ``output`` and a ``label`` of the rubric."""
    name = snapshot.name
    known = {grade.label for grade in options.rubric}
    problems = [problem for row in snapshot.rows if (problem := _problem(row, known)) is not None]
    if problems:
        raise BadInputError(tuple(f"{name}: item {problem}" for problem in problems[:20]))
    return LabelledSet(
        reference=snapshot.reference,
        items={
            (row.id, ONCE): Scorable(row.id, row.input, row.target, row.extra["output"])
            for row in snapshot.rows
        },
        labels={row.id: str(row.extra["label"]) for row in snapshot.rows},
    )


def _problem(row: Row, known: set[str]) -> str | None:
    if row.extra.get("output") is None:
        return f"{row.id!r} has no output to grade"
    label = row.extra.get("label")
    if label not in known:
        return f"{row.id!r} has label {label!r}, the rubric has {', '.join(sorted(known))}"
    return None


async def qualify_judges(
    pack: Pack, graders: Graders, labels: Labels
) -> dict[str, SuiteQualification]:
    """The qualification of every suite's judge."""
    found = {}
    for suite in pack.suites:
        if suite.judge is not None:
            found[suite.id] = await _license(judge_spec(pack, suite), suite, graders, labels)
    return found


async def _license(
    judge: JudgeSpec, suite: SuiteSpec, graders: Graders, labels: Labels
) -> SuiteQualification:
    # Needs numpy, and only packs with a judge should pay for it.
    from gatemark.scorers.judge.qualification import judge_agreement  # noqa: PLC0415

    options = judge_options(suite)
    labelled = labels(str(suite.judge), judge, options)
    graded = await graders.grade(suite, LICENCE, labelled.items)
    qualification = judge_agreement(
        _labels_given(options, labelled.items, graded),
        labelled.labels,
        judge=graded.judge,
        gate=judge.licence_min,
        min_items=judge.min_items,
    )
    return SuiteQualification(suite.id, labelled.reference, qualification, graded)


def _labels_given(options: JudgeOptions, items: Items, graded: Graded) -> dict[str, str | None]:
    by_majority = msgspec.structs.replace(options, aggregate="majority")
    given: dict[str, str | None] = {}
    for key, item in items.items():
        score = grade_replies(by_majority, item, graded.replies[key])
        given[key[0]] = score.detail.get("grade")
    return given


def qualification_rule(suite: SuiteSpec, judge: JudgeSpec) -> Rule:
    """The rule that holds a verdict open while a judge has no qualification."""
    return Rule(
        id=f"{suite.id}.judge",
        metric=METRIC,
        lane=suite.id,
        op=">=",
        bound=judge.licence_min,
        min_n=judge.min_items,
        severity="hold",
    )


def with_qualification(
    report: ArmsReport, suite: str, found: SuiteQualification, graded: Graded
) -> ArmsReport:
    """A report by a judge: without numbers that need a qualification it lacks.

    A suite over another's answers depends on the other's judge, whose qualification is shown there.
    """
    unasked = found.graded.outages()
    if unasked:
        objection = f"the judge could not be asked about {len(unasked)} labelled answers"
    elif found.qualification.covers(graded.judge):
        objection = None
    elif found.qualification.judge != graded.judge:
        objection = "another judge graded than the one that was compared with people"
    else:
        objection = f"the judge may not gate: {found.qualification.reason}"
    own = suite == found.suite
    numbers = (*report.measurements, *((_measurement(found, objection),) if own else ()))
    return msgspec.structs.replace(
        report,
        score=_held(report.score, objection),
        baseline_score=_held(report.baseline_score, objection),
        measurements=tuple(
            _held(number, objection) if number.name in GATING else number for number in numbers
        ),
        figures=(*report.figures, *((_table(found),) if own else ())),
        delta_error=None if objection else report.delta_error,
    )


def _held(number: Measurement, objection: str | None) -> Measurement:
    if objection is None:
        return number
    return unmeasured(
        number.name, objection, direction=number.direction, n=number.n, lane=number.lane
    )


def _measurement(found: SuiteQualification, objection: str | None) -> Measurement:
    qualification = found.qualification
    lows = [low for low in (qualification.kappa_low, qualification.ac1_low) if low is not None]
    reached = len(lows) == 2 and min(lows) >= qualification.gate
    if len(lows) < 2 or found.graded.outages() or (objection is not None and reached):
        reason = objection or f"no lower bound of the judge's agreement (n={qualification.n})"
        return unmeasured(
            METRIC, reason, direction="higher_is_better", n=qualification.n, lane=found.suite
        )
    return measured(
        METRIC, min(lows), n=qualification.n, direction="higher_is_better", lane=found.suite
    )


def _table(found: SuiteQualification) -> Table:
    qualification = found.qualification
    rows = (
        ("may gate", "yes" if qualification.allowed else f"no: {qualification.reason}"),
        ("answers graded by people", qualification.n),
        ("kappa", _rounded(qualification.kappa)),
        ("kappa, lower bound", _rounded(qualification.kappa_low)),
        ("AC1", _rounded(qualification.ac1)),
        ("AC1, lower bound", _rounded(qualification.ac1_low)),
        ("needed", qualification.gate),
        ("judge", qualification.judge),
        ("labels", found.labels),
    )
    return Table(f"{found.suite}: the judge and people", ("fact", "value"), rows, len(rows))


def _rounded(number: float | None) -> float | None:
    return None if number is None else round(number, 4)
