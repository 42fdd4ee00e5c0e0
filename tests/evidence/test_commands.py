from __future__ import annotations

import gzip
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

Run = Callable[..., Any]
Write = Callable[..., Path]

GOOD = {"qid": "Q1", "label": "VALID"}
PAIR = {"qid": "Q1", "scholar": {"label": "VALID"}, "auditor": {"label": "VALID"}}


def test_valid_files_are_told_with_their_schema_and_form(gatemark: Run, write_jsonl: Write) -> None:
    ran = gatemark("validate", write_jsonl("a.jsonl", [GOOD]), write_jsonl("b.jsonl", [PAIR]))
    assert ran.code == 0
    assert "a.jsonl: valid gatemark.pair/1 (judgement): 1 received" in ran.out
    assert "b.jsonl: valid gatemark.pair/1 (pair): 1 received, 1 accepted, 0 rejected" in ran.out


def test_every_error_is_listed_with_file_line_and_path(gatemark: Run, write_jsonl: Write) -> None:
    bad = {"qid": 3, "label": "maybe"}
    ran = gatemark("validate", write_jsonl("a.jsonl", [GOOD, bad, "{", GOOD]), "--json")
    assert ran.code == 2
    assert "a.jsonl:2: got 3, expected string at $.qid" in ran.err
    assert 'a.jsonl:2: got "maybe", allowed:' in ran.err
    assert "a.jsonl:3: not JSON" in ran.err
    assert "a.jsonl:4: id 'Q1' was seen before on line 1" in ran.err
    (check,) = ran.json["files"]
    assert (check["received"], check["accepted"], check["rejected"]) == (4, 2, 2)
    assert ran.json["valid"] is False


@pytest.mark.parametrize("spare", range(1, 12))
def test_a_repeated_key_is_refused_where_other_keys_are_left_out(
    spare: int, gatemark: Run, write_jsonl: Write
) -> None:
    twice = ", ".join(f'"id": "x{n}"' for n in range(spare + 1))
    bad = '{"schema": "gatemark.sample/1", %s, "scores": {}}' % twice  # noqa: UP031
    ran = gatemark("validate", write_jsonl("a.jsonl", [bad]))
    assert ran.code == 2
    assert 'key "id" appears more than once' in ran.err


def test_max_errors_limits_the_list_but_not_the_count(gatemark: Run, write_jsonl: Write) -> None:
    path = write_jsonl("a.jsonl", [GOOD, *["{"] * 30])
    ran = gatemark("validate", path, "--max-errors", 3)
    assert ran.err.count("not JSON") == 3
    assert "at least 27 more problems" in ran.err
    assert "30 rejected" in ran.out


def test_a_file_of_unknown_records_asks_for_a_schema(gatemark: Run, write_jsonl: Write) -> None:
    ran = gatemark("validate", write_jsonl("a.jsonl", [{"colour": "red"}]))
    assert ran.code == 2
    assert "fits no schema; name one with --schema" in ran.err
    named = gatemark("validate", "--schema", "gatemark.pair/1", write_jsonl("a.jsonl", [{"a": 1}]))
    assert named.code == 2
    assert 'key "qid" is missing' in named.err


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([], "a.jsonl: contains no records"),
        (["", " "], "a.jsonl: contains no records"),
        (["", "{", json.dumps(PAIR)], "a.jsonl:2: not JSON: Expecting property name"),
        (['{"qid": "Q", "x": NaN}'], "a.jsonl:1: not JSON: NaN is not a JSON number"),
        (["7", json.dumps(PAIR)], "a.jsonl:1: got 7, expected object"),
        (["x" * 5_000_000], "a.jsonl:1: line is longer than 4194304 bytes"),
    ],
)
def test_a_first_line_that_is_no_record_is_told_as_what_it_is(
    lines: list[str], words: str, gatemark: Run, write_jsonl: Write
) -> None:
    ran = gatemark("validate", write_jsonl("a.jsonl", lines))
    assert ran.code == 2
    assert words in ran.err


