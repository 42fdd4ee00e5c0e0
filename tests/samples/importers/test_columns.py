"""Any table by a map of its columns."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.samples.importers import table_shapes as tables
from tests.samples.importers.peer_shapes import (
    BASELINE,
    CANDIDATE,
    COUNT,
    item,
    lost_and_gained,
    read,
)

from gatemark.core.errors import BadInputError, UsageError
from gatemark.samples.importer import to_record
from gatemark.samples.importers.columns import parse_map
from gatemark.samples.records import Sample

Run = Callable[..., Any]
MAP = {"id": "question_id", "score": "correct", "input": "asked", "output": "said"}
REST = {"target": "wanted", "latency_ms": "ms", "tag.lane": "lane"}


def table(rows: list[dict[str, Any]], columns: dict[str, str] | None = None, **options: Any) -> Any:
    given_map = MAP if columns is None else columns
    return read("csv", tables.csv_of(rows), name="t.csv", columns=given_map, **options)


@pytest.mark.parametrize("form", ["csv", "tsv", "tab in csv", "jsonl", "json"])
def test_every_kind_of_table_lost_four_and_gained_three(form):
    logs = []
    for every in (BASELINE, CANDIDATE):
        rows = tables.plain_rows(every)
        data, name = {
            "csv": (tables.csv_of(rows), "t.csv"),
            "tsv": (tables.csv_of(rows, "\t"), "t.tsv"),
            "tab in csv": (tables.csv_of(rows, "\t"), "t.txt"),
            "jsonl": (tables.json_lines(rows), "t.jsonl"),
            "json": (msgspec.json.encode(rows), "t.json"),
        }[form]
        logs.append(read("csv", data, name=name, columns=MAP | REST))
    assert lost_and_gained(*logs, "correct") == (COUNT, 4, 3)
    sample = logs[0].samples[1]
    assert (sample.id, sample.input, sample.output) == (item(1), "1+1", "2")
    assert (sample.latency_ms, sample.tags) == (12.5, {"lane": "odd"})


def test_columns_with_the_names_of_fields_need_no_map():
    rows = [{"id": "a", "score": "1", "tag.lane": "x", "confidence": "0.5", "cluster": "k"}]
    (sample,) = table(rows, {}).samples
    assert (sample.scores, sample.tags) == ({"score": 1.0}, {"lane": "x"})
    assert (sample.confidence, sample.cluster) == (0.5, "k")


def test_several_scores_have_names():
    rows = [{"q": "a", "f1": "0.5", "em": "false"}]
    (sample,) = table(rows, {"id": "q", "score.f1": "f1", "score.exact": "em"}).samples
    assert sample.scores == {"f1": 0.5, "exact": 0.0}


def test_nested_columns_of_json_lines_are_named_by_their_path():
    rows = [{"case": {"id": "a"}, "eval": {"score": 1}}]
    columns = {"id": "case.id", "score": "eval.score"}
    (sample,) = read("csv", tables.json_lines(rows), name="t.jsonl", columns=columns).samples
    assert (sample.id, sample.scores) == ("a", {"eval.score": 1.0})


@pytest.mark.parametrize(
    ("cell", "score"),
    [("1", 1.0), ("0.25", 0.25), ("TRUE", 1.0), ("No", 0.0), ("", None), ("nan", None)],
)
def test_scores_are_numbers_or_known_words(cell, score):
    (sample,) = table([{"q": "a", "s": cell}], {"id": "q", "score": "s"}).samples
    assert sample.scores == {"s": score}
    assert ("missing.s" in sample.tags) == (cell == "nan")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"correct": "maybe"}, "column 'correct' has the score 'maybe'; expected a number"),
        ({"correct": "85%"}, "expected a number"),
        ({"correct": "0x1"}, "expected a number"),
        ({"question_id": " "}, "has no usable id"),
        ({"ms": "-1"}, "column 'ms' has the latency_ms '-1'; expected a number 0 or more"),
    ],
)
def test_a_cell_that_does_not_fit_refuses_its_row(changes, reason):
    rows = tables.plain_rows()
    rows[3] |= changes
    imported = table(rows, MAP | REST)
    (refusal,) = imported.refused
    assert reason in refusal.reason
    assert refusal.place == "t.csv: row 4"


@pytest.mark.parametrize("epoch", ["0", "x", "1.5", "-1"])
def test_epochs_are_whole_numbers_from_one(epoch):
    columns = {"id": "q", "epoch": "e", "score": "s"}
    rows = [{"q": "a", "e": epoch, "s": "1"}, {"q": "b", "e": "2", "s": "1"}]
    imported = table(rows, columns)
    assert "expected a whole number from 1" in imported.refused[0].reason
    assert [(sample.id, sample.epoch) for sample in imported.samples] == [("b", 2)]


def test_a_confidence_is_a_share():
    columns = {"id": "q", "confidence": "c"}
    (refusal,) = table([{"q": "a", "c": "93"}, {"q": "b", "c": "0.93"}], columns).refused
    assert "expected a number from 0 to 1" in refusal.reason


def test_rows_that_ask_the_same_are_epochs_and_others_with_the_same_id_are_refused():
    rows = tables.plain_rows()
    assert sum(sample.epoch == 2 for sample in table(rows + rows[:4]).samples) == 4
    rows[1]["question_id"] = rows[0]["question_id"]
    with pytest.raises(BadInputError, match="repeat an id"):
        table(rows)


def test_without_an_id_the_input_names_the_row():
    columns = {"input": "asked", "score": "correct"}
    rows = tables.plain_rows()
    assert len({sample.id for sample in table(rows, columns).samples}) == COUNT
    with pytest.raises(BadInputError, match=r"--map id=COLUMN \(columns: question_id, asked"):
        table(rows, {"score": "correct"})


def test_a_column_that_does_not_exist_offers_those_that_do():
    with pytest.raises(BadInputError) as refusal:
        table(tables.plain_rows(), {"id": "questionid"})
    assert "has no column 'questionid' for id; did you mean 'question_id'?" in str(refusal.value)
    assert "(columns: question_id, asked, said" in str(refusal.value)


def test_two_columns_of_one_name_and_uneven_rows_are_refused():
    with pytest.raises(BadInputError, match="two columns are called 'a'"):
        read("csv", b"a,a\n1,2\n", name="t.csv")
    imported = read("csv", b"id,score\na,1\nb\nc,0\n", name="t.csv")
    (refusal,) = imported.refused
    assert refusal.reason == "has 1 cells, expected 2"


def test_a_map_is_read_strictly():
    assert parse_map(["id=a, score=b", "tag.x=c"]) == {"id": "a", "score": "b", "tag.x": "c"}
    for text, problem in (
        ("id", "takes FIELD=COLUMN"),
        ("id=", "takes FIELD=COLUMN"),
        ("ids=a", "did you mean 'id'"),
        ("id=a,id=b", "given twice"),
        ("tag.=a", "no field 'tag.'"),
    ):
        with pytest.raises(UsageError, match=problem):
            parse_map([text])


def test_import_and_compare_take_a_map(gatemark: Run, tmp_path: Path) -> None:
    paths = []
    for every in (BASELINE, CANDIDATE):
        path = tmp_path / f"{every}.csv"
        path.write_bytes(tables.csv_of(tables.plain_rows(every)))
        paths.append(path)
    columns = ("--map", "id=question_id,score=correct", "--map", "input=asked")
    out = tmp_path / "s.jsonl"
    ran = gatemark("import", paths[0], "--from", "csv", *columns, "-o", out)
    assert ran.code == 0
    assert gatemark("validate", out).code == 0
    for tool in ((), ("--from", "csv"), ("--from", "tsv")):
        found = gatemark("compare", *paths, *tool, *columns, "--json").json
        assert (found["lost"], found["gained"], found["n"]) == (4, 3, COUNT)
    wrong = gatemark("compare", *paths, "--from", "mlflow", *columns)
    assert (wrong.code, "--map is for tables" in wrong.err) == (2, True)
    missing = gatemark("compare", *paths, "--map", "id=nope")
    assert missing.code == 2
    assert "columns: question_id, asked" in missing.err


CELLS = st.one_of(
    st.text(max_size=12),
    st.sampled_from(["1", "0", "nan", "-inf", "1e999", "yes", "true", '"', "a,b", "\n", "0.5"]),
)


@given(
    st.lists(st.lists(CELLS, min_size=3, max_size=3), min_size=1, max_size=8),
    st.sampled_from(["t.csv", "t.tsv", "t.jsonl"]),
)
@settings(deadline=None, max_examples=150)
def test_no_cell_makes_an_illegal_sample(rows, name):
    records = [dict(zip(("a", "b", "c"), row, strict=True)) for row in rows]
    data = {
        "t.csv": lambda: tables.csv_of(records),
        "t.tsv": lambda: tables.csv_of(records, "\t"),
        "t.jsonl": lambda: tables.json_lines(records),
    }[name]()
    columns = {"id": "a", "score": "b", "confidence": "c", "error": "c", "tag.x": "c"}
    imported = read_or_refuse(data, name, columns)
    if imported is None:
        return
    assert imported.received_count <= len(rows)
    for sample in imported.samples:
        msgspec.convert(to_record(sample), Sample)


@given(st.binary(max_size=200))
@settings(deadline=None, max_examples=150)
def test_no_bytes_make_a_traceback(data):
    read_or_refuse(data, "t.csv", {"id": "a"})


def read_or_refuse(data: bytes, name: str, columns: dict[str, str]) -> Any:
    """What was read, or None for a refusal; anything else is a defect."""
    with contextlib.suppress(BadInputError):
        return read("csv", data, name=name, columns=columns)
    return None
