from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest

from gatemark.samples.records import SCHEMA, Sample

FORM = SCHEMA.form("sample")


def paths_of(record: Any) -> list[str]:
    """Where a record is wrong, with the types' own places cut to the field."""
    try:
        sample = msgspec.json.decode(msgspec.json.encode(record), type=Sample)
    except msgspec.ValidationError as error:
        _, _, path = str(error).partition(" - at ")
        return [path.strip("`").replace("[...]", "") or "$"]
    return [problem.path for rule in FORM.rules for problem in rule(sample)]


@pytest.mark.parametrize("record", FORM.good)
def test_good_examples_are_admitted(record):
    assert paths_of(record) == []


@pytest.mark.parametrize("example", FORM.bad, ids=lambda example: example.title)
def test_bad_examples_are_refused_at_their_path(example):
    (path,) = paths_of(example.record)
    assert example.path == path or example.path.startswith(f"{path}.")


def test_the_contract_names_exactly_these_fields():
    assert {field.name for field in msgspec.structs.fields(Sample)} == {
        *("schema", "id", "epoch", "input", "target", "output", "scores", "confidence"),
        *("error", "latency_ms", "cluster", "tags", "origin", "cost", "tokens", "answered_at"),
    }


def test_schema_id_and_scores_must_be_written_and_the_rest_has_a_default():
    required = {field.name for field in msgspec.structs.fields(Sample) if field.required}
    assert required == {"schema", "id", "scores"}
    sample = msgspec.json.decode(
        b'{"schema":"gatemark.sample/1","id":"a","scores":{}}', type=Sample
    )
    assert (sample.epoch, sample.error, sample.tags) == (1, None, {})


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_not_finite_is_refused_even_when_built_in_memory(number):
    sample = Sample(schema="gatemark.sample/1", id="a", scores={"exact": number})
    problems = [problem for rule in FORM.rules for problem in rule(sample)]
    assert [problem.path for problem in problems] == ["$.scores.exact"]


def test_a_null_score_is_legal_without_an_error():
    assert paths_of({"schema": SCHEMA.name, "id": "a", "scores": {"exact": None}}) == []


def test_the_marks_point_to_the_form():
    assert SCHEMA.form_of(FORM.good[0]) is FORM
    assert SCHEMA.form_of({"qid": "Q1", "label": "VALID"}) is None
