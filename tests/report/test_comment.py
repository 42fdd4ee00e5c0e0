from __future__ import annotations

import json

import pytest
from hypothesis import given, settings

from gatemark.core.errors import IntegrityError, InvalidValueError, UsageError
from gatemark.core.result import Result, result_from_json
from gatemark.report.comment import MAX_BYTES, make_marker, render_comment
from gatemark.report.json_report import render_json
from gatemark.report.sarif import render_sarif

from .hostile import hostile_results
from .sample_results import FAILING, INCONCLUSIVE, PASSING, SAMPLES, finding, result


@pytest.mark.parametrize(
    ("judged", "word"), [(PASSING, "PASS"), (FAILING, "FAIL"), (INCONCLUSIVE, "INCONCLUSIVE")]
)
def test_the_comment_starts_with_its_marker_and_the_verdict(judged: Result, word: str) -> None:
    first, blank, second = render_comment(judged, "evals").splitlines()[:3]
    assert (first, blank) == ("<!-- gatemark:evals -->", "")
    assert second.endswith(f"Gatemark: {word}")


def _words(text: str) -> list[str]:
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    words = [row.split("|")[1].strip() for row in rows]
    return [word for word in words if word not in ("", "---")]


def test_broken_rules_come_first_and_those_that_hold_are_folded() -> None:
    shown, _, folded = render_comment(FAILING, "k").partition("<details>\n<summary>")
    assert _words(shown)[0] == "❌ FAIL"
    assert not [word for word in _words(shown) if "PASS" in word and "SOFT" not in word]
    held, _, _ = folded.partition("</details>")
    count = sum(finding.verdict == "pass" for finding in FAILING.findings)
    assert held.startswith(f"{count} rule")
    assert _words(held) == ["✅ PASS"] * count


def test_a_passing_comment_is_short() -> None:
    text = render_comment(PASSING, "k")
    shown = text.partition("<details>")[0]
    assert not _words(shown)
    assert f"<summary>{len(PASSING.findings)} rules hold</summary>" in text


def test_nothing_is_lost_when_rows_do_not_fit() -> None:
    """Rules that do not hold are shown before any that does."""
    many = [finding(f"s{n}.rule", "accuracy", "pass", reason="so " * 200) for n in range(300)]
    broken = finding("last.rule", "accuracy", "fail", reason="because")
    text = render_comment(result(findings=(*many, broken), verdict="fail", blockers=("b",)), "k")
    assert "last.rule" in text.partition("<details>")[0]
    assert "300 rules hold" in text
    assert "more rows" in text


def test_a_comment_of_many_rules_still_fits() -> None:
    many = [
        finding(f"suite-{number}.rule", "accuracy", "fail", reason="because " * 40)
        for number in range(900)
    ]
    text = render_comment(result(findings=tuple(many), verdict="fail", blockers=("b",)), "k")
    assert len(text.encode()) <= MAX_BYTES
    assert "more rows" in text


@settings(max_examples=50)
@given(judged=hostile_results())
def test_no_text_of_a_result_forges_a_marker_or_a_second_verdict(judged: Result) -> None:
    text = render_comment(judged, "k")
    assert text.count("<!--") == 1
    assert sum(line.startswith("## ") for line in text.splitlines()) == 1
    assert len(text.encode()) <= MAX_BYTES


@pytest.mark.parametrize("key", ["", "a b", "x" * 65, "--> <b>", "-a"])
def test_a_key_that_could_end_the_marker_is_refused(key: str) -> None:
    with pytest.raises(UsageError, match="comment key"):
        make_marker(key)


@pytest.mark.parametrize("judged", SAMPLES.values(), ids=SAMPLES)
def test_a_result_comes_back_from_its_json_file(judged: Result) -> None:
    assert result_from_json(render_json(judged)).id == judged.id


def test_a_changed_json_file_is_found() -> None:
    document = json.loads(render_json(FAILING))
    document["verdict"] = "pass"
    with pytest.raises(IntegrityError, match="does not verify"):
        result_from_json(json.dumps(document).encode())


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b'{"id": 3}', b"\xff", b"[" * 5000])
def test_what_is_not_a_result_is_refused(text: bytes) -> None:
    with pytest.raises(InvalidValueError, match="not a sealed result"):
        result_from_json(text)


@pytest.mark.parametrize("judged", SAMPLES.values(), ids=SAMPLES)
def test_sarif_is_never_greener_than_the_verdict(judged: Result) -> None:
    (run,) = json.loads(render_sarif(judged, "evals/pack.yaml"))["runs"]
    levels = {entry["level"] for entry in run["results"]}
    assert ("error" in levels) == (judged.verdict != "pass")
    known = {rule["id"] for rule in run["tool"]["driver"]["rules"]}
    assert {entry["ruleId"] for entry in run["results"]} == known
    for entry in run["results"]:
        (place,) = entry["locations"]
        assert place["physicalLocation"]["artifactLocation"]["uri"] == "evals/pack.yaml"
