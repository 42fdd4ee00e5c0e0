"""Runs of a pack that are shot and resumed."""

from __future__ import annotations

import json
import random
import sys
import time
from pathlib import Path
from typing import Any

from tests.forked import Forked, run_forked

KILLED = -9
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


def furnish_run(folder: Path, items: int) -> None:
    """A pack, its data, and a target that answers slowly enough to be shot."""
    (folder / "pack.yaml").write_text(PACK.replace("PYTHON", json.dumps(sys.executable)))
    (folder / "answer.py").write_text(ANSWER)
    rows = [
        {"id": f"r{n:04d}", "input": f"say {n}", "target": f"SAY {n}" + " PLEASE" * (n % 3)}
        for n in range(items)
    ]
    _write(folder / "golden.jsonl", rows)


def _write(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def record(path: Path, seed: int, items: int) -> Path:
    """Answers, latencies and some errors that were written down earlier."""
    rng = random.Random(seed)
    rows = []
    for n in range(items):
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


def shoot_run(command: list[str], store: Path, moments: list[int]) -> int:
    """Start the run again and again and kill it at each moment; how many shots hit it alive.

    A moment is a number of calls in the journal: 0 is before the first one. The last call may be
    followed by the judging, which the shot then ends.
    """
    hits = 0
    for moment in moments:
        process = Forked(command, folder=store.parent)
        while process.poll() is None and _journalled(store) < moment:
            time.sleep(0.001)
        process.kill()
        hits += process.finish().returncode == KILLED
    return hits


def command_of(folder: Path, store: Path, *more: object) -> list[str]:
    arguments = ("run", folder / "pack.yaml", "--store", store, "--resume", "--json", *more)
    return [str(argument) for argument in arguments]


def finish(command: list[str]) -> dict[str, Any]:
    done = run_forked(*command)
    assert done.returncode in (0, 1, 3), done.stderr.decode()
    result: dict[str, Any] = json.loads(done.stdout)
    return result
