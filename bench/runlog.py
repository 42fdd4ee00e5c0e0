"""Run logs: how fast they are checked, against jsonschema, and how fast traces are replayed."""

from __future__ import annotations

import gzip
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import msgspec

from bench.measure import Line, gatemark, run
from gatemark.evidence.json_schema import schema_document
from gatemark.evidence.reading_choices import ReadingChoices
from gatemark.evidence.record_schemas import schemas
from gatemark.evidence.validate import validate_files
from gatemark.plugins.runlog.make_traces import TracesRequest, make_traces
from gatemark.plugins.runlog.replay.run import run_cases
from gatemark.plugins.runlog.replay.run_request import RunRequest
from gatemark.plugins.runlog.traces.synthetic import SyntheticSettings
from gatemark.workspace import Workspace

CASES = 1_000
LOGS = 200
JSONSCHEMA_RECORDS = 1_500


def best(work: Callable[[], object], repeats: int = 3) -> float:
    """Processor seconds of the best of some runs in this process."""
    times = []
    for _ in range(repeats):
        started = time.process_time()
        work()
        times.append(time.process_time() - started)
    return min(times)


def large_log(logs: list[Path], target: Path, megabytes: int) -> int:
    """One run log of about that size, made of the records of many; gives its bytes."""
    kinds: dict[str, list[dict[str, Any]]] = {}
    for path in logs:
        for line in gzip.decompress(path.read_bytes()).splitlines():
            record = json.loads(line)
            kinds.setdefault(record["record_type"], []).append(record)
    (meta, *_) = kinds.pop("run_meta")
    size = sum(len(msgspec.json.encode(record)) for records in kinds.values() for record in records)
    copies = max(1, megabytes * 1_000_000 // size)
    count = copies * sum(map(len, kinds.values()))
    meta["timestamp_derivation"] |= {"derived_from_t_emitted": count, "derived_from_fallback": 0}
    names = {
        "tokengate_flush": ("flush_index", None, ""),
        "buffer_decision": ("decision_index", "decision_id", "bd"),
        "summary_event": ("event_index", "event_id", "se"),
    }
    encoder = msgspec.json.Encoder(order="sorted")
    with target.open("wb") as stream:
        stream.write(encoder.encode(meta) + b"\n")
        for kind, (counter, name, short) in names.items():
            records = kinds[kind] * copies
            for index, found in enumerate(records):
                record = found | {counter: index, "case_id": meta["case_id"]}
                if name is not None:
                    record[name] = f"{meta['case_id']}-V0-{short}-{index:03d}"
                if kind == "summary_event":
                    before = [f"{meta['case_id']}-V0-se-{n:03d}" for n in range(index)[-4:]]
                    record["latest_summary_event_id"] = before[-1] if before else None
                    record["summary_history_event_ids"] = before[:-1]
                stream.write(encoder.encode(record) + b"\n")
    return target.stat().st_size


def validated(paths: list[Path]) -> None:
    """Every file must be valid, or the figures mean nothing."""
    for check in validate_files([str(path) for path in paths], None, ReadingChoices()):
        if check.problems:
            raise SystemExit(check.problems[0])


def lines() -> Iterator[Line]:
    """Every claim about run logs, measured."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        traces = TracesRequest(
            output=str(folder / "traces"),
            manifests=str(folder / "manifests"),
            settings=SyntheticSettings(cases=CASES),
        )
        made = make_traces(Workspace(jobs=2), traces)
        yield Line(f"deltas in {CASES:,} synthetic traces", made.deltas / 1e6, "M")
        yield from replay_lines(folder, made.deltas)
        yield from validate_lines(folder)


def replay_lines(folder: Path, deltas: int) -> Iterator[Line]:
    """Traces read, checked, replayed through V0 and their logs written, on one core."""
    request = RunRequest(
        traces=str(folder / "traces"), output=str(folder / "runs"), variants=("V0",)
    )
    started = time.perf_counter()
    seconds = best(lambda: run_cases(Workspace(jobs=1), request), repeats=1)
    wall = time.perf_counter() - started
    yield Line("replay through V0, rules, -j 1", deltas / wall / 1000, "k/s", at_least=200)
    yield Line("replay through V0, by processor time", deltas / seconds / 1000, "k/s")
    command = ("runlog", "run", "--traces", f"{folder}/traces", "--output", f"{folder}/runs")
    double = run(gatemark(*command, "--variant", "V0", "-j", "2"))
    yield Line("the whole command, -j 2", deltas / double.seconds / 1000, "k/s")
    yield Line("resident memory of the command, -j 2", double.resident_mb, "MB")


def validate_lines(folder: Path) -> Iterator[Line]:
    """Run logs checked line by line and as files, and by jsonschema in the same process."""
    logs = sorted((folder / "runs" / "V0").glob("*.jsonl.gz"))[:LOGS]
    large = folder / "large.jsonl"
    size = large_log(logs, large, 60)
    validated([large])
    ours = size / best(lambda: validated([large])) / 1e6
    yield Line(f"validate one run log of {size / 1e6:.0f} MB", ours, "MB/s", at_least=100)
    unpacked = sum(len(gzip.decompress(path.read_bytes())) for path in logs)
    small = unpacked / best(lambda: validated(logs)) / 1e6
    yield Line(f"validate {len(logs)} packed run logs, unpacked bytes", small, "MB/s")
    with large.open("rb") as stream:
        whole = stream.read().splitlines()
    sample = whole[:: max(1, len(whole) // JSONSCHEMA_RECORDS)]
    validator = jsonschema.Draft202012Validator(schema_document(schemas().get("exaid.run")))

    def by_jsonschema() -> None:
        for line in sample:
            validator.validate(json.loads(line))

    theirs = sum(map(len, sample)) / best(by_jsonschema, repeats=1) / 1e6
    yield Line("jsonschema, the same records", theirs, "MB/s")
    yield Line("gatemark / jsonschema", ours / theirs, "x", at_least=50)
