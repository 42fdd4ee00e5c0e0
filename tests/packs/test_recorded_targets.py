"""Recorded scores that another tool gave against other expected answers than the data has."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]
COUNT = 200


def lines(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def log(path: Path, wrong: int, target: Callable[[int], object]) -> None:
    lines(
        path,
        [
            {
                "schema": "gatemark.sample/1",
                "id": str(n),
                "epoch": 1,
                "input": f"question {n}",
                "target": target(n),
                "output": "x",
                "scores": {"acc": 0.0 if n < wrong else 1.0},
                "confidence": None,
                "error": None,
                "latency_ms": None,
                "cluster": None,
                "tags": {},
            }
            for n in range(COUNT)
        ],
    )


def judged(
    gatemark: Run, folder: Path, target: Callable[[int], object], scorer: object = None
) -> Any:
    """Run a pack on the log of a better candidate whose rows have these targets."""
    rows = [{"id": str(n), "input": f"question {n}", "target": f"Answer {n}"} for n in range(COUNT)]
    lines(folder / "data.jsonl", rows)
    log(folder / "base.jsonl", 20, lambda n: f"Answer {n}")
    log(folder / "cand.jsonl", 0, target)
    suite = {"id": "golden", "kind": "golden", "weight": 1.0, "dataset": "data.jsonl"}
    pack = {
        "gatemark": 1,
        "name": "known",
        "version": 1,
        "asset": {"kind": "prompt", "name": "known"},
        "score_min": 0.5,
        "regression_max": 0.05,
        "suites": [suite | {"scorer": scorer or {"name": "recorded", "options": {"score": "acc"}}}],
        "targets": {
            "candidate": {"recorded": "cand.jsonl"},
            "baseline": {"recorded": "base.jsonl"},
        },
    }
    (folder / "pack.yaml").write_text(json.dumps(pack))
    return gatemark("run", folder / "pack.yaml", "--store", folder / "store", "--json")


@pytest.mark.parametrize("others", [1, COUNT])
def test_scores_against_other_targets_hold_the_verdict(
    gatemark: Run, tmp_path: Path, others: int
) -> None:
    ran = judged(gatemark, tmp_path, lambda n: "easy" if n < others else f"Answer {n}")
    assert (ran.code, ran.json["verdict"]) == (3, "inconclusive")
    (blocker,) = ran.json["blockers"]
    assert blocker.startswith(
        f"run.other_targets was not measured: candidate: {others} of {COUNT} recorded scores were "
        "given for another target than the data has, such as '0'"
    )
    store = tmp_path / "store"
    assert gatemark("ledger", "verify", "--rescore", "--store", store).code == 0


@pytest.mark.parametrize(
    "target",
    [
        lambda n: f"Answer {n}",
        lambda n: f" answer  {n}.\n",
        lambda n: [f"Answer {n}", "or so"],
        lambda n: {"label": f"Answer {n}"},
        lambda _: None,
    ],
    ids=["same", "other spaces", "list", "named", "none"],
)
def test_the_same_target_in_another_form_passes(
    gatemark: Run, tmp_path: Path, target: Callable[[int], object]
) -> None:
    ran = judged(gatemark, tmp_path, target)
    assert (ran.code, ran.json["blockers"]) == (0, [])


def test_a_scorer_of_the_pack_uses_the_targets_of_the_data(gatemark: Run, tmp_path: Path) -> None:
    ran = judged(gatemark, tmp_path, lambda _: "easy", scorer="exact")
    assert "run.other_targets" not in json.dumps(ran.json)
    assert ran.code == 1
