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


def stating(number: int, confidence: float, *, right: bool) -> dict[str, Any]:
    said = f"ITEM {number}" if right else "something else"
    return {
        "schema": "gatemark.sample/1",
        "id": f"q{number}",
        "input": f"item {number}",
        "output": said,
        "confidence": confidence,
        "scores": {},
    }


def is_right(number: int) -> bool:
    return number % 5 > 0


def informative(number: int) -> float:
    """Calibrated: right answers at .96 and a few at .7, wrong ones the other way round."""
    return 0.16 if number % 5 == 0 else 0.96


@pytest.mark.parametrize(
    ("confidence", "bins", "said"),
    [
        (informative, 15, None),
        (lambda _: 0.8, 15, "every answer has the same confidence"),
        (lambda n: 0.74 + 0.12 * (n * 7 % 200) / 200, 15, "are not shown to tell right answers"),
        (lambda n: 0.95 if n % 5 == 0 else 0.76, 15, "right answers have lower confidences"),
        (informative, 1, "so bins must be >= 10, got 1"),
    ],
)
def test_confidences_that_say_nothing_do_not_pass_a_pack(
    gatemark: Run, tmp_path: Path, confidence: Callable[[int], float], bins: int, said: str | None
) -> None:
    rows = [{"id": f"q{n}", "input": f"item {n}", "target": f"ITEM {n}"} for n in range(200)]
    (tmp_path / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for name, stated in (("base", informative), ("cand", confidence)):
        lines = [json.dumps(stating(n, stated(n), right=is_right(n))) for n in range(200)]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    pack = PACK.replace("CANDIDATE", "{recorded: cand.jsonl}")
    pack = pack.replace("baseline: none", "baseline: {recorded: base.jsonl}")
    pack = pack.replace("from: golden}", f"from: golden, min: 0.7, options: {{bins: {bins}}}}}")
    pack = pack.replace("regression_max: 0.2", "regression_max: 0.6")
    (tmp_path / "pack.yaml").write_text(pack)
    ran = gatemark("run", tmp_path / "pack.yaml", "--store", tmp_path / "store", "--json")
    held = [b for b in ran.json["blockers"] if b.startswith("calib.informative")]
    assert ran.code == (0 if said is None else 3), ran.json["blockers"]
    assert len(held) == (said is not None)
    assert all(said in one for one in held if said is not None)
    names = {(m["name"], m["scope"]) for m in ran.json["measurements"]}
    assert {("auroc", "calib"), ("baseline_auroc", "calib")} <= names
    checked = gatemark("ledger", "verify", "--rescore", "--store", tmp_path / "store")
    assert checked.code == 0, checked.out
