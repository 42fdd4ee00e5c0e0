"""From production traces to a replay suite: import, draw by a tag, run, seal, derive again."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]
COUNT = 60
PACK = """
gatemark: 1
name: desk
version: 1
asset: {kind: prompt, name: desk}
score_min: 0.5
regression_max: 0.2
required_suites: [recent]
suites:
  - {id: recent, kind: replay, weight: 1.0, dataset: recent.jsonl,
     sample: {n: 40, seed: 7, stratify: tenant}}
targets:
  candidate: {python: "app:CANDIDATE"}
  baseline: {python: "app:same"}
"""
APP = """
def same(text):
    return "It costs " + text.split()[-1]

def other(text):
    return "No idea"
"""


def trace(number: int, *, failed: bool = False) -> dict[str, Any]:
    def text(key: str, value: str) -> dict[str, Any]:
        return {"key": key, "value": {"stringValue": value}}

    span = {
        "traceId": f"t{number:03d}",
        "spanId": "a1",
        "name": "desk",
        "startTimeUnixNano": "1000000",
        "endTimeUnixNano": "9000000",
        "attributes": [
            text("input.value", f"What does it cost? {number}"),
            text("tenant", "large" if number % 4 else "small"),
            *([] if failed else [text("output.value", f"It costs {number}")]),
        ],
        **({"status": {"code": 2, "message": "boom"}} if failed else {}),
    }
    around = {"attributes": [text("service.name", "desk"), text("service.version", "1.4")]}
    return {"resourceSpans": [{"resource": around, "scopeSpans": [{"spans": [span]}]}]}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    lines = [trace(number, failed=number == 59) for number in range(COUNT)]
    (tmp_path / "traces.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (tmp_path / "app.py").write_text(APP)
    return tmp_path


def replay(gatemark: Run, folder: Path, candidate: str) -> Any:
    out = folder / "recent.jsonl"
    traces = folder / "traces.jsonl"
    made = gatemark("import", traces, "--from", "otlp", "--answered", "-o", out, "--json")
    assert (made.code, made.json["unanswered"]) == (0, 1)
    pack = folder / "pack.yaml"
    pack.write_text(PACK.replace("CANDIDATE", candidate))
    return gatemark("run", pack, "--store", folder / "store", "--json")


def test_attributes_of_a_trace_are_tags_and_what_was_said_is_not(
    gatemark: Run, folder: Path
) -> None:
    out = folder / "all.jsonl"
    assert gatemark("import", folder / "traces.jsonl", "-o", out).code == 0
    first = json.loads(out.read_text().splitlines()[0])
    assert first["tags"] == {
        "name": "desk",
        "service": "desk",
        "service.version": "1.4",
        "tenant": "small",
    }


def test_production_is_the_reference_of_change(gatemark: Run, folder: Path) -> None:
    ran = replay(gatemark, folder, "same")
    assert ran.code == 0, ran.json["blockers"]
    numbers = {m["name"]: m["value"] for m in ran.json["measurements"] if m["scope"] == "recent"}
    assert (numbers["score"], numbers["behavioural_delta"]) == (1.0, 0.0)
    (evidence,) = ran.json["evidence"]
    assert evidence["expected"] == 40
    verified = gatemark("ledger", "verify", "--rescore", "--store", folder / "store")
    assert verified.code == 0, verified.err


def test_a_candidate_that_answers_otherwise_fails(gatemark: Run, folder: Path) -> None:
    ran = replay(gatemark, folder, "other")
    assert ran.code == 1
    numbers = {m["name"]: m["value"] for m in ran.json["measurements"] if m["scope"] == "recent"}
    assert numbers["behavioural_delta"] == 1.0


def test_the_candidate_does_not_see_what_production_said(gatemark: Run, folder: Path) -> None:
    """A target that is sent the whole sample gets no answer to copy."""
    (folder / "spy.py").write_text(
        "import json, sys\n"
        "for line in sys.stdin:\n"
        "    call = json.loads(line)\n"
        "    print(json.dumps({'id': call['id'], 'output': json.dumps(call)}), flush=True)\n"
    )
    global_pack = PACK.replace(
        '{python: "app:CANDIDATE"}',
        f'{{command: ["{sys.executable}", "spy.py"], send_sample: true}}',
    )
    replay(gatemark, folder, "same")
    (folder / "pack.yaml").write_text(global_pack)
    ran = gatemark("run", folder / "pack.yaml", "--store", folder / "spied", "--json")
    digest = next(b["digest"] for b in ran.json["blobs"] if b["name"] == "recent.candidate.jsonl")
    stored = next((folder / "spied").rglob(f"*{digest.removeprefix('sha256:')[8:]}*")).read_bytes()
    outputs = [json.loads(line)["output"] for line in stored.splitlines()]
    assert len(outputs) == 40
    assert all("What does it cost" in output for output in outputs)
    assert not any("It costs" in output for output in outputs)
