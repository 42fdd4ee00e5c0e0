"""Files as the source really wrote them, in several versions, made by hand."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gatemark.core.errors import BadInputError
from gatemark.evidence.record_schemas import schemas
from gatemark.plugins.runlog.records.names import write_compact_json
from gatemark.plugins.runlog.records.run import BufferDecision
from gatemark.plugins.runlog.replay.chunks import read_chunk_report, refuse_mismatch
from gatemark.plugins.runlog.traces.files import find_traces, read_run_log

from .worlds import World, packed, small_world, trace_records

Run = Callable[..., Any]
SCHEMA = schemas().get("exaid.run")
RECORDS = [dict(record) for record in SCHEMA.good_files[0]]
CASE = "case-synth-000"


def write(path: Path, records: list[Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(packed(records))
    return path


def as_source(records: list[Any]) -> list[Any]:
    """The log with suffixes in its ids and a decision on which the model failed."""
    found = json.loads(json.dumps(records).replace(CASE, f"{CASE}.trace"))
    found[2]["filter_results"] = dict.fromkeys(found[2]["filter_results"])
    return found


def changed(place: int, **fields: Any) -> list[Any]:
    return [record | fields if at == place else record for at, record in enumerate(RECORDS)]


def older(version: str = "1.3.0", reason: str = "threshold") -> list[Any]:
    """A log as 1.3.0 wrote it: what is left at the end is summarized without a decision."""
    meta = dict(RECORDS[0]) | {
        "schema_version": version,
        "mas_run_id": "mas-unknown",
        "eval_run_id": "eval-20251221-1",
    }
    del meta["trace_dataset_hash"], meta["tokengate_config_hash"]
    events = [
        {key: value for key, value in one.items() if key not in _SINCE} for one in RECORDS[5:]
    ]
    # Six fields made the text then, not five.
    content = events[0]["summary_content"]
    text = " ".join(content.values())
    events[0] |= {"summary_semantics_text": text, "summary_ctu": -(-len(text) // 4)}
    flush = RECORDS[1] | {"trigger_reason": reason}
    meta["timestamp_derivation"] = meta["timestamp_derivation"] | {"derived_from_t_emitted": 6}
    return [meta, flush, *RECORDS[2:4], *events]


_SINCE = (
    "trigger_type",
    "summary_history_event_ids",
    "summarizer_input_hash",
    "limits_ok",
    "failure_mode",
)


def test_a_log_is_a_log_whatever_its_file_is_called(gatemark: Run, tmp_path: Path) -> None:
    path = write(tmp_path / "case-synth-000.trace.jsonl.gz", RECORDS)
    ran = gatemark("runlog", "validate", path, "--json")
    assert ran.code == 0, ran.err
    assert ran.json["files"][0]["kind"] == "exaid.run"


def test_a_trace_is_a_trace_whatever_its_file_is_called(gatemark: Run, tmp_path: Path) -> None:
    write(tmp_path / "one.jsonl.gz", trace_records("case-1", [("doctor0", ("Fever.",))]))
    write(tmp_path / "two.jsonl.gz", RECORDS)
    assert [path.name for path in find_traces(str(tmp_path))] == ["one.jsonl.gz"]
    ran = gatemark("runlog", "validate", tmp_path / "one.jsonl.gz", "--json")
    assert (ran.code, ran.json["files"][0]["kind"]) == (0, "exaid.trace")


def test_one_faulty_file_is_one_faulty_file(gatemark: Run, tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl.gz", RECORDS)
    (tmp_path / "b.jsonl").write_text("{\n")
    (tmp_path / "c.jsonl").write_text('{"colour": "red"}\n')
    (tmp_path / "d.jsonl.gz").write_bytes(gzip.compress(b"x" * 4000)[:20])
    write(tmp_path / "e.jsonl.gz", as_source(RECORDS))
    ran = gatemark("runlog", "validate", tmp_path, tmp_path / "gone.jsonl", "--json")
    assert ran.code == 2
    valid = {Path(file["file"]).name: file["valid"] for file in ran.json["files"]}
    assert valid == {
        "a.jsonl.gz": True,
        "b.jsonl": False,
        "c.jsonl": False,
        "d.jsonl.gz": False,
        "e.jsonl.gz": False,
        "gone.jsonl": False,
    }
    assert all(len(file["problems"]) == 1 for file in ran.json["files"] if not file["valid"])
    assert "read the log with --compat source, or convert it" in ran.err


def test_compat_source_reads_suffixes_and_null_filters_and_keeps_every_other_rule(
    gatemark: Run, tmp_path: Path
) -> None:
    path = write(tmp_path / "a.jsonl.gz", as_source(RECORDS))
    ran = gatemark("runlog", "validate", path, "--compat", "source")
    assert ran.code == 0, ran.err
    assert "1 decisions have no filters, only nulls" in ran.err
    broken = as_source(changed(1, text_hash="sha256:1"))
    ran = gatemark("runlog", "validate", write(path, broken), "--compat", "source")
    assert ran.code == 2
    assert "$.text_hash" in ran.err
    other = as_source(changed(5, event_id=f"{CASE}-V0-se-009"))
    ran = gatemark("runlog", "validate", write(path, other), "--compat", "source")
    assert f"expected '{CASE}-V0-se-000'" in ran.err


@pytest.mark.parametrize("version", ["1.3.0", "1.4.0"])
@pytest.mark.parametrize("reason", ["threshold", "timeout"])
def test_logs_of_1_3_and_1_4_are_read_as_they_were_written(
    version: str, reason: str, gatemark: Run, tmp_path: Path
) -> None:
    path = write(tmp_path / "a.jsonl.gz", older(version, reason))
    ran = gatemark("runlog", "validate", path)
    assert ran.code == 0, ran.err
    log = read_run_log(str(path))
    assert (log.meta.mas_run_id, log.flushes[0].trigger_reason) == ("mas-unknown", reason)
    assert len(log.events) == 3
    cut = gatemark("runlog", "validate", write(path, older(version)[:-2]))
    assert cut.code == 2
    assert "the log is incomplete" in cut.err


def test_the_current_version_has_no_older_reasons(gatemark: Run, tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl.gz", changed(1, trigger_reason="threshold"))
    assert gatemark("runlog", "validate", path).code == 2


def test_a_log_of_1_0_has_summaries_without_windows(gatemark: Run, tmp_path: Path) -> None:
    content = RECORDS[5]["summary_content"]
    single = {
        "schema_name": "exaid.run",
        "schema_version": "1.0.0",
        "run_id": "run-v1-000",
        "trace_id": "trc-000",
        "case_id": "unknown",
        "variant_id": "V1",
        "timestamp": "2025-12-17T10:00:00.123456+00:00",
        "summaries": [
            {"summary_idx": at, "content": content, "token_count": 50, "trigger_trace_idx": at}
            for at in range(2)
        ],
        "timing": {"total_ms": 4, "avg_summary_ms": 2.0},
        "run_meta": {
            "concept_extractor": {"model": "en_core_sci_sm", "min_entity_len": 3},
            "summarizer_config": {"history_k": 3},
        },
    }
    path = write(tmp_path / "unknown.jsonl.gz", [single])
    ran = gatemark("runlog", "validate", path)
    assert ran.code == 0, ran.err
    assert "start_seq is missing in 2 summary_event records" in ran.err
    log = read_run_log(str(path))
    assert log.meta.history_k == 3
    assert [event.event_index for event in log.events] == [0, 1]
    assert log.events[1].summary_semantics_text == RECORDS[5]["summary_semantics_text"]
    refused = gatemark("runlog", "migrate", path, "--out", tmp_path / "new")
    assert refused.code == 1
    assert "is missing" in refused.err
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("version", ["1.6.0", "2.0.0", "1.2.0", "0.9.0"])
def test_an_unknown_version_is_refused_by_name(version: str, gatemark: Run, tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl.gz", changed(0, schema_version=version))
    for command in (("validate",), ("runlog", "validate")):
        ran = gatemark(*command, path)
        assert ran.code == 2
        assert f"unknown version '{version}' (known: 1.0 to 1.2" in ran.err


def test_the_bytes_must_be_as_the_log_says(gatemark: Run, tmp_path: Path) -> None:
    text = b"".join(write_compact_json(record) + b"\n" for record in RECORDS)
    path = tmp_path / "a.jsonl.gz"
    for data, words in (
        (gzip.compress(text, mtime=7), "says gzip_mtime 0, but the gzip header has the time 7"),
        (
            gzip.compress(
                "".join(f"{json.dumps(r, sort_keys=True)}\n" for r in RECORDS).encode(), mtime=0
            ),
            "says the separator ',', but the line has ', '",
        ),
        (
            gzip.compress(b"".join(json.dumps(r).encode() + b"\n" for r in RECORDS), mtime=0),
            "says sorted keys, but",
        ),
    ):
        path.write_bytes(data)
        ran = gatemark("runlog", "validate", path)
        assert ran.code == 2
        assert words in ran.err
    path.write_bytes(gzip.compress(text, mtime=0))
    assert gatemark("runlog", "validate", path).code == 0


@pytest.mark.parametrize(
    ("place", "fields", "path"),
    [
        (5, {"llm_usage": {"trace_file_hash": "x"}}, "$.llm_usage.trace_file_hash"),
        (2, {"more": [{"stop_cuis_hash": "x"}]}, "$.more[0].stop_cuis_hash"),
        (0, {"backend": {"determinism": {}}}, "$.backend.determinism"),
        (1, {"stop_entities_hash": "x"}, "$.stop_entities_hash"),
    ],
)
def test_provenance_stands_in_one_place_at_every_depth(
    place: int, fields: dict[str, Any], path: str, gatemark: Run, tmp_path: Path
) -> None:
    file = write(tmp_path / "a.jsonl.gz", changed(place, **fields))
    ran = gatemark("runlog", "validate", file)
    assert ran.code == 2
    assert f":{place + 1}: belongs to run_meta, in one place only at {path}" in ran.err


def test_a_letter_of_a_hash_key_may_be_an_escape(gatemark: Run, tmp_path: Path) -> None:
    file = write(tmp_path / "a.jsonl.gz", changed(5, llm_usage={"trace_file_hash": "x"}))
    text = gzip.decompress(file.read_bytes()).replace(
        b'"trace_file_hash":"x"', rb'"tr\u0061ce_file_hash":"x"'
    )
    assert rb"\u0061" in text
    file.write_bytes(gzip.compress(text, mtime=0))
    ran = gatemark("runlog", "validate", file)
    assert "belongs to run_meta, in one place only at $.llm_usage.trace_file_hash" in ran.err


def test_a_key_that_nearly_is_a_known_one_is_a_warning(gatemark: Run, tmp_path: Path) -> None:
    event = {key: value for key, value in RECORDS[5].items() if key != "latency_ms"}
    records = [*RECORDS[:5], event | {"latencies_ms": 92}, *RECORDS[6:]]
    ran = gatemark("runlog", "validate", write(tmp_path / "a.jsonl.gz", records))
    assert ran.code == 0
    assert "nothing reads 'latencies_ms'; did you mean 'latency_ms'?" in ran.err
    ran = gatemark("runlog", "validate", write(tmp_path / "b.jsonl.gz", changed(5, colour="red")))
    assert (ran.code, ran.err) == (0, "")


def test_migrated_logs_are_valid_and_lose_nothing(gatemark: Run, tmp_path: Path) -> None:
    records = as_source(changed(5, note={"kept": True}))
    write(tmp_path / "old" / "V0" / f"{CASE}.trace.jsonl.gz", records)
    write(tmp_path / "old" / "V1" / "broken.jsonl.gz", [RECORDS[0], RECORDS[0]])
    ran = gatemark("runlog", "migrate", tmp_path / "old", "--out", tmp_path / "new")
    assert ran.code == 1
    assert "a file has one run_meta" in ran.err
    assert "1 of 2 run logs written" in ran.out
    target = tmp_path / "new" / "V0" / f"{CASE}.jsonl.gz"
    assert gatemark("runlog", "validate", tmp_path / "new").code == 0
    written = [json.loads(line) for line in gzip.decompress(target.read_bytes()).splitlines()]
    expected = json.loads(json.dumps(records).replace(f"{CASE}.trace", CASE))
    del expected[2]["filter_results"]
    assert written == expected
    again = gatemark("runlog", "migrate", tmp_path / "old" / "V0", "--out", target.parent)
    assert again.code == 1
    assert "exists; choose another folder" in again.err


def test_an_older_log_migrates_within_its_version(gatemark: Run, tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl.gz", older())
    ran = gatemark("runlog", "migrate", tmp_path / "a.jsonl.gz", "--out", tmp_path / "new")
    assert ran.code == 0, ran.err
    log = read_run_log(str(tmp_path / "new" / f"{CASE}.jsonl.gz"))
    assert (log.meta.schema_version, log.meta.mas_run_id) == ("1.3.0", "mas_unknown")


def in_one_object() -> dict[str, Any]:
    """The log as 1.2.x would have written it, with everything that 1.3.0 asks for."""
    meta, *others = older("1.2.0")
    lists: dict[str, list[Any]] = {}
    for kind, name in (
        ("tokengate_flush", "tokengate_flushes"),
        ("buffer_decision", "buffer_decisions"),
        ("summary_event", "summary_events"),
    ):
        found = [dict(one) for one in others if one["record_type"] == kind]
        lists[name] = [
            {key: value for key, value in one.items() if key not in ("record_type", "case_id")}
            for one in found
        ]
    return {key: value for key, value in meta.items() if key != "record_type"} | lists


@pytest.mark.parametrize(
    ("is_single", "complete", "value"),
    [
        (True, True, True),
        (False, None, None),
        (False, None, False),
        (False, True, None),
        (False, True, False),
    ],
)
def test_a_log_reads_the_same_before_and_after_it_is_migrated(
    is_single: bool, complete: bool | None, value: bool | None, gatemark: Run, tmp_path: Path
) -> None:
    filters = {"completeness_passed": complete, "value_passed": value, "novelty_passed": None}
    if is_single:
        records = [in_one_object()]
    else:
        records = as_source(older())
        records[2]["filter_results"] = filters
    path = write(tmp_path / "old" / "a.jsonl.gz", records)
    ran = gatemark("runlog", "migrate", path, "--out", tmp_path / "new")
    assert ran.code == 0, ran.err
    before = read_run_log(str(path), compat="source")
    after = read_run_log(str(tmp_path / "new" / f"{CASE}.jsonl.gz"))
    renamed = {"mas_run_id": "mas_unknown", "schema_version": "1.3.0"}
    assert msgspec.to_builtins(before.meta) | renamed == msgspec.to_builtins(after.meta)
    assert (before.flushes, before.events) == (after.flushes, after.events)
    assert [settled(one) for one in before.decisions] == [settled(one) for one in after.decisions]


def settled(decision: BufferDecision) -> tuple[object, ...]:
    """A decision, with the same for null and for no novelty."""
    filters = msgspec.to_builtins(decision.filter_results) if decision.filter_results else {}
    given = {key: value for key, value in filters.items() if value is not None}
    return (msgspec.structs.replace(decision, filter_results=msgspec.UNSET), given)


def report(**changes: Any) -> dict[str, Any]:
    return {
        "calibration_subset": {"case_ids": ["case-1", "case-2"], "count": 2},
        "chunk_size_ctu": 126,
        "exaid_commit": "4b46aba89e4a2a8b0c3b78e0b421235791a92a00",
        "excluded_flush_reasons": ["end_of_trace", "turn_end"],
        "generated_at": "2026-01-05T22:19:23.115805+00:00",
        "overall_median_ctu": 125.5,
        "per_case_median_ctu": {"case-1": 124, "case-2": 127},
        "tokengate_config_hash": "sha256:1",
        "trace_dataset_hash": "sha256:2",
        "v0_run_log_hashes": {},
        "v0_run_logs": [],
    } | changes


def test_a_report_on_the_chunk_size_is_read_unless_it_contradicts_itself(tmp_path: Path) -> None:
    path = tmp_path / "v3_calibration_report.json"
    path.write_text(json.dumps(report()))
    found = read_chunk_report(str(path))
    assert (found.chunk_size_ctu, found.overall_median_ctu) == (126, 125.5)
    assert (found.exaid_commit[:8], found.tokengate_config_hash) == ("4b46aba8", "sha256:1")
    path.write_text(json.dumps(report(chunk_size_ctu=120)))
    with pytest.raises(BadInputError, match=r"the median of its cases is 125\.5"):
        read_chunk_report(str(path))


@pytest.mark.parametrize("pin", ["trace_dataset_hash", "tokengate_config_hash", "code_commit"])
def test_a_report_of_something_else_is_refused(pin: str, tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_text(json.dumps(report()))
    found = read_chunk_report(str(path))
    pins = {
        "trace_dataset_hash": found.trace_dataset_hash,
        "tokengate_config_hash": found.tokengate_config_hash,
        "code_commit": found.exaid_commit,
    }
    refuse_mismatch(found, **pins)
    refuse_mismatch(found, **(pins | {"code_commit": None}))
    field = "exaid_commit" if pin == "code_commit" else pin
    with pytest.raises(BadInputError, match=f"the V3 report's {field} must be other, got"):
        refuse_mismatch(found, **(pins | {pin: "other"}))


def test_rows_of_metrics_may_have_any_case_id(gatemark: Run, tmp_path: Path) -> None:
    row = dict(schemas().get("exaid.metrics").good_files[0][0]) | {"case_id": "Case 7.trace"}
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(row) + "\n")
    assert gatemark("validate", path).code == 0
    assert gatemark("score", "runlog", path, "--json").code == 0
    assert gatemark("score", "runlog", path, "--gates", "m6b_mean=0.05").code == 1
    assert gatemark("score", "runlog", path, "--gates", "m6b_mean").code == 2
    path.write_text(json.dumps(row | {"schema_version": "3.0.0"}) + "\n")
    ran = gatemark("validate", path)
    assert ran.code == 2
    assert "unknown version '3.0.0' (known: 2.0 to 2.2)" in ran.err


def test_commands_on_traces_have_a_mode(gatemark: Run, tmp_path: Path) -> None:
    world = small_world(tmp_path / "world")
    records = trace_records("case-9", [("doctor0", ("I see fever.", "Plain."))])
    records[-1] |= {"t_ms": records[-1]["t_ms"] - 150, "t_rel_ms": records[-1]["t_rel_ms"] - 150}
    write(world.traces / "case-9.trace.jsonl.gz", records)
    words = ("runlog", "stoplists", "--traces", world.traces, "--out", tmp_path / "o")
    strict = gatemark(*words)
    assert strict.code == 2
    assert "before its last delta" in strict.err
    assert gatemark(*words, "--mode", "inspect").code == 0


def test_an_audit_reads_each_trace_once(
    gatemark: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world: World = small_world(tmp_path / "world")
    read: list[str] = []
    from gatemark.plugins.runlog import validate

    real = validate.read_trace
    monkeypatch.setattr(
        validate, "read_trace", lambda path, **more: read.append(path) or real(path, **more)
    )
    gatemark("runlog", "validate", world.runs, "--traces", world.traces)
    assert len(read) == 4
    assert len(set(read)) == 4
