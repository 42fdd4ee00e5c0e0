from __future__ import annotations

import pytest
from tests.samples.importers.peer_shapes import (
    BASELINE,
    CANDIDATE,
    COUNT,
    file_of,
    item,
    lost_and_gained,
    pydantic_report,
    read,
)

from gatemark.core.errors import BadInputError
from gatemark.samples.importer import LogExperiment, ReadOptions, importers

TOOL = "pydantic-evals"


def test_several_experiments_in_one_file_are_arms():
    reports = [pydantic_report(BASELINE), pydantic_report(CANDIDATE)]
    arms = importers().get(TOOL).arms([file_of(reports)], ReadOptions())
    assert arms == (LogExperiment("wrong5", COUNT), LogExperiment("wrong4", COUNT))
    with pytest.raises(BadInputError, match="1: 'wrong5', 2: 'wrong4'"):
        read(TOOL, reports)
    base, cand = (read(TOOL, reports, arm=arm) for arm in ("wrong5", "wrong4"))
    assert lost_and_gained(base, cand, "Equals") == (COUNT - 1, 4, 3)


def test_a_crashed_case_is_counted_and_the_true_rate_is_said():
    imported = read(TOOL, pydantic_report())
    errored = imported.samples[13]
    assert (errored.id, errored.scores) == (item(13), {})
    assert errored.error is not None
    assert errored.error.kind == "RuntimeError"
    assert (len(imported.samples), imported.errored_count) == (COUNT, 1)
    assert any(
        "Equals: pydantic-evals shows 0.789474 over 19" in note and "over all it is 0.75" in note
        for note in imported.notes
    )


def test_averages_in_the_dump_are_checked():
    report = pydantic_report()
    report["averages"] = {"assertions": {"Equals": 0.9}, "scores": {"closeness": 17 / 19}}
    imported = read(TOOL, report)
    assert {check.name: check.agrees for check in imported.checks} == {
        "Equals": False,
        "closeness": True,
    }
    assert any("Equals: the log says 0.9" in note for note in imported.notes)


def test_assertions_are_numbers_and_labels_are_tags():
    sample = read(TOOL, pydantic_report()).samples[0]
    assert sample.scores == {"closeness": 0.5, "Equals": 0.0}
    assert sample.tags == {"lane": "even", "label.band": "off"}
    assert sample.latency_ms == 6.0


def test_repeats_become_epochs_for_cases_and_failures():
    report = pydantic_report(crashed=None)
    case = report["cases"][0]
    report["cases"] = [case | {"name": "q [1/3]", "source_case_name": "q"}]
    report["cases"] += [case | {"name": "q [3/3]", "source_case_name": "q"}]
    report["failures"] = [{"name": "q [2/3]", "source_case_name": "q", "error_message": "boom"}]
    samples = read(TOOL, report).samples
    assert [(s.id, s.epoch, s.error is None) for s in samples] == [
        ("q", 1, True),
        ("q", 2, False),
        ("q", 3, True),
    ]


def test_brackets_in_a_name_that_is_no_repeat_stay():
    report = pydantic_report(crashed=None)
    report["cases"][0]["name"] = "q [2/3]"
    assert "q [2/3]" in {sample.id for sample in read(TOOL, report).samples}


def test_an_evaluator_that_crashed_gives_null_and_its_words():
    report = pydantic_report()
    report["cases"][1]["assertions"] = {}
    report["cases"][1]["evaluator_failures"] = [{"name": "Equals", "error_message": "no model"}]
    sample = read(TOOL, report).samples[1]
    assert sample.scores == {"closeness": 1.0, "Equals": None}
    assert sample.tags["error.Equals"] == "no model"
    report["cases"][1]["scores"] = {}
    sample = read(TOOL, report).samples[1]
    assert (sample.scores, sample.error and sample.error.message) == ({}, "no model")


def test_a_score_and_an_assertion_of_one_name_are_both_kept():
    report = pydantic_report()
    report["cases"][1]["assertions"]["closeness"] = {"value": False}
    scores = read(TOOL, report).samples[1].scores
    assert (scores["closeness"], scores["assertion/closeness"]) == (1.0, 0.0)


def test_reports_of_one_name_are_refused():
    with pytest.raises(BadInputError, match="two reports are called 'wrong5'"):
        read(TOOL, [pydantic_report(), pydantic_report()])
