from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatemark.evidence.json_schema import schema_document
from gatemark.evidence.reading_choices import ReadingChoices
from gatemark.evidence.record_schemas import schemas
from gatemark.evidence.validate import validate_files
from gatemark.plugins.runlog.records.older_fields import SINCE_1_5
from gatemark.plugins.runlog.records.run import RunMeta, SummaryEvent
from gatemark.plugins.runlog.traces.files import read_run_log

Run = Callable[..., Any]
Write = Callable[..., Path]

NAMES = ("exaid.manifest", "exaid.trace", "exaid.run", "exaid.metrics")
GOOD = {name: list(schemas().get(name).good_files[0]) for name in NAMES}
RUN = GOOD["exaid.run"]


def packed(path: Path) -> Path:
    target = path.with_name(path.name + ".gz")
    target.write_bytes(gzip.compress(path.read_bytes()))
    return target


@pytest.mark.parametrize("name", NAMES)
def test_the_schema_is_found_from_the_records(name: str, gatemark: Run, write_jsonl: Write) -> None:
    path = write_jsonl("a.jsonl", GOOD[name])
    for file in (path, packed(path)):
        ran = gatemark("validate", file)
        assert ran.code == 0, ran.err
        assert f"valid {name} (" in ran.out


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("by", ["name", "document"])
def test_a_schema_may_be_named_or_brought(
    name: str, by: str, gatemark: Run, write_jsonl: Write, tmp_path: Path
) -> None:
    brought = tmp_path / f"{name}.schema.json"
    brought.write_text(gatemark("schema", name).out)
    path = write_jsonl("a.jsonl", GOOD[name])
    schema = name if by == "name" else brought
    assert gatemark("validate", "--schema", schema, path).code == 0
    broken = [{**GOOD[name][0], "case_id": 7, "variants": 3, "dataset_id": 1}, *GOOD[name][1:]]
    ran = gatemark("validate", "--schema", schema, write_jsonl("b.jsonl", broken))
    assert ran.code == 2
    assert "b.jsonl:1: got " in ran.err


def test_a_brought_document_of_ours_also_brings_our_rules(
    gatemark: Run, write_jsonl: Write, tmp_path: Path
) -> None:
    brought = tmp_path / "exaid.run.schema.json"
    brought.write_text('{"type": "object", "required": ["colour"]}')
    ran = gatemark("validate", "--schema", brought, write_jsonl("a.jsonl", [RUN[0], RUN[0]]))
    assert ran.code == 2
    assert 'a.jsonl:1: key "colour" is missing' in ran.err
    assert "a.jsonl:2: a file has one run_meta" in ran.err


def test_a_document_nobody_knows_decides_alone(
    gatemark: Run, write_jsonl: Write, tmp_path: Path
) -> None:
    brought = tmp_path / "mine.json"
    brought.write_text('{"type": "object", "properties": {"n": {"maximum": 3}}}')
    good = gatemark("validate", "--schema", brought, write_jsonl("a.jsonl", [{"n": 3}, {"m": 9}]))
    assert good.code == 0
    bad = gatemark("validate", "--schema", brought, write_jsonl("b.jsonl", [{"n": 4}, "[1]"]))
    assert bad.code == 2
    assert "2 rejected" in bad.out


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "not JSON"),
        ('{"type": "nonsense"}', "not a usable JSON Schema"),
        ('{"$ref": "https://example.org/other.json"}', "not a usable JSON Schema"),
        ('{"type": 1, "type": 2}', "appears more than once"),
    ],
)
def test_a_document_that_cannot_be_used_is_told(
    text: str, complaint: str, gatemark: Run, write_jsonl: Write, tmp_path: Path
) -> None:
    brought = tmp_path / "mine.json"
    brought.write_text(text)
    ran = gatemark("validate", "--schema", brought, write_jsonl("a.jsonl", [{}]))
    assert ran.code == 2
    assert complaint in ran.err


