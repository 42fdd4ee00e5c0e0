"""Rules on single parts of a combined score."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]

ITEMS = 80
PACK = """
gatemark: 1
name: notes
version: 1
asset: {kind: prompt, name: notes}
score_min: 0.5
regression_max: 0.2
suites:
  - id: golden
    kind: golden
    weight: 1.0
    dataset: golden.jsonl
    scorer:
      name: combined
      options:
        scorers:
          - {scorer: contains, options: {phrases: [noon]}, weight: 9}
          - {scorer: is_json}
          - {scorer: contains, options: {phrases: [boat]}, weight: 9}
targets:
  candidate: {python: "app:candidate"}
  baseline: {python: "app:baseline"}
rules:
  - {id: valid_json, metric: part_score, scope: golden/is_json, op: ">=", bound: 0.95}
  - {id: json_drop, metric: part_regression, scope: golden/is_json, op: "<=", bound: 0.05,
     against: interval}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = [{"id": f"r{n:03d}", "input": n} for n in range(ITEMS)]
    (tmp_path / "golden.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "app.py").write_text(
        'def baseline(n):\n    return \'{"text": "boat at noon"}\'\n'
        "def candidate(n):\n"
        "    return 'boat at noon' if n % 4 == 0 else '{\"text\": \"boat at noon\"}'\n"
    )
    (tmp_path / "pack.yaml").write_text(PACK)
    return tmp_path


def _run(gatemark: Run, folder: Path) -> Any:
    return gatemark("run", folder / "pack.yaml", "--store", folder / "store", "--json")


def test_a_part_that_fell_fails_although_the_mean_hides_it(gatemark: Run, folder: Path) -> None:
    ran = _run(gatemark, folder)
    assert ran.code == 1, ran.err
    numbers = {(n["name"], n["scope"]): n["value"] for n in ran.json["measurements"]}
    assert numbers["score", "golden"] == pytest.approx(1 - 0.25 / 19)
    assert numbers["part_score", "golden/is_json"] == 0.75
    assert numbers["part_baseline_score", "golden/is_json"] == 1.0
    assert numbers["part_regression", "golden/is_json"] == pytest.approx(0.25)
    assert numbers["part_score", "golden/contains"] == 1.0
    assert numbers["part_score", "golden/contains_2"] == 1.0
    verdicts = {finding["rule"]: finding["verdict"] for finding in ran.json["findings"]}
    assert verdicts["valid_json"] == "fail"
    assert verdicts["json_drop"] == "fail"
    assert verdicts["golden.regression"] == "pass"
    assert ran.json["regression"]["value"] == pytest.approx(0.25 / 19)


def test_parts_are_derived_again(gatemark: Run, folder: Path) -> None:
    ran = _run(gatemark, folder)
    checked = gatemark("ledger", "verify", "--rescore", "--store", folder / "store")
    assert checked.code == 0, checked.out + checked.err
    again = gatemark(
        *("gate", ran.json["id"], "--pack", folder / "pack.yaml"),
        *("--store", folder / "store", "--json"),
    )
    assert again.json["id"] == ran.json["id"]


def test_lint_names_a_part_that_is_not_there(gatemark: Run, folder: Path) -> None:
    text = PACK.replace('scope: golden/is_json, op: ">="', 'scope: golden/json, op: ">="')
    (folder / "pack.yaml").write_text(text)
    linted = gatemark("lint", folder / "pack.yaml")
    told = linted.out + linted.err
    assert "rule valid_json: suite golden has no part 'json'" in told
    assert "(parts: contains, is_json, contains_2)" in told
