from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from gatemark.core.errors import BadInputError
from gatemark.evidence.rows import Sampling, draw_rows, frozen_rows, read_dataset

ROWS = [
    {"id": "b", "input": "two", "target": "2", "tags": {"kind": "even"}},
    {"id": "a", "input": "one", "target": "1", "tags": {"kind": "odd"}},
]


def jsonl(folder: Path, rows: list[Any]) -> str:
    path = folder / "data.jsonl"
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    path.write_text("".join(line + "\n" for line in lines))
    return str(path)


def test_json_lines_csv_and_parquet_freeze_to_the_same_snapshot(tmp_path: Path) -> None:
    table = tmp_path / "data.csv"
    with table.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["id", "input", "target", "tag.kind"])
        writer.writerows([r["id"], r["input"], r["target"], r["tags"]["kind"]] for r in ROWS)
    columns = tmp_path / "data.parquet"
    parquet.write_table(pa.Table.from_pylist(ROWS), columns)
    snapshots = [
        read_dataset(str(path), "numbers") for path in (jsonl(tmp_path, ROWS), table, columns)
    ]
    assert len({snapshot.digest for snapshot in snapshots}) == 1
    assert [row.id for row in snapshots[0].rows] == ["a", "b"]


def test_the_digest_ignores_order_and_sees_every_change(tmp_path: Path) -> None:
    one = read_dataset(jsonl(tmp_path, ROWS), "n")
    assert read_dataset(jsonl(tmp_path, ROWS[::-1]), "n").digest == one.digest
    for key, value in (("input", "x"), ("target", None), ("tags", {}), ("note", 1)):
        other = read_dataset(jsonl(tmp_path, [{**ROWS[0], key: value}, ROWS[1]]), "n")
        assert other.digest != one.digest


@pytest.mark.parametrize(
    ("bad", "complaint"),
    [
        ({"id": "a", "input": "again"}, "data.jsonl:3: id 'a' was seen before at"),
        ({"id": 7, "input": "x"}, "id must be one line of text, got 7"),
        ({"id": "c\td", "input": "x"}, "id must be one line of text"),
        ({"id": "c"}, 'key "input" is missing'),
        ({"id": "c", "input": 1, "tags": {"a": 1}}, "tags must map names to texts"),
        ({"id": "c", "input": 1, "confidence": 1.7}, "confidence must be in [0, 1], got 1.7"),
        ({"id": "c", "input": 1, "cluster": 3}, "cluster must be a text"),
        ("[1]", "expected an object"),
        ('"id must be given"', "expected an object"),
        ("{", "not JSON"),
        ('{"id": "c", "input": NaN}', "not a JSON number"),
        ('{"id": "c", "id": "d", "input": 1}', "more than once"),
    ],
)
def test_bad_rows_are_refused_with_their_line(tmp_path: Path, bad: Any, complaint: str) -> None:
    with pytest.raises(BadInputError) as caught:
        read_dataset(jsonl(tmp_path, [*ROWS, bad]), "n")
    assert "data.jsonl:3: " in str(caught.value)
    assert complaint in str(caught.value)


def test_an_empty_data_set_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="contains no rows"):
        read_dataset(jsonl(tmp_path, []), "n")


@pytest.mark.parametrize("name", ["data.csv", "data.parquet"])
def test_a_table_that_is_none_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b'id,input\n"a\xff')
    with pytest.raises(BadInputError, match="not readable"):
        read_dataset(str(tmp_path / name), "n")


def many(count: int) -> list[dict[str, Any]]:
    return [{"id": f"r{i}", "input": i, "tags": {"kind": "abc"[i % 3]}} for i in range(count)]


def test_a_draw_is_seeded_and_keeps_the_shares_of_the_strata() -> None:
    snapshot = frozen_rows("n", many(300))
    chosen = draw_rows(snapshot, Sampling(n=31, seed=7, stratify="kind"))
    assert len(chosen.rows) == 31
    kinds = [row.tags["kind"] for row in chosen.rows]
    assert sorted(kinds.count(kind) for kind in "abc") == [10, 10, 11]
    assert draw_rows(snapshot, Sampling(n=31, seed=7, stratify="kind")).digest == chosen.digest
    assert draw_rows(snapshot, Sampling(n=31, seed=8, stratify="kind")).digest != chosen.digest


@given(st.integers(1, 60), st.integers(1, 80), st.integers(0, 9))
@settings(deadline=None)
def test_a_draw_has_the_size_asked_for_and_only_rows_of_the_set(
    size: int, n: int, seed: int
) -> None:
    snapshot = frozen_rows("n", many(size))
    chosen = draw_rows(snapshot, Sampling(n=n, seed=seed))
    assert len(chosen.rows) == min(size, n)
    assert chosen.ids <= snapshot.ids