def test_a_document_that_is_not_there_is_told(gatemark: Run, write_jsonl: Write) -> None:
    ran = gatemark("validate", "--schema", "gone.json", write_jsonl("a.jsonl", [{}]))
    assert (ran.code, ran.err) == (
        2,
        "gatemark: gone.json: cannot be read: No such file or directory\n",
    )


@pytest.mark.parametrize("name", NAMES)
def test_our_documents_accept_what_we_accept(name: str) -> None:
    validator = jsonschema.Draft202012Validator(schema_document(schemas().get(name)))
    records = [record for file in schemas().get(name).good_files for record in file]
    assert records
    assert [record for record in records if not validator.is_valid(record)] == []


def test_a_suffix_in_the_case_id_is_refused_where_it_stands(
    gatemark: Run, write_jsonl: Write
) -> None:
    text = json.dumps(RUN).replace("case-synth-000", "case-synth-000.trace")
    ran = gatemark("validate", write_jsonl("a.jsonl", json.loads(text)))
    assert ran.code == 2
    assert (
        'got "case-synth-000.trace", expected a case id of letters, digits, - and _ at $.case_id'
        in ran.err
    )
    assert "8 rejected" in ran.out


def test_published_logs_with_a_suffix_are_read_without_it(write_jsonl: Write) -> None:
    records = json.loads(json.dumps(RUN).replace("case-synth-000", "case-synth-000.trace"))
    records[2]["filter_results"] = dict.fromkeys(records[2]["filter_results"])
    log = read_run_log(str(write_jsonl("a.jsonl", records)), compat="source")
    assert log.meta.case_id == "case-synth-000"
    assert [event.event_id for event in log.events] == [
        f"case-synth-000-V0-se-{place:03d}" for place in range(3)
    ]
    assert log.events[2].summary_history_event_ids == ["case-synth-000-V0-se-000"]
    assert log.events[2].latest_summary_event_id == "case-synth-000-V0-se-001"
    assert log.decisions[0].decision_id == "case-synth-000-V0-bd-000"


