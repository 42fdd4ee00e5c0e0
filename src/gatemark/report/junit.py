"""A result as JUnit XML for CI viewers; the complete evidence is in the JSON.

A failed rule is a ``failure``. A rule that could not be judged, or that makes the verdict
inconclusive, is an ``error``. A rule that was waived, soft-passed or only warns is ``skipped`` with
its reason. A verdict that no single rule explains gets its own test case, so the file never looks
better than the result.
"""

from __future__ import annotations

import io
from typing import Literal
from xml.etree import ElementTree as ET

from gatemark.core.policy import Finding
from gatemark.core.result import Result
from gatemark.report import words

Mark = Literal["failure", "error", "skipped"]


def render(result: Result) -> bytes:
    """Return one test suite with one test case per finding."""
    marks = [_choose_mark(finding, result) for finding in result.findings]
    verdict_mark = _find_unexplained(result, marks)
    everything = [*marks, verdict_mark] if verdict_mark else marks
    counts = {
        "tests": str(len(everything)),
        "failures": str(everything.count("failure")),
        "errors": str(everything.count("error")),
        "skipped": str(everything.count("skipped")),
        "time": f"{(result.finished_at - result.started_at).total_seconds():.3f}",
    }
    root = ET.Element("testsuites", {"name": "gatemark", **counts})
    suite = ET.SubElement(
        root,
        "testsuite",
        {
            "name": words.clean(result.title),
            "timestamp": result.started_at.strftime("%Y-%m-%dT%H:%M:%S"),
            **counts,
        },
    )
    _add_properties(suite, result)
    for finding, mark in zip(result.findings, marks, strict=True):
        message = str(finding.reason)
        text = "\n".join(dict.fromkeys((_format_sentence(finding), message)))
        case = _add_case(suite, result, finding.rule)
        if mark is not None:
            _explain(case, mark, message, text, finding.verdict)
    if verdict_mark:
        case, text = _add_case(suite, result, "verdict"), "\n".join(result.blockers)
        _explain(case, verdict_mark, result.blockers[0], text, result.verdict)
    ET.indent(root)
    stream = io.BytesIO()
    ET.ElementTree(root).write(stream, encoding="utf-8", xml_declaration=True)
    return stream.getvalue() + b"\n"


def _choose_mark(finding: Finding, result: Result) -> Mark | None:
    if finding.verdict == "pass":
        return None
    if result.verdict == "pass" and finding.rule in _find_substitutes(result):
        # The rule that it replaces was waived, or only warns.
        return "skipped"
    if finding.verdict in ("waived", "soft_pass") or finding.severity == "warn":
        return "skipped"
    if finding.verdict == "fail" and finding.severity != "hold":
        return "failure"
    return "error"


def _find_substitutes(result: Result) -> frozenset[str]:
    return frozenset(other.id for rule in result.policy.rules for other in rule.fallback_rules)


def _find_unexplained(result: Result, marks: list[Mark | None]) -> Mark | None:
    if result.verdict == "fail" and "failure" not in marks:
        return "failure"
    if result.verdict == "inconclusive" and "error" not in marks:
        return "error"
    return None


def _format_sentence(finding: Finding) -> str:
    word = words.VERDICT_WORDS[finding.verdict].lower()
    compared = words.against(finding)
    place = f" at the {compared}" if compared else ""
    got = words.observed(finding) if finding.observed is None else f"got {words.observed(finding)}"
    warning = "warning only, " if finding.severity == "warn" else ""
    return (
        f"{warning}{word}: {finding.metric} must be {words.bound(finding)}, "
        f"{got}{place} (n={finding.n})"
    )


def _add_properties(suite: ET.Element, result: Result) -> None:
    properties = ET.SubElement(suite, "properties")
    for name, value in (
        ("gatemark.result_id", result.id),
        ("gatemark.policy_digest", result.policy_digest),
        ("gatemark.pack_digest", result.pack.digest),
        ("gatemark.verdict", result.verdict),
    ):
        ET.SubElement(properties, "property", {"name": name, "value": words.clean(value)})


def _add_case(suite: ET.Element, result: Result, rule: str) -> ET.Element:
    names = {"classname": words.clean(result.pack.name), "name": words.clean(rule), "time": "0"}
    return ET.SubElement(suite, "testcase", names)


def _explain(case: ET.Element, mark: Mark, message: str, text: str, verdict: str) -> None:
    attributes = {"message": words.one_line(message)}
    if mark != "skipped":
        attributes["type"] = verdict
    ET.SubElement(case, mark, attributes).text = words.clean(text)