def test_a_repeated_key_in_the_first_of_many_lines_is_told_as_one(
    gatemark: Run, write_jsonl: Write
) -> None:
    twice = '{"qid": "A", "qid": "B", "label": "VALID"}'
    ran = gatemark("validate", write_jsonl("a.jsonl", [twice, GOOD]))
    assert ran.code == 2
    assert 'a.jsonl:1: key "qid" appears more than once' in ran.err
    assert "2 received, 1 accepted, 1 rejected" in ran.out


def test_an_unknown_schema_name_gets_a_suggestion(gatemark: Run, write_jsonl: Write) -> None:
    ran = gatemark("validate", "--schema", "gatemark.pear/1", write_jsonl("a.jsonl", [GOOD]))
    assert ran.code == 2
    assert "did you mean 'gatemark.pair/1'?" in ran.err


def test_a_sample_may_come_again_in_another_epoch_only(gatemark: Run, write_jsonl: Write) -> None:
    record = {"schema": "gatemark.sample/1", "id": "a", "scores": {}}
    again = [record, record | {"epoch": 2}]
    assert gatemark("validate", write_jsonl("s.jsonl", again)).code == 0
    ran = gatemark("validate", write_jsonl("s.jsonl", [*again, record | {"epoch": 1}]))
    assert ran.code == 2
    assert "s.jsonl:3: id 'a', epoch 1 was seen before on line 1" in ran.err


def test_an_item_may_have_several_votes_but_one_per_reviewer(
    gatemark: Run, write_jsonl: Write
) -> None:
    vote = {"item": "a", "reviewer": "r1", "choice": "tie", "first": "baseline"}
    ran = gatemark("validate", write_jsonl("v.jsonl", [vote, vote | {"reviewer": "r2"}]))
    assert (ran.code, ran.out.count("valid gatemark.vote/1")) == (0, 1)
    twice = gatemark("validate", write_jsonl("v.jsonl", [vote, vote | {"choice": "candidate"}]))
    assert "v.jsonl:2: item 'a', reviewer 'r1' was seen before on line 1" in twice.err


def test_standard_input_is_read_packed_or_plain(
    gatemark: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    for data in (json.dumps(GOOD).encode(), gzip.compress(json.dumps(GOOD).encode())):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        ran = gatemark("validate", "-")
        assert (ran.code, ran.out.split(":")[0]) == (0, "<stdin>")


def test_an_empty_file_is_not_valid(gatemark: Run, write_jsonl: Write) -> None:
    ran = gatemark("validate", "--schema", "gatemark.pair/1", write_jsonl("a.jsonl", []))
    assert ran.code == 2
    assert "contains no records" in ran.err


def test_schema_lists_names_and_prints_documents(gatemark: Run) -> None:
    names = list(gatemark("schema", "--json").json)
    assert "gatemark.pair/1" in names
    for name in names:
        document = gatemark("schema", name).json
        jsonschema.Draft202012Validator.check_schema(document)
    assert "gatemark.pair/1 " in gatemark("schema").out


def test_problems_after_a_first_line_are_counted_beyond_those_that_are_listed(
    write_jsonl: Write, gatemark: Run
) -> None:
    head = {
        "record_type": "arm_meta",
        "arm": "bare",
        "metric_kind": "ppl_causal",
        "seeds": {"python": 1, "numpy": 1, "torch": 1, "bootstrap": 1},
        "device": "cpu",
        "snapshot_hash": "sha256:" + "0" * 64,
        "plan": {"seq_len": 8, "stride": 8, "windows": 9},
    }
    good = {
        "record_type": "window",
        "window_id": "w1",
        "content_hash": "sha256:" + "1" * 64,
        "tokens": 8,
        "loss": 2.0,
    }
    bad = [{**good, "window_id": f"w{n}", "tokens": "many"} for n in range(30)]
    path = write_jsonl("arm.jsonl", [head, *bad])
    told = gatemark("validate", path, "--max-errors", 5, "--json").json["files"][0]
    assert (told["rejected"], len(told["problems"]), told["unlisted"]) == (30, 5, 25)
    path = write_jsonl("arm.jsonl", [head, *[good] * 9])
    told = gatemark("validate", path, "--max-errors", 5, "--json").json["files"][0]
    assert (len(told["problems"]), told["unlisted"]) == (5, 3)
