from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given, settings

from gatemark.core.canonical import digest
from gatemark.core.errors import InvalidValueError
from gatemark.core.policy import Bench
from gatemark.core.result import OCCASION, Result, verify_seal
from gatemark.report.json_report import render_json, render_jsonl

from .hostile import hostile_results
from .sample_results import FAILING, SAMPLES


@pytest.mark.parametrize("name", SAMPLES)
def test_the_id_can_be_derived_from_the_written_document(name: str) -> None:
    document = json.loads(render_json(SAMPLES[name]))
    claimed, _ = document.pop("id"), document.pop("stamp")
    for field in OCCASION:
        del document[field]
    assert claimed == digest(document) == SAMPLES[name].id


def test_keys_stand_in_field_order_and_the_file_ends_with_a_newline() -> None:
    data = render_json(FAILING)
    assert tuple(json.loads(data)) == Result.__struct_encode_fields__
    assert data.startswith(b'{\n  "id": "sha256:')
    assert data.endswith(b"\n}\n")


def test_a_number_that_json_cannot_carry_is_refused() -> None:
    broken = msgspec.structs.replace(FAILING, bench=Bench(float("nan"), None))
    with pytest.raises(InvalidValueError, match="nan is not representable"):
        render_json(broken)


def test_jsonl_has_a_line_per_finding_and_measurement() -> None:
    records = [json.loads(line) for line in render_jsonl(FAILING).splitlines()]
    assert [record["record"] for record in records] == ["finding"] * 4 + ["measurement"] * 5
    assert {record["result_id"] for record in records} == {FAILING.id}
    assert records[1]["rule"] == "kappa"
    assert records[1]["slack"] == -0.138


@settings(deadline=None, max_examples=60)
@given(hostile_results())
def test_any_text_survives_json(result: Result) -> None:
    back = msgspec.json.decode(render_json(result), type=Result)
    verify_seal(back)
    assert back == result
    lines = render_jsonl(result).decode().splitlines()
    assert len(lines) == len(result.findings) + len(result.measurements)
    assert [json.loads(line)["result_id"] for line in lines] == [result.id] * len(lines)
