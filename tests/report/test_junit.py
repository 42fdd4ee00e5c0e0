from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings

from gatemark.core.result import Result
from gatemark.report import words
from gatemark.report.junit import render

from .hostile import hostile_results
from .sample_results import (
    FAILING,
    INCONCLUSIVE,
    KAPPA_BROKEN,
    PA_HOLDS,
    PASSING,
    SAMPLES,
    WAIVED,
    finding,
    result,
)


def suite_of(judged: Result) -> ET.Element:
    root = ET.fromstring(render(judged))
    suites = root.findall("testsuite")
    assert root.tag == "testsuites"
    assert len(suites) == 1
    return suites[0]


def marks_of(judged: Result) -> list[tuple[str | None, list[str]]]:
    return [
        (case.get("name"), [child.tag for child in case])
        for case in suite_of(judged).iter("testcase")
    ]


def test_a_held_rule_is_a_bare_test_case() -> None:
    assert marks_of(PASSING) == [("pa", []), ("kappa", []), ("abstain", []), ("latency", [])]


def test_a_broken_rule_is_a_failure_with_its_numbers() -> None:
    failure = suite_of(FAILING).find("testcase[@name='kappa']/failure")
    assert failure is not None
    assert failure.get("message") == "agreement.kappa must be >= 0.75, got 0.612 (n=240)"
    assert failure.text is not None
    assert failure.text.startswith("fail: agreement.kappa must be >= 0.75, got 0.6120 (n=240)")


def test_a_rule_that_could_not_be_judged_is_an_error() -> None:
    error = suite_of(INCONCLUSIVE).find("testcase[@name='kappa']/error")
    assert error is not None
    assert error.get("message") == "both raters used a single label, so chance agreement is 1"


def test_waived_soft_and_warning_rules_are_skipped_with_a_reason() -> None:
    assert marks_of(WAIVED) == [
        ("pa", []),
        ("kappa", ["skipped"]),
        ("overhead", ["skipped"]),
        ("latency", ["skipped"]),
    ]
    messages = [skipped.get("message") or "" for skipped in suite_of(WAIVED).iter("skipped")]
    assert messages[0].startswith("waived by ana.kovac until 2025-04-01")
    assert "warning only, fail" in (suite_of(WAIVED).findtext("testcase[4]/skipped") or "")


def test_a_broken_rule_that_only_holds_the_verdict_is_an_error() -> None:
    held = result(
        verdict="inconclusive",
        findings=(finding("r", "m", "fail", severity="hold", observed=0.1, slack=-0.8),),
        blockers=("r holds the verdict",),
    )
    assert marks_of(held) == [("r", ["error"])]


@pytest.mark.parametrize(("verdict", "mark"), [("fail", "failure"), ("inconclusive", "error")])
def test_a_verdict_that_no_rule_explains_gets_its_own_case(verdict: str, mark: str) -> None:
    judged = result(
        verdict=verdict, findings=(PA_HOLDS,), blockers=("bench score must be >= 0.85, got 0.8",)
    )
    assert marks_of(judged) == [("pa", []), ("verdict", [mark])]


@pytest.mark.parametrize("name", SAMPLES)
def test_the_counts_of_a_suite_add_up(name: str) -> None:
    suite = suite_of(SAMPLES[name])
    counted = {
        "tests": len(suite.findall("testcase")),
        "failures": len(suite.findall("testcase/failure")),
        "errors": len(suite.findall("testcase/error")),
        "skipped": len(suite.findall("testcase/skipped")),
    }
    assert {key: int(suite.get(key, "-1")) for key in counted} == counted


def test_properties_carry_the_result_id_and_the_policy_digest() -> None:
    properties = {p.get("name"): p.get("value") for p in suite_of(FAILING).iter("property")}
    assert properties["gatemark.result_id"] == FAILING.id
    assert properties["gatemark.policy_digest"] == FAILING.policy_digest
    assert properties["gatemark.verdict"] == "fail"


def test_a_class_name_is_the_pack_and_a_name_is_the_rule() -> None:
    case = suite_of(result(verdict="fail", findings=(KAPPA_BROKEN,), blockers=("x",)))[1]
    assert (case.get("classname"), case.get("name")) == ("support-triage", "kappa")


@settings(deadline=None, max_examples=40)
@given(hostile_results())
def test_any_text_leaves_the_xml_well_formed(judged: Result) -> None:
    suite = suite_of(judged)
    names = [case.get("name") for case in suite.iter("testcase")]
    expected = [words.clean(item.rule) for item in judged.findings]
    assert names[: len(expected)] == expected
    assert {element.tag for element in suite.iter()} <= {
        "testsuite",
        "properties",
        "property",
        "testcase",
        "failure",
        "error",
        "skipped",
    }
    assert suite.findall("testcase/failure") or suite.findall("testcase/error")
    assert not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f]", render(judged).decode())
