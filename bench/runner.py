"""What the runner adds to a target that costs nothing.

The peers are measured beside it where the environment of the bench has them; they are no
dependency of any extra, so that environment is one of its own (see ``runner_peers``).
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from bench.measure import Cost, Line, gatemark, run

FEW, MANY = 100, 10_000
PEERS = {"pydantic_evals": "pydantic-evals", "deepeval": "DeepEval", "inspect_ai": "Inspect"}

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
    """Calls to a worker process, validation, journal, scoring, verdict and seal, per sample."""
    with tempfile.TemporaryDirectory() as name:
        costs = {}
        for count in (FEW, MANY):
            pack = write_pack(Path(name) / str(count), count)
            store = str(pack.parent / "store")
            cost = run(gatemark("run", str(pack), "--json", "--store", store), repeats=3)
            costs[count] = cost
            yield Line(f"gatemark run, {count:,} samples", cost.seconds, "s")
        ours = _each_ms(costs)
        yield Line("gatemark run, each sample without start-up", ours.wall, "ms", at_most=0.15)
        yield Line("gatemark run, each sample, processor time", ours.busy, "ms")
    for module, shown in PEERS.items():
        if importlib.util.find_spec(module) is None:
            print(f"{shown}: not installed")
            continue
        named = f"{shown} {importlib.metadata.version(module)}"
        peer = [sys.executable, "-m", "bench.runner_peers", module]
        costs = {count: run([*peer, str(count)], repeats=2) for count in (FEW, MANY)}
        theirs = _each_ms(costs)
        yield Line(f"{named}, each sample without start-up", theirs.wall, "ms")
        yield Line(f"{named} / gatemark run", theirs.wall / ours.wall, "x")
        yield Line(f"{named} / gatemark run, processor time", theirs.busy / ours.busy, "x")


class _EachMs(NamedTuple):
    wall: float
    busy: float


def _each_ms(costs: dict[int, Cost]) -> _EachMs:
    few, many = costs[FEW], costs[MANY]
    per = 1000 / (MANY - FEW)
    return _EachMs((many.seconds - few.seconds) * per, (many.processor_s - few.processor_s) * per)
