from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gatemark.evidence.exam import schemas
from gatemark.evidence.source import ReadingChoices, inspect_source
from gatemark.evidence.validate import FileCheck, validate_files
from gatemark.evidence.whole_file import read_tagged

FILE = schemas().get("exaid.run").good_files[0]


def checked(folder: Path, records: list[Any]) -> FileCheck:
    path = folder / "case.jsonl"
    lines = (one if isinstance(one, str) else json.dumps(one) for one in records)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    (found,) = validate_files([str(path)], "exaid.run", ReadingChoices())
    return found


@pytest.mark.parametrize("place", [1, 2, 3])
@pytest.mark.parametrize("value", [{}, [], {"spacy_version": "none"}, "x", None])
def test_provenance_outside_of_run_meta_is_refused_whatever_it_is(
    tmp_path: Path, place: int, value: Any
) -> None:
    records = list(FILE)
    records[place] = records[place] | {"concept_extractor": value}
    found = checked(tmp_path, records)
    (problem, *_) = found.problems
    assert f"case.jsonl:{place + 1}: " in problem
    assert problem.endswith("at $.concept_extractor")


def test_a_gap_before_a_refused_line_is_told_and_the_gap_that_it_leaves_is_not(
    tmp_path: Path,
) -> None:
    meta, flush = FILE[0], FILE[1]
    records = [meta, *(flush | {"flush_index": index} for index in (0, 2)), "{", flush]
    records[-1] = flush | {"flush_index": 4}
    found = checked(tmp_path, records)
    (gap, refused) = found.problems
    assert ":3: must be 1: indices count from 0 without gaps, got 2" in gap
    assert ":4: not JSON" in refused


@pytest.mark.parametrize("name", ["exaid.run", "exaid.trace"])
@pytest.mark.parametrize("broken", [None, 2, 70, 139])
def test_what_is_found_does_not_depend_on_how_a_file_is_cut_into_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, broken: int | None
) -> None:
    meta, record = schemas().get(name).good_files[0][:2]
    key = "flush_index" if name == "exaid.run" else "seq"
    lines = [json.dumps(meta)] + [json.dumps(record | {key: index}) for index in range(140)]
    if broken is not None:
        lines[broken] = lines[broken][:-1]
        lines[broken - 1], lines[50] = lines[50], lines[broken - 1]
    path = tmp_path / "case.jsonl"
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    schema = schemas().get(name)
    assert schema.across is not None
    found = []
    for size in (1 << 20, 4096, 600):
        monkeypatch.setattr("gatemark.evidence.whole_file.BLOCK_BYTES", size)
        choices = ReadingChoices(max_errors=1000)
        found.append(read_tagged(inspect_source(str(path)), schema, schema.across(), choices))
    assert found[0] == found[1] == found[2]
