"""Scores made elsewhere: read from the candidate's own log, sealed, and derived again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.samples.importers import peer_shapes as shapes

Run = Callable[..., Any]
PACK = """
gatemark: 1
name: elsewhere
version: 1
asset: {kind: prompt, name: sums}
score_min: 0.5
regression_max: 0.4
required_suites: [golden]
suites:
  - {id: golden, kind: golden, weight: 1.0, dataset: data.jsonl,
     scorer: {name: recorded, options: {score: success}}}
targets:
  candidate: {recorded: "log.json#candidate"}
  baseline: {recorded: "log.json#1"}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = [
        {"id": shapes.item(n), "input": f"{n}+{n}", "recorded": {"scores": {"success": 1}}}
        for n in range(shapes.COUNT)
    ]
    (tmp_path / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    log = shapes.promptfoo_log(crashed=frozenset())
    (tmp_path / "log.json").write_text(json.dumps(log))
    (tmp_path / "pack.yaml").write_text(PACK)
    (tmp_path / "app.py").write_text("def answer(text):\n    return text\n")
    return tmp_path


def run(gatemark: Run, folder: Path, *more: object) -> Any:
    return gatemark("run", folder / "pack.yaml", "--store", folder / "store", "--json", *more)


def score(result: Any) -> Any:
    (found,) = [m for m in result["measurements"] if (m["name"], m["scope"]) == ("score", "golden")]
    return found


def test_a_pack_judges_recorded_scores_and_says_where_they_come_from(
    gatemark: Run, folder: Path
) -> None:
    ran = run(gatemark, folder)
    assert ran.code in (0, 3)
    assert score(ran.json)["value"] == 0.75
    told = "scored by promptfoo 0.121.20, not by Gatemark"
    assert told in score(ran.json)["caveats"]
    assert ran.json["evidence"][0]["checks"]["scoring"] == told
    verified = gatemark("ledger", "verify", "--rescore", "--store", folder / "store", "--json")
    assert verified.code == 0, verified.err


def test_a_sealed_score_can_be_judged_again_and_be_a_baseline(gatemark: Run, folder: Path) -> None:
    first = run(gatemark, folder).json
    again = gatemark(
        *("gate", first["id"], "--pack", folder / "pack.yaml"),
        *("--store", folder / "store", "--json"),
    ).json
    assert score(again)["value"] == 0.75
    assert again["evidence"] == first["evidence"]
    later = run(gatemark, folder, "--baseline", first["id"]).json
    assert score(later)["value"] == 0.75


def test_a_candidate_may_be_any_log_that_compare_reads(gatemark: Run, folder: Path) -> None:
    other = folder / "deep.json"
    other.write_text(json.dumps(shapes.deepeval_log(shapes.BASELINE)))
    ran = run(gatemark, folder, "--candidate", other)
    assert score(ran.json)["value"] == 0.8
    assert "scored by deepeval, not by Gatemark" in score(ran.json)["caveats"]


def test_a_log_of_several_arms_asks_for_one(gatemark: Run, folder: Path) -> None:
    ran = run(gatemark, folder, "--candidate", folder / "log.json")
    assert ran.code == 2
    assert "1: 'baseline', 2: 'candidate'" in ran.err
    chosen = run(gatemark, folder, "--candidate", f"{folder / 'log.json'}#2")
    assert score(chosen.json)["value"] == 0.75


def test_a_live_candidate_has_no_recorded_scores(gatemark: Run, folder: Path) -> None:
    """Neither its replies nor a member of the data set can bring a score along."""
    text = PACK.replace('{recorded: "log.json#candidate"}', '{python: "app:answer"}')
    (folder / "pack.yaml").write_text(text)
    ran = run(gatemark, folder)
    assert ran.code in (1, 3)
    assert score(ran.json)["value"] == 0.0


def test_a_log_that_contradicts_itself_never_passes(gatemark: Run, folder: Path) -> None:
    log = shapes.promptfoo_log(crashed=frozenset())
    log["results"]["stats"]["successes"] += 3
    (folder / "log.json").write_text(json.dumps(log))
    ran = run(gatemark, folder)
    assert ran.code == 3
    first = ran.json["blockers"][0]
    assert first.startswith("run.contradicted was not measured: candidate: the log of promptfoo")
    assert "contradicts itself: " in first
    checked = gatemark("ledger", "verify", "--rescore", "--store", folder / "store")
    assert checked.code == 0, checked.out
    samples = folder / "samples.jsonl"
    made = gatemark("import", folder / "log.json", "--arm", "2", "-o", samples)
    assert made.code == 0
    assert run(gatemark, folder, "--candidate", samples).code == 3


def test_rows_dropped_from_a_log_count_against_the_candidate(gatemark: Run, folder: Path) -> None:
    log = shapes.promptfoo_log(crashed=frozenset())
    bad = {row["testIdx"] for row in log["results"]["results"] if not row["success"]}
    rows = [row for row in log["results"]["results"] if row["testIdx"] not in bad]
    log["results"] |= {"results": rows, "stats": {}, "prompts": []}
    (folder / "cut.json").write_text(json.dumps(log))
    ran = run(gatemark, folder, "--candidate", f"{folder / 'cut.json'}#2")
    assert score(ran.json)["value"] == (shapes.COUNT - len(bad)) / shapes.COUNT
    assert ran.code in (1, 3)
