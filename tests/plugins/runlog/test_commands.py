from __future__ import annotations

import gzip
import hashlib
import json
import shutil
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import click
import pytest

from gatemark.plugins.runlog.cli import RUNLOG_VERBS, runlog_command

Run = Callable[..., Any]

SMALL = "{cases: 6, rounds: [1, 2], sentences: [4, 8]}"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with six small traces and their manifest."""
    from gatemark.cli.main import main

    folder = tmp_path_factory.mktemp("world")
    (folder / "small.yaml").write_text(SMALL)
    arguments = ["runlog", "traces", "--config", folder / "small.yaml", "-j", 1]
    places = ["--output", folder / "traces", "--manifests", folder / "manifests"]
    assert main([str(word) for word in [*arguments, *places]]) == 0
    return folder


@pytest.fixture
def copy(world: Path, tmp_path: Path) -> Path:
    """The same folder, to be spoiled."""
    return Path(shutil.copytree(world, tmp_path / "copy"))


def digests(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]


def rewrite(path: Path, records: list[dict[str, Any]]) -> None:
    text = "".join(
        json.dumps(record, sort_keys=True, separators=(",", ":")) + "\n" for record in records
    )
    path.write_bytes(gzip.compress(text.encode(), mtime=0))


@pytest.mark.parametrize("verb", RUNLOG_VERBS)
def test_every_subcommand_loads_and_says_what_the_table_says(verb: str) -> None:
    command = runlog_command.get_command(click.Context(runlog_command), verb)
    assert command is not None
    assert (command.help or "").split("\n", maxsplit=1)[0] == RUNLOG_VERBS[verb][1]


def test_traces_are_the_same_bytes_however_many_processes_write_them(
    world: Path, gatemark: Run, tmp_path: Path
) -> None:
    ran = gatemark(
        "runlog",
        "traces",
        "--config",
        world / "small.yaml",
        "-j",
        2,
        "--json",
        "--output",
        tmp_path / "traces",
        "--manifests",
        tmp_path / "manifests",
    )
    assert ran.code == 0
    assert (ran.json["cases"], ran.json["trace_dataset_hash"][:7]) == (6, "sha256:")
    assert digests(tmp_path / "traces") == digests(world / "traces")
    assert digests(tmp_path / "manifests") == digests(world / "manifests")


@pytest.mark.parametrize(
    ("options", "count"),
    [(("--limit", 2), 2), (("--subset", 3), 3), (("--domain", "incident"), 6), (("--stub",), 10)],
)
def test_a_dry_run_writes_only_the_case_list(options, count, gatemark: Run, tmp_path: Path) -> None:
    ran = gatemark(
        "runlog",
        "traces",
        "--cases",
        6,
        "--dry-run",
        *options,
        "--output",
        tmp_path / "t",
        "--manifests",
        tmp_path / "m",
    )
    assert ran.code == 0
    assert not (tmp_path / "t").exists()
    (listed,) = (tmp_path / "m").iterdir()
    assert len(listed.read_text().splitlines()) == count


def test_a_case_list_chooses_cases_and_a_stranger_is_refused(
    world: Path, gatemark: Run, tmp_path: Path
) -> None:
    chosen = tmp_path / "cases.txt"
    chosen.write_text('case-workshop-0002\n{"case_id": "case-clinical-0000", "index": 1}\n')
    places = ("--output", tmp_path / "t", "--manifests", tmp_path / "m", "-j", 1)
    config = ("--config", world / "small.yaml")
    assert gatemark("runlog", "traces", *config, "--case-list", chosen, *places).code == 0
    assert sorted(path.name for path in (tmp_path / "t").iterdir()) == [
        "case-clinical-0000.trace.jsonl.gz",
        "case-workshop-0002.trace.jsonl.gz",
    ]
    chosen.write_text("case-clinical-0009\n")
    ran = gatemark("runlog", "traces", *config, "--case-list", chosen, *places)
    assert (ran.code, "is not among the 6 known cases" in ran.err) == (2, True)


def test_a_file_may_say_which_cases_and_is_part_of_the_configuration(
    world: Path, gatemark: Run, tmp_path: Path
) -> None:
    cases = tmp_path / "a-cases.yaml"
    cases.write_text("{mode: fixed_subset, count: 2, seed: 5}")
    config = tmp_path / "b-small.yaml"
    config.write_text(SMALL)
    traces = ("runlog", "traces", "--config", config, "--dataset-config", cases, "-j", 1)
    places = ("--output", tmp_path / "t", "--manifests", tmp_path / "m")
    assert gatemark(*traces, *places).code == 0
    (manifest,) = (tmp_path / "m").glob("*.manifest.jsonl")
    provenance = json.loads(manifest.read_text().splitlines()[1])
    both = cases.read_bytes() + config.read_bytes()
    assert provenance["config_hash"] == "sha256:" + hashlib.sha256(both).hexdigest()
    assert len(list((tmp_path / "t").iterdir())) == 2
    cases.write_text("{mode: some}")
    assert gatemark(*traces, *places).code == 2
    twice = gatemark(*traces, *places, "--subset", 2)
    assert (twice.code, "exclude each other" in twice.err) == (2, True)


def test_two_runs_are_byte_identical_on_one_process_and_on_two(
    world: Path, gatemark: Run, tmp_path: Path
) -> None:
    for jobs in (1, 2):
        out = tmp_path / f"j{jobs}"
        ran = gatemark("runlog", "run", "--traces", world / "traces", "--output", out, "-j", jobs)
        assert ran.code == 0, ran.err
    one, two = digests(tmp_path / "j1"), digests(tmp_path / "j2")
    assert one == two
    assert len(one) == 5 * 6 + 5
    assert "evaluation eval-" in ran.out
    assert "V2: 6 of 6 cases" in ran.out
    assert gatemark("validate", *sorted((tmp_path / "j1").glob("V*/*.gz"))).code == 0


def test_everything_fits_everything_else(world: Path, gatemark: Run, tmp_path: Path) -> None:
    out = tmp_path / "runs"
    run = ("runlog", "run", "--traces", world / "traces", "-j", 1)
    assert gatemark(*run, "--output", out, "--variant", "V0", "--variant", "V1").code == 0
    ran = gatemark("runlog", "validate", world / "traces", world / "manifests", "--json")
    assert (ran.code, ran.json["file_count"], ran.json["stubs"]) == (0, 7, [])
    assert gatemark("runlog", "validate", "--traces", world / "traces").code == 0
    assert gatemark("runlog", "validate").code == 2
    (manifest,) = (world / "manifests").glob("*.manifest.jsonl")
    checked = gatemark(
        "runlog",
        "validate",
        out / "V0",
        out / "V1",
        "--traces",
        world / "traces",
        "--manifest",
        manifest,
        "-o",
        tmp_path / "report.json",
    )
    assert checked.code == 0, checked.err
    report = json.loads((tmp_path / "report.json").read_text())
    assert (report["valid"], report["file_count"]) == (True, 12)


def test_a_manifest_that_miscounts_a_trace_is_told(copy: Path, gatemark: Run) -> None:
    (path,) = (copy / "manifests").glob("*.manifest.jsonl")
    records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    records[2]["delta_count"] += 5
    records[-1]["total_deltas"] += 5
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    ran = gatemark("runlog", "validate", copy / "traces", path)
    assert ran.code == 0
    assert f"the manifest's delta_count says {records[2]['delta_count']}" in ran.err
    assert "turn_count" not in ran.err


def test_a_log_that_was_changed_does_not_fit_its_trace(
    copy: Path, gatemark: Run, tmp_path: Path
) -> None:
    out = tmp_path / "runs"
    gatemark(
        "runlog", "run", "--traces", copy / "traces", "--output", out, "--variant", "V2", "-j", 1
    )
    path = sorted((out / "V2").iterdir())[0]
    records = lines_of(path)
    records[1]["end_seq"] = 99_999
    rewrite(path, records)
    ran = gatemark("runlog", "validate", path, "--traces", copy / "traces")
    assert ran.code == 2
    assert "must lie inside the trace" in ran.err
    assert "at $.end_seq (window_in_trace)" in ran.err


def spoil(path: Path, how: str) -> None:
    records = lines_of(path)
    deltas = [
        place for place, record in enumerate(records) if record["record_type"] == "stream_delta"
    ]
    if how == "seq":
        del records[deltas[3]]
    elif how == "turn_boundaries":
        ends = [p for p, record in enumerate(records) if record.get("boundary") == "end"]
        del records[ends[-1]]
    elif how == "negative":
        records[deltas[0]]["t_emitted_ms"] = -5
    elif how == "content_hash":
        ends = [record for record in records if record.get("boundary") == "end"]
        ends[0]["content_hash"] = "sha256:" + "0" * 64
    rewrite(path, records)


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("seq", "seq counts from 0 without gaps"),
        ("turn_boundaries", "has no end"),
        ("negative", "-5 is less than the minimum of 0 at $.t_emitted_ms"),
        ("content_hash", "is not the hash of the text of turn 1 at $.content_hash"),
    ],
)
def test_a_spoiled_trace_is_refused_with_its_place_and_fails_its_case(
    how: str, words: str, copy: Path, gatemark: Run, tmp_path: Path
) -> None:
    path = copy / "traces" / "case-clinical-0000.trace.jsonl.gz"
    spoil(path, how)
    for command in (("validate", path), ("runlog", "validate", path)):
        ran = gatemark(*command)
        assert ran.code == 2
        assert words in ran.err
        assert f"{path}:" in ran.err
    out = tmp_path / "runs"
    old = out / "V1" / "case-clinical-0000.jsonl.gz"
    old.parent.mkdir(parents=True)
    old.write_bytes(b"from an earlier run")
    ran = gatemark(
        "runlog", "run", "--traces", copy / "traces", "--output", out, "--variant", "V1", "-j", 1
    )
    assert ran.code == 1
    assert "V1 case-clinical-0000: " in ran.err
    assert not old.exists()
    (summary,) = (out / "run_summaries").iterdir()
    told = json.loads(summary.read_text())
    assert (told["total_cases"], told["succeeded"]) == (6, 5)
    assert [failure["case_id"] for failure in told["failed"]] == ["case-clinical-0000"]


def test_inspection_replays_what_strictness_refuses_unless_the_manifest_pins_other_bytes(
    copy: Path, gatemark: Run, tmp_path: Path
) -> None:
    path = copy / "traces" / "case-clinical-0000.trace.jsonl.gz"
    spoil(path, "seq")
    ran = gatemark("runlog", "validate", path, "--mode", "inspect")
    assert ran.code == 0
    assert "warning: must be" in ran.err
    assert "seq: 1" in ran.out
    assert gatemark("runlog", "replay", path, "--mode", "inspect", "--limit", 1).code == 0
    assert gatemark("runlog", "replay", path).code == 2
    run = ("runlog", "run", "--traces", copy / "traces", "--output", tmp_path / "o", "-j", 1)
    pinned = gatemark(*run, "--variant", "V1", "--mode", "inspect")
    assert pinned.code == 1
    assert "is not the trace of the manifest" in pinned.err


def test_a_manifest_of_other_traces_is_refused(copy: Path, gatemark: Run, tmp_path: Path) -> None:
    other = ("--output", tmp_path / "t", "--manifests", tmp_path / "m", "-j", 1)
    gatemark("runlog", "traces", "--cases", 2, "--seed", 99, "--domain", "workshop", *other)
    (manifest,) = (tmp_path / "m").glob("*.manifest.jsonl")
    ran = gatemark(
        "runlog",
        "run",
        "--traces",
        copy / "traces",
        "--manifest",
        manifest,
        "--output",
        tmp_path / "runs",
    )
    assert ran.code == 2
    assert "holds none of the 2 traces of the manifest" in ran.err
    assert not (tmp_path / "runs").exists()
    checked = gatemark("runlog", "validate", copy / "traces", "--manifest", manifest)
    assert checked.code == 2
    assert "is not listed in the manifest" in checked.err


def test_a_missing_trace_is_a_failed_case_and_a_stranger_is_a_warning(
    copy: Path, gatemark: Run, tmp_path: Path
) -> None:
    traces = copy / "traces"
    gone = traces / "case-incident-0001.trace.jsonl.gz"
    text = gzip.decompress(gone.read_bytes()).replace(b"case-incident-0001", b"case-x")
    (traces / "case-x.trace.jsonl.gz").write_bytes(gzip.compress(text))
    gone.unlink()
    ran = gatemark(
        "runlog", "run", "--traces", traces, "--output", tmp_path / "o", "--variant", "V1", "-j", 1
    )
    assert ran.code == 1
    assert "case-incident-0001: the trace of case-incident-0001 is missing" in ran.err
    assert "case-x.trace.jsonl.gz: is not in the manifest and was left out" in ran.err
    checked = gatemark("runlog", "validate", traces, copy / "manifests")
    assert checked.code == 2
    assert "case-incident-0001.trace.jsonl.gz: listed in the manifest, but not found" in checked.err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--variant", "V7"), "unknown variant 'V7' (known: V0, V1, V2, V3, V4)"),
        (("--case", "nobody"), "no case id of the manifest contains 'nobody'"),
        (("--eval-run-id", "eval-V0-x"), "--eval-run-id must match"),
        (("--created-at", "today"), "--created-at must be a date and time"),
        (("--configs", "gone"), "gone: holds no variant configurations"),
        (("--manifest", "gone.jsonl"), "gone.jsonl: No such file"),
        (("--model", "gone.yaml"), "gone.yaml: No such file"),
        (("--traces", "gone"), "gone: expected a folder of traces"),
    ],
)
def test_a_call_that_makes_no_sense_writes_nothing(
    options, words: str, world: Path, gatemark: Run, tmp_path: Path
) -> None:
    out = tmp_path / "runs"
    traces = () if "--traces" in options else ("--traces", world / "traces")
    ran = gatemark("runlog", "run", *traces, "--output", out, "-j", 1, *options)
    assert ran.code == 2
    assert words in ran.err
    assert not out.exists()


def test_a_time_can_be_given_and_the_environment_may_give_it(
    world: Path, gatemark: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = (
        "runlog",
        "run",
        "--traces",
        world / "traces",
        "--variant",
        "V1",
        "--case",
        "clinical-0000",
        "-j",
        1,
    )
    for place, options in (("a", ("--created-at", "2024-01-02T03:04:05Z")), ("b", ())):
        if place == "b":
            monkeypatch.setenv("SOURCE_DATE_EPOCH", "1704164645")
        assert gatemark(*run, "--output", tmp_path / place, *options).code == 0
    metas = [lines_of(tmp_path / p / "V1" / "case-clinical-0000.jsonl.gz")[0] for p in "ab"]
    assert [meta["created_at"] for meta in metas] == [
        "2024-01-02T03:04:05Z",
        "2024-01-02T03:04:05.000Z",
    ]


def test_the_sources_ways_can_be_chosen_and_are_recorded(
    world: Path, gatemark: Run, tmp_path: Path
) -> None:
    run = ("runlog", "run", "--traces", world / "traces", "--variant", "V1", "-j", 1)
    ran = gatemark(*run, "--output", tmp_path / "o", "--compat", "source", "--json")
    assert ran.code == 0
    path = sorted((tmp_path / "o" / "V1").iterdir())[0]
    meta, *events = lines_of(path)
    assert meta["compat"] == "source"
    assert meta["timestamp_derivation"]["derived_from_fallback"] == len(events)


def test_answers_can_be_recorded_and_replayed_without_the_model(
    world: Path, gatemark: Run, tmp_path: Path
) -> None:
    run = ("runlog", "run", "--traces", world / "traces", "--variant", "V0", "--case", "clinical")
    recorded = tmp_path / "answers.jsonl"
    assert gatemark(*run, "--output", tmp_path / "a", "--record", recorded, "-j", 2).code == 0
    assert gatemark(*run, "--output", tmp_path / "b", "--model", recorded, "-j", 1).code == 0
    first, second = (lines_of(tmp_path / p / "V0" / "case-clinical-0000.jsonl.gz") for p in "ab")
    assert second[0]["backend"]["summarizer"]["kind"] == "recorded"
    assert second[1:] == first[1:]
    short = tmp_path / "short.jsonl"
    short.write_text("".join(line + "\n" for line in recorded.read_text().splitlines()[:1]))
    ran = gatemark(*run, "--output", tmp_path / "c", "--model", short, "-j", 1)
    assert ran.code == 1
    assert "nothing was recorded for the" in ran.err
    short.write_text('{"task": "buffer"}\n')
    assert "short.jsonl:1: " in gatemark(*run, "--output", tmp_path / "c", "--model", short).err


class Endpoint(BaseHTTPRequestHandler):
    """Speaks like an OpenAI-compatible endpoint; every third answer is an error."""

    asked = 0

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        type(self).asked += 1
        system, user = (message["content"] for message in body["messages"])
        assert system
        assert user
        fields = ("status_action", "key_findings", "differential_rationale")
        more = ("uncertainty_confidence", "recommendation_next_step", "agent_contributions")
        answer = dict.fromkeys((*fields, *more), "said so")
        status = 400 if type(self).asked % 3 == 0 else 200
        message = {"content": f"```json\n{json.dumps(answer)}\n```"}
        document = {
            "model": "tiny-1",
            "choices": [{"message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 12, "completion_tokens": 5},
        }
        data = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        return None


@pytest.fixture
def endpoint(tmp_path: Path) -> Iterator[Path]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    spec = tmp_path / "endpoint.yaml"
    address = f"http://127.0.0.1:{server.server_port}/v1"
    spec.write_text(f"openai: {{base_url: '{address}', model: tiny}}\nretries: 0\n")
    yield spec
    server.shutdown()
    thread.join()
    server.server_close()


def test_an_endpoint_answers_and_its_failures_are_on_record(
    endpoint: Path, world: Path, gatemark: Run, tmp_path: Path
) -> None:
    ran = gatemark(
        "runlog",
        "run",
        "--traces",
        world / "traces",
        "--variant",
        "V2",
        "--case",
        "clinical-0000",
        "--output",
        tmp_path / "o",
        "--model",
        endpoint,
        "-j",
        1,
    )
    meta, *records = lines_of(tmp_path / "o" / "V2" / "case-clinical-0000.jsonl.gz")
    events = [record for record in records if record["record_type"] == "summary_event"]
    modes = [event["failure_mode"] for event in events]
    assert modes == [
        None if place % 3 else "unexpected_error" for place in range(1, len(events) + 1)
    ]
    assert len(events) >= 3
    good = events[0]
    assert good["llm_usage"]["model_id"] == "tiny-1"
    assert (good["llm_usage"]["provider_prompt_tokens"], good["schema_ok"]) == (12, True)
    assert meta["backend"]["summarizer"]["kind"] == "openai"
    assert ran.code == 1
    assert "questions got no answer" in ran.err
    assert gatemark("validate", tmp_path / "o" / "V2" / "case-clinical-0000.jsonl.gz").code == 0


def test_stub_traces_are_replayed_only_when_allowed(gatemark: Run, tmp_path: Path) -> None:
    places = ("--output", tmp_path / "traces", "--manifests", tmp_path / "manifests")
    assert gatemark("runlog", "traces", "--stub", "--limit", 2, *places, "-j", 1).code == 0
    run = ("runlog", "run", "--traces", tmp_path / "traces", "--output", tmp_path / "o", "-j", 1)
    refused = gatemark(*run, "--variant", "V1")
    assert (refused.code, "is a stub trace" in refused.err) == (1, True)
    assert gatemark(*run, "--variant", "V1", "--allow-stub").code == 0
    checked = gatemark("runlog", "validate", tmp_path / "traces", tmp_path / "manifests")
    assert (checked.code, "stub traces: case-stub-000, case-stub-001" in checked.out) == (0, True)
    stub = tmp_path / "traces" / "case-stub-000.trace.jsonl.gz"
    assert gatemark("runlog", "replay", stub).code == 2
    assert gatemark("runlog", "replay", stub, "--allow-stub").code == 0


def test_a_trace_can_be_walked_through(world: Path, gatemark: Run) -> None:
    path = world / "traces" / "case-clinical-0000.trace.jsonl.gz"
    full = gatemark("runlog", "replay", path, "--json", "--limit", 10_000).json
    content = gatemark("runlog", "replay", path, "--stream", "content_plane", "--json").json
    assert full["event_count"] == len(full["events"]) > content["event_count"]
    assert full["events"][0]["virtual_time_ms"] < 0
    shifted = gatemark("runlog", "replay", path, "--shift-to-zero", "--json", "--limit", 1).json
    assert shifted["events"][0]["virtual_time_ms"] == 0
    shown = gatemark("runlog", "replay", path, "--limit", 3).out.splitlines()
    assert len(shown) == 5
    assert shown[-1].startswith("and ")
    turns = gatemark("runlog", "replay", path, "--classifications").out
    assert "control_plane exact_label_match:" in turns.replace("  ", " ")
    assert "terminate_sentinel" in turns
    assert len(gatemark("runlog", "replay", path, "--audit").out.splitlines()) == 1


def test_v3_takes_its_chunk_size_from_a_fitting_report(
    world: Path, gatemark: Run, tmp_path: Path
) -> None:
    run = ("runlog", "run", "--traces", world / "traces", "-j", 1)
    assert gatemark(*run, "--output", tmp_path / "o", "--variant", "V0").code == 0
    meta = _read_meta(tmp_path / "o" / "V0")
    report = tmp_path / "report.json"
    fields = {
        "chunk_size_ctu": 60,
        "overall_median_ctu": 59.5,
        "per_case_median_ctu": {"case-1": 59, "case-2": 60},
        "trace_dataset_hash": meta["trace_dataset_hash"],
        "tokengate_config_hash": meta["tokengate_config_hash"],
    }
    report.write_text(json.dumps(fields))
    v3 = (*run, "--variant", "V3", "--output", tmp_path / "o", "--v3-report", report)
    assert gatemark(*v3).code == 0
    assert _read_meta(tmp_path / "o" / "V3")["chunk_size_ctu"] == 60
    assert gatemark(*v3, "--code-commit", "abc").code == 2
    assert gatemark(*v3, "--code-commit", "abc", "--allow-commit-mismatch").code == 0
    report.write_text(json.dumps(fields | {"trace_dataset_hash": "sha256:" + "0" * 64}))
    ran = gatemark(*v3)
    assert (ran.code, "the V3 report's trace_dataset_hash must be" in ran.err) == (2, True)


def _read_meta(folder: Path) -> dict[str, Any]:
    log = next(folder.glob("*.jsonl.gz"))
    meta: dict[str, Any] = json.loads(gzip.decompress(log.read_bytes()).splitlines()[0])
    return meta


def test_v3_without_a_size_or_a_report_is_refused(
    world: Path, gatemark: Run, tmp_path: Path
) -> None:
    from importlib.resources import files

    text = (
        files("gatemark.plugins.runlog.replay").joinpath("defaults", "V3.yaml").read_text("utf-8")
    )
    (tmp_path / "V3.yaml").write_text(text.replace("chunk_size_ctu: 125", "chunk_size_ctu: null"))
    ran = gatemark(
        "runlog",
        "run",
        "--traces",
        world / "traces",
        "--configs",
        tmp_path,
        "--output",
        tmp_path / "o",
    )
    assert ran.code == 2
    assert "V3 has no chunk size" in ran.err


def test_run_meta_can_name_the_extractor_and_the_stoplists_of_the_metrics(
    world: Path, gatemark: Run, tmp_path: Path
) -> None:
    run = ("runlog", "run", "--traces", world / "traces", "--variant", "V1", "-j", 1)
    lists, undated = tmp_path / "lists", tmp_path / "undated"
    for folder in (lists, undated):
        folder.mkdir()
        (folder / "stop_entities.txt").write_text("patient\n")
        (folder / "stop_cuis.txt").write_text("")
    made = '{"stoplists_generated_at": "2024-01-01T00:00:00Z"}'
    (lists / "stoplists_metadata.json").write_text(made)
    named = (*run, "--extractor", "lexicon", "--output", tmp_path / "o")
    refused = gatemark(*named, "--stoplists", undated)
    assert (refused.code, "has no time of generation" in refused.err) == (2, True)
    assert gatemark(*named, "--stoplists", lists).code == 0
    meta = lines_of(tmp_path / "o" / "V1" / "case-clinical-0000.jsonl.gz")[0]
    assert meta["concept_extractor"]["linker_name"] != "none"
    assert meta["concept_extractor"]["stop_entities_count"] == 1
    assert meta["stoplists_provenance"]["stoplists_generated_at"] == "2024-01-01T00:00:00Z"
    alone = gatemark(*run, "--stoplists", lists, "--output", tmp_path / "p")
    assert (alone.code, "--stoplists needs --extractor" in alone.err) == (2, True)
