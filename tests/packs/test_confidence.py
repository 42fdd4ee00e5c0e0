"""A confidence counts only when the candidate states it; one in the data set is nobody's."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gatemark.evidence.rows import Row
from gatemark.packs.questions import make_sample

Run = Callable[..., Any]
PACK = """
gatemark: 1
name: sure
version: 1
asset: {kind: prompt, name: sure}
score_min: 0.5
regression_max: 0.2
required_suites: [golden]
suites:
  - {id: golden, kind: golden, weight: 0.5, dataset: data.jsonl, scorer: exact}
  - {id: calib, kind: calibration, weight: 0.5, from: golden}
targets:
  candidate: CANDIDATE
  baseline: none
"""
APP = """
def silent(text):
    return text.upper()
"""


def recorded(number: int) -> dict[str, Any]:
    return {
        "schema": "gatemark.sample/1",
        "id": f"q{number}",
        "output": f"ITEM {number}",
        "scores": {},
    }


@pytest.mark.parametrize("candidate", ['{python: "app:silent"}', "{recorded: said.jsonl}"])
def test_a_data_set_cannot_state_the_confidence_of_a_candidate(
    gatemark: Run, tmp_path: Path, candidate: str
) -> None:
    """Labels with a confidence of their own would calibrate any candidate."""
    rows = [
        {"id": f"q{n}", "input": f"item {n}", "target": f"ITEM {n}", "confidence": 1.0}
        for n in range(60)
    ]
    (tmp_path / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "said.jsonl").write_text("".join(json.dumps(recorded(n)) + "\n" for n in range(60)))
    (tmp_path / "app.py").write_text(APP)
    pack = tmp_path / "pack.yaml"
    pack.write_text(PACK.replace("CANDIDATE", candidate))
    ran = gatemark("run", pack, "--store", tmp_path / "store", "--json")
    assert ran.code == 3
    (score,) = [
        m for m in ran.json["measurements"] if (m["name"], m["scope"]) == ("score", "calib")
    ]
    assert score["value"] is None
    assert "0 answers carry a confidence" in score["reason"]["text"]


def test_neither_targets_nor_scorers_see_the_confidence_of_a_row() -> None:
    row = Row(id="a", input="x", target="y", confidence=0.9)
    assert make_sample(row) == {"id": "a", "input": "x", "target": "y", "tags": {}}