def without(record: dict[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    return {key: value for key, value in record.items() if key not in keys}


def test_a_log_of_1_3_is_accepted_and_what_it_lacks_is_told(
    gatemark: Run, write_jsonl: Write
) -> None:
    meta = without(RUN[0], SINCE_1_5[RunMeta]) | {"schema_version": "1.3.0"}
    events = [without(event, SINCE_1_5[SummaryEvent]) for event in RUN[3:]]
    path = write_jsonl("a.jsonl", [meta, *RUN[1:3], *events])
    ran = gatemark("validate", path)
    assert ran.code == 0
    assert "note: trace_dataset_hash is missing in run_meta" in ran.err
    assert "note: limits_ok is missing in 3 summary_event records" in ran.err
    log = read_run_log(str(path))
    assert "trigger_type is missing in 3 summary_event records" in log.missing
    assert len(log.missing) == 8
    current = gatemark("validate", write_jsonl("b.jsonl", [meta | {"schema_version": "1.5.0"}]))
    assert current.code == 2
    assert 'key "trace_file_hash" is missing' in current.err


@pytest.mark.parametrize("indent", [None, 2])
def test_a_log_of_1_2_is_one_object_and_what_it_lacks_is_told(
    indent: int | None, gatemark: Run, tmp_path: Path
) -> None:
    single = schemas().get("exaid.run").older[1].schema.good_files[0][0]
    path = tmp_path / "old.json"
    path.write_text(json.dumps(single, indent=indent))
    ran = gatemark("validate", path)
    assert ran.code == 0, ran.err
    assert "valid exaid.run (single_record): 1 received" in ran.out
    assert "note: trigger_type is missing in 1 summary_event record" in ran.err
    assert "note: timestamp is missing in 1 tokengate_flush record" in ran.err
    log = read_run_log(str(path))
    assert (log.meta.case_id, log.events[0].case_id) == ("case-synth-000", "case-synth-000")
    assert log.events[0].summary_semantics_text == "Fever."
    assert "event_id is missing in 1 summary_event record" in log.missing


def test_metrics_may_be_one_document_over_many_lines(gatemark: Run, tmp_path: Path) -> None:
    (report,) = schemas().get("exaid.metrics").good_files[1]
    path = tmp_path / "aggregate.metrics.json"
    path.write_text(json.dumps(report, indent=2) + "\n")
    assert gatemark("validate", path).code == 0
    path.write_text(json.dumps(report | {"seed": "x"}, indent=2))
    ran = gatemark("validate", path)
    assert ran.code == 2
    assert 'got "x", expected integer at $.seed' in ran.err


def test_a_record_of_an_unknown_kind_is_told_with_what_is_allowed(
    gatemark: Run, write_jsonl: Write
) -> None:
    ran = gatemark(
        "validate", write_jsonl("a.jsonl", [*RUN, {"record_type": "note"}, {"x": 1}, "[]", "3"])
    )
    assert ran.code == 2
    assert 'a.jsonl:9: got "note", allowed: "run_meta", "tokengate_flush"' in ran.err
    assert 'a.jsonl:10: key "record_type" is missing' in ran.err
    assert "a.jsonl:11: got [], expected object" in ran.err
    assert "4 rejected" in ran.out


def test_one_bad_line_does_not_make_its_neighbours_bad(gatemark: Run, write_jsonl: Write) -> None:
    flushes = [RUN[1] | {"flush_index": place} for place in range(6)]
    flushes[2] = flushes[2] | {"trigger_reason": "?"}
    ran = gatemark("validate", write_jsonl("a.jsonl", [RUN[0], *flushes]))
    assert ran.err.count("gatemark:") == 1
    assert "a.jsonl:4: " in ran.err


def test_truncated_gzip_is_told_with_its_line(gatemark: Run, write_jsonl: Write) -> None:
    path = packed(write_jsonl("a.jsonl", RUN))
    path.write_bytes(path.read_bytes()[:-40])
    ran = gatemark("validate", path)
    assert ran.code == 2
    assert "gzip data is damaged or truncated" in ran.err


def test_many_problems_are_counted_and_not_all_listed(gatemark: Run, write_jsonl: Write) -> None:
    flushes = [RUN[1] | {"flush_index": 2 * place} for place in range(50)]
    ran = gatemark("validate", "--max-errors", 5, write_jsonl("a.jsonl", [RUN[0], *flushes]))
    assert ran.code == 2
    assert ran.err.count("indices count from 0") == 5
    assert "and at least 45 more problems" in ran.err


def test_a_repeated_key_is_refused_in_a_mixed_file(gatemark: Run, write_jsonl: Write) -> None:
    twice = json.dumps(RUN[1])[:-1] + ', "end_seq": 99}'
    ran = gatemark("validate", write_jsonl("a.jsonl", [RUN[0], twice]))
    assert ran.code == 2
    assert 'a.jsonl:2: key "end_seq" appears more than once' in ran.err


MUTATIONS = st.sampled_from(
    [None, 0, -1, 1.5, True, "", "x", "case-9", "V9", [], [1], {}, 10**30, "2025-02-30T00:00:00Z"]
)


@given(data=st.data())
@settings(deadline=None, max_examples=60)
def test_no_mutation_of_a_file_ends_in_a_traceback(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    name = data.draw(st.sampled_from(NAMES))
    records = json.loads(json.dumps(GOOD[name]))
    seed = data.draw(st.integers(0, 10**6))
    draw = random.Random(seed)
    for _ in range(data.draw(st.integers(1, 4))):
        record = draw.choice(records)
        if record:
            record[draw.choice(sorted(record))] = data.draw(MUTATIONS)
    draw.shuffle(records)
    lines = [json.dumps(record).encode() for record in records]
    if data.draw(st.booleans()):
        place = draw.randrange(len(lines))
        cut = draw.randrange(len(lines[place]) + 1)
        lines[place] = lines[place][:cut] + bytes([draw.randrange(256)]) + lines[place][cut:]
    path = tmp_path_factory.mktemp("fuzz") / "a.jsonl"
    path.write_bytes(b"\n".join(lines))
    (check,) = validate_files([str(path)], name, ReadingChoices())
    assert check.received == check.accepted + check.rejected
    if check.rejected:
        assert check.problems
