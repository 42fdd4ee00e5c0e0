"""Runs that are shot at seeded moments and resumed, held against runs that nobody disturbed."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]

ITEMS = 1_500
KILLED = -9
OCCASION = {"id", "stamp", "started_at", "finished_at"}
PACK = """
gatemark: 1
name: shouting
version: 1
asset: {kind: prompt, name: shouting}
score_min: 0.5
regression_max: 0.2
required_suites: [golden]
suites:
  - {id: golden, kind: golden, weight: 1.0, min: 0.5, dataset: golden.jsonl, scorer: token_f1}
targets:
  candidate: {command: [PYTHON, answer.py]}
  baseline: none
"""
ANSWER = """
import json, sys, time
for line in sys.stdin:
    asked = json.loads(line)
    time.sleep(0.001)
    said = {"output": asked["input"].upper(), "confidence": 0.75}
    print(json.dumps({"id": asked["id"], **said}), flush=True)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pack.yaml").write_text(PACK.replace("PYTHON", json.dumps(sys.executable)))
    (tmp_path / "answer.py").write_text(ANSWER)
    rows = [
        {"id": f"r{n:04d}", "input": f"say {n}", "target": f"SAY {n}" + " PLEASE" * (n % 3)}
        for n in range(ITEMS)
    ]
    _write(tmp_path / "golden.jsonl", rows)
    return tmp_path


def _write(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def _record(path: Path, seed: int) -> Path:
    """Answers, latencies and some errors that were written down earlier."""
    rng = random.Random(seed)
    rows = []
    for n in range(ITEMS):
        row: dict[str, Any] = {"schema": "gatemark.sample/1", "id": f"r{n:04d}", "scores": {}}
        if rng.random() < 0.02:
            row["error"] = {"kind": "timeout", "message": "no reply within 3 s"}
        else:
            row |= {
                "output": f"SAY {n}" if rng.random() < 0.9 else "no",
                "latency_ms": rng.random(),
            }
        rows.append(row)
    _write(path, rows)
    return path


def _journalled(store: Path) -> int:
    """How many calls the journals of a store hold now."""
    return sum(path.read_bytes().count(b"\n") for path in store.glob("runs/*/*") if path.is_file())


def _shoot(command: list[str], store: Path, moments: list[int]) -> int:
    """Start the run again and again and kill it at each moment; how many shots hit it alive.

    A moment is a number of calls in the journal: 0 is before the first one. The last call may be
    followed by the judging, which the shot then ends.
    """
    hits = 0
    for moment in moments:
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=store.parent
        )
        while process.poll() is None and _journalled(store) < moment:
            time.sleep(0.001)
        process.kill()
        hits += process.wait(timeout=60) == KILLED
    return hits


def _command(folder: Path, store: Path, *more: object) -> list[str]:
    arguments = ("run", folder / "pack.yaml", "--store", store, "--resume", "--json", *more)
    return [sys.executable, "-m", "gatemark", *map(str, arguments)]


def _finish(command: list[str]) -> dict[str, Any]:
    done = subprocess.run(command, capture_output=True, check=False)
    assert done.returncode in (0, 1, 3), done.stderr.decode()
    result: dict[str, Any] = json.loads(done.stdout)
    return result


@pytest.mark.slow
def test_recorded_answers_give_one_id_however_often_the_run_was_killed(
    gatemark: Run, folder: Path
) -> None:
    arms = (
        *("--candidate", _record(folder / "cand.jsonl", 1)),
        *("--baseline", _record(folder / "base.jsonl", 2)),
    )
    calm = _finish(_command(folder, folder / "calm", *arms))
    shot_store = folder / "shot"
    command = _command(folder, shot_store, *arms, "-j", 3)
    moments = [0, *sorted(random.Random(7).sample(range(1, 2 * ITEMS), 6)), 2 * ITEMS]
    hits = _shoot(command, shot_store, moments)
    shot = _finish(command)
    assert hits >= len(moments) - 2
    assert shot["id"] == calm["id"]
    listed = gatemark("list", "--store", shot_store, "--json").json
    assert [line["id"] for line in listed] == [calm["id"]]
    assert not list((shot_store / "runs").iterdir())


def _untimed(value: Any) -> Any:
    """A part of a result without the times of its answers, which no two runs share."""
    if isinstance(value, dict):
        return {name: item for name, item in value.items() if name != "answered_at"}
    if not isinstance(value, list):
        return value
    return [
        item
        for item in value
        if not isinstance(item, dict)
        or not str(item.get("name", item.get("title"))).lower().startswith("latency")
    ]


@pytest.mark.slow
def test_a_killed_live_run_differs_by_measured_times_only_and_is_judged_again_to_its_id(
    gatemark: Run, folder: Path
) -> None:
    calm = _finish(_command(folder, folder / "calm", "-j", 2))
    command = _command(folder, folder / "shot", "-j", 2)
    hits = _shoot(command, folder / "shot", sorted(random.Random(8).sample(range(1, ITEMS), 4)))
    shot = _finish(command)
    assert hits == 4
    told = calm.keys() - OCCASION - {"blobs", "evidence"}
    untimed = [{key: _untimed(result[key]) for key in told} for result in (shot, calm)]
    assert untimed[0] == untimed[1]
    for name, result in (("calm", calm), ("shot", shot)):
        again = gatemark(
            *("gate", result["id"], "--pack", folder / "pack.yaml"),
            *("--store", folder / name, "--json"),
        )
        assert again.json["id"] == result["id"]
    answers = [_answers(folder / name, result) for name, result in (("calm", calm), ("shot", shot))]
    assert answers[0] == answers[1]
    assert len(answers[0]) == ITEMS


def _answers(store: Path, result: dict[str, Any]) -> list[dict[str, Any]]:
    """The samples a result keeps, without when each was given and how long it took."""
    (digest,) = (b["digest"] for b in result["blobs"] if b["name"] == "golden.candidate.jsonl")
    (path,) = store.glob(f"blobs/*/*{digest.removeprefix('sha256:')[2:]}*")
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert all(row.pop("latency_ms") > 0 for row in rows)
    assert all(row.pop("answered_at") for row in rows)
    return rows
