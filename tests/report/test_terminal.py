from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from rich.cells import cell_len

from gatemark.core.result import Result
from gatemark.report import words
from gatemark.report.terminal import verdict_table

from .hostile import hostile_results
from .sample_results import FAILING, INCONCLUSIVE, PASSING, SAMPLES, WAIVED, finding, result


@pytest.mark.parametrize("color", [True, False])
@pytest.mark.parametrize("name", SAMPLES)
def test_the_last_line_is_the_result_id(name: str, color: bool) -> None:
    text = verdict_table(SAMPLES[name], color=color)
    assert text.endswith("\n" + SAMPLES[name].id + "\n")


@pytest.mark.parametrize("name", SAMPLES)
def test_plain_text_has_no_escape_codes_and_fits_eighty_columns(name: str) -> None:
    text = verdict_table(SAMPLES[name], color=False)
    assert "\x1b" not in text
    assert all(len(line) <= 80 and line == line.rstrip() for line in text.splitlines())


def test_colour_changes_only_escape_codes() -> None:
    coloured = verdict_table(FAILING, color=True)
    assert "\x1b[" in coloured
    bare = re.sub(r"\x1b\[[0-9;]*m", "", coloured)
    plain = verdict_table(FAILING, color=False)
    assert [line.rstrip() for line in bare.splitlines()] == plain.splitlines()


def test_a_row_shows_observed_bound_slack_n_and_verdict() -> None:
    row = next(x for x in verdict_table(FAILING, color=False).splitlines() if "kappa " in x[:8])
    assert row.split() == ["kappa", "0.6120", ">=", "0.75", "-0.1380", "240", "FAIL"]


def test_the_first_line_is_the_verdict() -> None:
    assert verdict_table(PASSING, color=False).startswith("PASS  Label agreement")
    assert verdict_table(INCONCLUSIVE, color=False).startswith("INCONCLUSIVE  ")


def test_an_unmeasured_rule_is_said_to_be_not_measured() -> None:
    assert re.search(r"kappa +not measured", verdict_table(INCONCLUSIVE, color=False))


def test_a_broken_rule_that_only_warns_says_so() -> None:
    assert "FAIL (warn)" in verdict_table(WAIVED, color=False)


def test_long_rule_names_are_folded_and_not_lost() -> None:
    long = "suite.golden." + "very_long_metric_name" * 6
    judged = result(findings=(finding(long, "m", "pass", observed=0.95, slack=0.05),))
    text = verdict_table(judged, color=False)
    assert all(len(line) <= 80 for line in text.splitlines())
    first_cells = "".join(
        line.split(" ")[0] for line in text.splitlines()[3:] if not line.startswith(("Cav", "sha"))
    )
    assert long in first_cells


@settings(deadline=None, max_examples=60)
@given(hostile_results())
def test_any_text_leaves_the_terminal_alone(judged: Result) -> None:
    text = verdict_table(judged, color=False)
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text)
    assert text.splitlines()[-1] == judged.id
    assert all(cell_len(line) <= 80 for line in text.splitlines())
    assert words.VERDICT_WORDS[judged.verdict] in text.splitlines()[0]


def test_a_rule_of_usual_length_stays_on_one_line() -> None:
    rules = ("evidence.complete", "overhead.plausible")
    found = tuple(
        finding(rule, "m", "inconclusive", op="<=", bound=0.01 + 1e-12, observed=None, slack=None)
        for rule in rules
    )
    text = verdict_table(result(findings=found), color=False)
    assert all(any(line.startswith(rule + " ") for line in text.splitlines()) for rule in rules)
