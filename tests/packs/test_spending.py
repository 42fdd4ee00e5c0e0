"""What a run spends: budgets over all suites of an arm, and replies kept for later runs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]

PACK = """\
gatemark: 1
name: t
version: 1
asset: {{kind: prompt, name: t}}
score_min: 0.5
regression_max: 0.2
suites:
  - {{id: a, kind: golden, weight: 0.5, dataset: g.jsonl, epochs: 2}}
  - {{id: b, kind: golden, weight: 0.5, dataset: h.jsonl}}
targets:
  candidate: {{python: "app:answer", files: []{more}}}
  baseline: {{python: "app:answer", files: []}}
"""
APP = """
import pathlib

def answer(number):
    with open(pathlib.Path(__file__).parent / "calls.log", "a") as log:
        log.write(f"{number}\\n")
    if (pathlib.Path(__file__).parent / "broken").exists() and number == 7:
        raise RuntimeError("not today")
    return {"output": str(number), "cost": 0.5}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in "gh":
        rows = [{"id": f"{name}{n}", "input": n, "target": str(n)} for n in range(20)]
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (tmp_path / f"{name}.jsonl").write_text(lines)
    (tmp_path / "app.py").write_text(APP)
    return tmp_path


def run(gatemark: Run, folder: Path, *more: object, target: str = "", code: int = 0) -> Any:
    path = folder / "pack.yaml"
    path.write_text(PACK.format(more=target))
    ran = gatemark("run", path, "--store", folder / "store", "--json", *more)
    assert ran.code == code, ran.err
    return ran.json


def asked(folder: Path) -> int:
    log = folder / "calls.log"
    return len(log.read_text().splitlines()) if log.exists() else 0


@pytest.mark.parametrize("budget", ["{calls: 50}", "{cost: 25}"])
def test_a_budget_is_for_the_whole_run_and_not_for_each_suite(
    gatemark: Run, folder: Path, budget: str
) -> None:
    result = run(gatemark, folder, target=f", budget: {budget}", code=3)
    # Suite a takes 40 calls, so ten are left for the twenty of suite b; the baseline has no limit.
    assert asked(folder) == 50 + 60
    states = {finding["rule"]: finding["verdict"] for finding in result["findings"]}
    assert (states["a.errors"], states["b.errors"]) == ("pass", "fail")
    numbers = {(m["name"], m["scope"]): m["value"] for m in result["measurements"]}
    assert numbers["error_rate", "b"] == 0.5
    assert any("; 10 items without a score count as 0" in text for text in result["blockers"])


def test_a_cache_saves_calls_but_not_repeats_and_not_the_other_arm(
    gatemark: Run, folder: Path
) -> None:
    first = run(gatemark, folder, "--cache")
    # Suites a and b share the first epoch; the second epoch of a and the baseline ask anew.
    assert asked(folder) == 80
    assert set(Counter((folder / "calls.log").read_text().split()).values()) == {4}
    # These twenty are of this run, so nothing is older than it.
    assert "cached.candidate" not in first["runtime"]
    again = run(gatemark, folder, "--cache")
    assert asked(folder) == 80
    assert again["runtime"]["cached.candidate"] == again["runtime"]["cached.baseline"] == "60"
    assert again["cost"] == {"calls": 0, "money": 0.0, "currency": None}
    assert again["evidence"][0]["files"] == first["evidence"][0]["files"]
    fresh = run(gatemark, folder)
    assert asked(folder) == 80 + 120
    assert "cached.candidate" not in fresh["runtime"]
    (folder / "app.py").write_text(APP + "\n# another version\n")
    run(gatemark, folder, "--cache")
    assert asked(folder) == 200 + 80


def test_a_cache_keeps_no_errors(gatemark: Run, folder: Path) -> None:
    (folder / "broken").write_text("")
    run(gatemark, folder, "--cache", code=3)
    (folder / "broken").unlink()
    before = asked(folder)
    run(gatemark, folder, "--cache")
    assert (folder / "calls.log").read_text().split()[before:] == ["7"] * 4
