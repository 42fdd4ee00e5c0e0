from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gatemark.evidence.reading_choices import ReadingChoices
from gatemark.evidence.record_schemas import schemas
from gatemark.evidence.source import inspect_source
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


def changed(kind: str, **fields: Any) -> list[Any]:
    return [one | fields if one["record_type"] == kind else one for one in FILE]


def test_a_log_whose_summaries_were_cut_off_is_refused(tmp_path: Path) -> None:
    assert checked(tmp_path, list(FILE)).problems == ()
    for kept in range(1, len(FILE)):
        problems = " ".join(checked(tmp_path, list(FILE[:kept])).problems)
        assert "(complete)" in problems or "at $" in problems
        assert "incomplete" in problems
    (problem,) = checked(tmp_path, list(FILE[:-1])).problems[:1]
    assert "incomplete: 3 decisions to summarize, but 2 summaries" in problem


def test_counts_of_timestamps_must_be_those_of_the_records(tmp_path: Path) -> None:
    times = FILE[0]["timestamp_derivation"] | {"derived_from_t_emitted": 8}
    (problem,) = checked(tmp_path, changed("run_meta", timestamp_derivation=times)).problems
    assert "incomplete: 8 timestamps were derived, but there are 7 records" in problem


def variant_file(variant: str, trigger: str, *kinds: str) -> list[Any]:
    """The file under another variant, with some kinds of records."""
    found = []
    for one in FILE:
        if one["record_type"] not in ("run_meta", "summary_event", *kinds):
            continue
        names = {
            key: [name.replace("-V0-", f"-{variant}-") for name in value]
            if isinstance(value, list)
            else value.replace("-V0-", f"-{variant}-")
            for key, value in one.items()
            if key.endswith(("event_id", "event_ids", "decision_id")) and value
        }
        more: dict[str, Any] = {"variant_id": variant}
        if one["record_type"] == "summary_event":
            more["trigger_type"] = trigger
        if one["record_type"] == "run_meta":
            more["trigger_policy"] = POLICIES[variant]
            count = sum(other["record_type"] in ("summary_event", *kinds) for other in FILE)
            more["timestamp_derivation"] = one["timestamp_derivation"] | {
                "derived_from_t_emitted": count
            }
        found.append(one | names | more)
    return found


POLICIES = {
    "V1": "turn_end",
    "V2": "no_buffer",
    "V3": "no_tokengate",
    "V4": "no_novelty",
}
GATE, BUFFER = "tokengate_flush", "buffer_decision"


def test_each_variant_has_its_own_kinds_of_records(tmp_path: Path) -> None:
    assert checked(tmp_path, variant_file("V1", "turn_end")).problems == ()
    assert checked(tmp_path, variant_file("V3", "buffer_agent", BUFFER)).problems == ()
    four = variant_file("V4", "buffer_agent", GATE, BUFFER)
    assert checked(tmp_path, four).problems == ()
    for records, words in (
        (variant_file("V1", "turn_end", BUFFER), "V1 has no buffer_decision records"),
        (variant_file("V3", "buffer_agent", GATE, BUFFER), "V3 has no tokengate_flush records"),
        (variant_file("V2", "tokengate_flush", BUFFER), "V2 has no buffer_decision records"),
        (variant_file("V1", "buffer_agent"), "must be turn_end under V1, got buffer_agent"),
        (changed("summary_event", trigger_type="turn_end"), "must be buffer_agent under V0"),
        (variant_file("V2", "tokengate_flush", GATE), "incomplete: 1 flushes, but 3 summaries"),
    ):
        assert words in " ".join(checked(tmp_path, records).problems), words


def test_v4_looks_for_no_novelty(tmp_path: Path) -> None:
    filters = {"completeness_passed": True, "value_passed": True, "novelty_passed": True}
    records = [
        one | {"filter_results": filters} if one["record_type"] == BUFFER else one
        for one in variant_file("V4", "buffer_agent", GATE, BUFFER)
    ]
    assert "must be null under V4" in " ".join(checked(tmp_path, records).problems)
