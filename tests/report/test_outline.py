from __future__ import annotations

import msgspec
import pytest

from gatemark.core.measurement import measured
from gatemark.core.policy import Policy, Rule, Waiver
from gatemark.report import outline, words

from .sample_results import (
    EVIDENCE,
    INCONCLUSIVE,
    KAPPA,
    NO_KAPPA,
    PASSING,
    STARTED_AT,
    TABLE,
    WAIVED,
    finding,
    result,
)


def test_findings_of_two_lanes_are_told_apart_by_their_rules() -> None:
    numbers = tuple(
        measured("rate", value, n=9, direction="higher_is_better", scope=scope)
        for value, scope in ((0.95, "a"), (0.85, "b"))
    )
    rules = tuple(
        Rule(id=f"rate.{scope}", metric="rate", op=">=", bound=bound, scope=scope)
        for bound, scope in ((0.9, "a"), (0.8, "b"))
    )
    findings = tuple(
        finding(rule.id, "rate", "pass", bound=rule.bound, observed=0.95, slack=0.05)
        for rule in rules
    )
    judged = result(policy=Policy("p", rules), measurements=numbers, findings=findings)
    assert outline.findings_about(judged, numbers[0]) == findings[:1]
    assert outline.findings_about(judged, numbers[1]) == findings[1:]


def test_rules_that_judge_instead_keep_their_measurement() -> None:
    lower = finding(
        "kappa.pa_lower", "agreement.percent", "pass", bound=0.85, observed=0.9, slack=0.05
    )
    judged = result(findings=(lower,))
    assert outline.findings_about(judged, judged.measurements[0]) == (lower,)
    assert outline.findings_about(judged, KAPPA) == ()


def test_a_finding_of_an_unknown_rule_is_matched_by_metric_alone() -> None:
    stray = finding("elsewhere", "agreement.kappa", "pass", observed=0.8, slack=0.05)
    assert outline.findings_about(result(findings=(stray,)), KAPPA) == (stray,)


def test_every_caveat_is_told_once_and_with_its_number() -> None:
    twice = msgspec.structs.replace(NO_KAPPA, caveats=("small", "small"))
    judged = result(caveats=("late", "late"), measurements=(twice,))
    assert words.caveats(judged) == ("late", "agreement.kappa: small")


@pytest.mark.parametrize(("days_over", "words_added"), [(False, ""), (True, " (already over)")])
def test_a_waiver_that_is_over_says_so(days_over: bool, words_added: str) -> None:
    waiver = WAIVED.waivers[0]
    if days_over:
        waiver = Waiver(waiver.rule, waiver.owner, waiver.reason, STARTED_AT)
    until = outline.waiver_lines(result(waivers=(waiver,)))[0][3]
    assert until.endswith("Z" + words_added)


def test_evidence_nobody_pinned_is_not_expected_to_be_zero() -> None:
    open_end = msgspec.structs.replace(EVIDENCE, expected=None)
    rows = outline.tabulate_account((EVIDENCE, open_end)).rows
    assert [row[-1] for row in rows] == ["248", "not pinned"]


def test_a_bench_without_a_value_keeps_its_reason() -> None:
    (line,) = outline.bench_lines(INCONCLUSIVE)
    assert (line.value, line.reason, line.bound) == (None, "suite recent has no score", "≥ 0.85")
    assert [line.value for line in outline.bench_lines(PASSING)] == ["0.9121", "0.0042"]


def test_columns_of_numbers_are_known_even_with_gaps() -> None:
    grid = outline.figure_grid(TABLE, rows_max=2)
    assert grid.numeric == (False, False, False, True, False, False)
    assert (len(grid.rows), grid.more_rows) == (2, 12)
