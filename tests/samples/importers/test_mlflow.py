from __future__ import annotations

import pytest
from tests.samples.importers.peer_shapes import (
    BASELINE,
    CANDIDATE,
    COUNT,
    dumped,
    file_of,
    item,
    lost_and_gained,
    mlflow_rows,
    read,
)

from gatemark.core.errors import BadInputError
from gatemark.samples.importer import LogExperiment, ReadOptions, importers


def test_two_runs_in_one_frame_are_arms_with_four_lost_and_three_gained():
    rows = mlflow_rows(BASELINE, "run-a") + mlflow_rows(CANDIDATE, "run-b")
    arms = importers().get("mlflow").arms([file_of(rows)], ReadOptions())
    assert arms == (LogExperiment("run-a", COUNT), LogExperiment("run-b", COUNT))
    with pytest.raises(BadInputError, match="1: 'run-a', 2: 'run-b'"):
        read("mlflow", rows)
    base, cand = (read("mlflow", rows, arm=arm) for arm in ("run-a", "run-b"))
    assert lost_and_gained(base, cand, "exact") == (COUNT, 4, 3)


def test_columns_and_lines_give_the_same_samples_as_records():
    rows = mlflow_rows()
    expected = read("mlflow", rows).samples
    columns = {name: {str(n): row[name] for n, row in enumerate(rows)} for name in rows[0]}
    assert read("mlflow", columns).samples == expected
    assert read("mlflow", b"\n".join(dumped(row) for row in rows)).samples == expected


def test_expectations_are_the_target_and_not_a_score():
    sample = read("mlflow", mlflow_rows()).samples[1]
    assert sample.target == "2"
    assert sample.scores == {"exact": 1.0, "closeness": 1.0}
    assert sample.latency_ms == 12.0


def test_expectations_are_known_by_name_when_assessments_are_gone():
    rows = mlflow_rows()
    for row in rows:
        del row["assessments"]
        row["expected_facts/value"] = ["even"]
    sample = read("mlflow", rows).samples[0]
    assert sample.target == {"expected_response": "0", "expected_facts": ["even"]}


def test_rows_without_a_case_id_are_named_by_the_digest_of_their_request():
    rows = mlflow_rows()
    for row in rows:
        row["tags"] = {}
    imported = read("mlflow", rows)
    assert all(sample.id.startswith("sha256:") for sample in imported.samples)
    assert len({sample.id for sample in imported.samples}) == COUNT
    assert any("digest of the request" in note for note in imported.notes)
    assert read("mlflow", rows, id_path="request.question").samples[0].id == "0+0"


def test_two_rows_with_the_same_request_and_no_case_id_are_epochs_of_one_item():
    rows = mlflow_rows()
    for row in rows:
        row["tags"] = {}
    rows[1]["request"] = rows[0]["request"]
    samples = read("mlflow", rows).samples
    assert sorted(sample.epoch for sample in samples) == [1] * 19 + [2]


def test_one_case_id_with_two_requests_is_refused():
    rows = mlflow_rows()
    rows[1]["tags"] = rows[0]["tags"]
    with pytest.raises(BadInputError, match="repeat an id"):
        read("mlflow", rows)


def test_yes_and_no_are_numbers_and_other_words_are_tags():
    rows = mlflow_rows()
    rows[0]["safety/value"], rows[1]["safety/value"] = "yes", "no"
    rows[2]["tone/value"] = "polite"
    samples = read("mlflow", rows).samples
    assert (samples[0].scores["safety"], samples[1].scores["safety"]) == (1.0, 0.0)
    assert samples[2].tags["label.tone"] == "polite"
    assert "tone" not in samples[2].scores


def test_a_trace_that_ended_in_error_is_an_error():
    rows = mlflow_rows()
    rows[3]["state"] = "ERROR"
    imported = read("mlflow", rows)
    assert imported.samples[3].scores == {}
    assert imported.samples[3].error is not None
    assert imported.errored_count == 1


def test_a_scorer_that_crashed_gives_null_and_its_words():
    rows = mlflow_rows()
    rows[3]["exact/value"] = None
    rows[3]["assessments"][0]["feedback"] = {"value": None, "error": {"error_message": "no key"}}
    sample = read("mlflow", rows).samples[3]
    assert (sample.scores, sample.tags["error.exact"]) == (
        {"exact": None, "closeness": 1.0},
        "no key",
    )
    rows[3]["closeness/value"] = None
    sample = read("mlflow", rows).samples[3]
    assert (sample.scores, sample.error and sample.error.message) == ({}, "no key")


def test_a_row_without_any_number_is_an_error():
    rows = mlflow_rows()
    rows[3] |= {"exact/value": None, "closeness/value": None}
    error = read("mlflow", rows).samples[3].error
    assert error is not None
    assert error.kind == "unscored"


def test_an_assessment_edited_after_the_fact_is_noted():
    rows = mlflow_rows()
    rows[0]["assessments"][0]["feedback"]["value"] = True
    (note,) = read("mlflow", rows).notes
    assert "exact is 0 in its column and 1 in its assessment" in note


def test_the_tools_own_tags_do_not_travel():
    assert read("mlflow", mlflow_rows()).samples[0].tags == {"case_id": item(0)}


def test_columns_of_unequal_length_are_refused():
    rows = mlflow_rows()
    columns = {name: {str(n): row[name] for n, row in enumerate(rows)} for name in rows[0]}
    del columns["response"]["3"]
    with pytest.raises(BadInputError, match="'response' does not have the same rows"):
        read("mlflow", columns)


def test_a_row_that_is_no_object_is_refused_and_counted():
    imported = read("mlflow", [*mlflow_rows(), 7])
    assert [refusal.reason for refusal in imported.refused] == ["a row must be an object, got int"]
