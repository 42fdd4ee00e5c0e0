"""What the runner adds to a target that costs nothing.

The peers are measured beside it where the environment of the bench has them:
``pip install pydantic-evals deepeval`` puts them there. They are no dependency of any extra.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench.measure import Line, gatemark, run

FEW, MANY = 100, 10_000
PEERS = {"pydantic_evals": "pydantic-evals", "deepeval": "DeepEval"}

TARGET = """
def answer(text):
    return text[-1]
"""
PACK = """
gatemark: 1
name: last-digit
version: 1
asset: {kind: classifier, name: last-digit}
score_min: 0.5
regression_max: 0.05
required_suites: [golden]
suites:
  - {id: golden, kind: golden, weight: 1.0, min: 0.5, dataset: golden.jsonl, scorer: exact}
targets:
  candidate: {python: "last_digit:answer"}
  baseline: none
"""


def write_pack(folder: Path, count: int) -> Path:
    """A pack whose target only looks at the last character of its input."""
    folder.mkdir()
    (folder / "last_digit.py").write_text(TARGET, encoding="utf-8")
    (folder / "pack.yaml").write_text(PACK, encoding="utf-8")
    with (folder / "golden.jsonl").open("w", encoding="utf-8") as stream:
        for number in range(count):
            row = {
                "id": f"digit-{number:06d}",
                "input": f"What is the last digit of {number}",
                "target": str(number % 10),
            }
            stream.write(json.dumps(row) + "\n")
    return folder / "pack.yaml"


def lines() -> Iterator[Line]:
    """Hashing, validation, journal, scoring, verdict and seal, per sample."""
    with tempfile.TemporaryDirectory() as name:
        seconds = {}
        for count in (FEW, MANY):
            pack = write_pack(Path(name) / str(count), count)
            store = str(pack.parent / "store")
            cost = run(gatemark("run", str(pack), "--json", "--store", store), repeats=3)
            seconds[count] = cost.seconds
            yield Line(f"gatemark run, {count:,} samples", cost.seconds, "s")
        each_ms = _each_ms(seconds)
        yield Line("gatemark run, each sample without start-up", each_ms, "ms", at_most=0.3)
    for module, shown in PEERS.items():
        if importlib.util.find_spec(module) is None:
            print(f"{shown}: not installed")
            continue
        peer = [sys.executable, "-m", "bench.runner_peers", module]
        seconds = {count: run([*peer, str(count)]).seconds for count in (FEW, MANY)}
        peer_ms = _each_ms(seconds)
        yield Line(f"{shown}, each sample without start-up", peer_ms, "ms")
        yield Line(f"{shown} / gatemark run", peer_ms / each_ms, "x")


def _each_ms(seconds: dict[int, float]) -> float:
    return (seconds[MANY] - seconds[FEW]) / (MANY - FEW) * 1000
