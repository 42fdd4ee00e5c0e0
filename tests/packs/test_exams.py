"""Packs with suites over evidence files: sat, weighed, kept and judged again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]

PACK = """
gatemark: 1
name: validators
version: 1
asset: {{kind: agent, name: answers}}
score_min: 0.9
regression_max: 0.02
suites:
  - id: panel
    kind: agreement
    weight: 1
    min: {floor}
    evidence: {{pairs: pairs.jsonl}}
    baseline_evidence: {baseline}
{more}"""


def pairs(path: Path, agreeing: int, n: int = 200) -> None:
    labels = ("VALID", "REJECT")
    rows = []
    for number in range(n):
        scholar = labels[number % 2]
        auditor = scholar if number < agreeing else labels[1 - number % 2]
        rows.append(
            {
                "qid": f"q{number:04d}",
                "scholar": {"label": scholar},
                "auditor": {"label": auditor},
            }
        )
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    pairs(tmp_path / "pairs.jsonl", agreeing=190)
    pairs(tmp_path / "before.jsonl", agreeing=192)
    return tmp_path


def pack(folder: Path, *, floor: float = 0.9, baseline: str = "none", more: str = "") -> Path:
    path = folder / "pack.yaml"
    path.write_text(PACK.format(floor=floor, baseline=baseline, more=more))
    return path


def run(gatemark: Run, folder: Path, path: Path, *more: object) -> Any:
    return gatemark("run", path, "--store", folder / "store", "--json", *more)


def findings(result: dict[str, Any]) -> dict[str, str]:
    return {finding["rule"]: finding["verdict"] for finding in result["findings"]}


def test_an_exam_is_weighed_and_its_own_rules_judge_too(gatemark: Run, folder: Path) -> None:
    ran = run(gatemark, folder, pack(folder))
    assert ran.code == 0
    assert ran.json["bench"]["value"] == pytest.approx(0.95)
    states = findings(ran.json)
    assert states["panel.floor"] == states["panel.agreement.kappa"] == "pass"
    assert states["panel.agreement.coverage"] == "pass"
    assert "panel.regression" not in states
    names = {blob["name"] for blob in ran.json["blobs"]}
    assert names == {
        "pack.json",
        "panel/pairs.candidate.evidence",
        "panel/candidate-consistency_disagreements.tsv",
        "panel/candidate-finals.tsv",
    }


@pytest.mark.parametrize(
    ("more", "code"),
    [("", 0), ("    severity: block\n", 1), ("required_suites: [panel]\n", 1)],
)
def test_an_exam_below_its_floor_fails_the_pack_that_requires_it(
    gatemark: Run, folder: Path, more: str, code: int
) -> None:
    ran = run(gatemark, folder, pack(folder, floor=0.96, more=more))
    assert ran.code == code
    assert findings(ran.json)["panel.floor"] == "fail"
    told = "panel.score must be >= 0.96, got 0.95 (n=200)"
    assert told in ran.json["blockers" if code else "caveats"]


def test_an_exam_fails_the_pack_by_its_own_rule(gatemark: Run, folder: Path) -> None:
    pairs(folder / "pairs.jsonl", agreeing=160)
    ran = run(gatemark, folder, pack(folder, floor=0.5))
    assert ran.code == 1
    assert findings(ran.json)["panel.agreement.pa"] == "fail"
    assert findings(ran.json)["panel.floor"] == "pass"


@pytest.mark.parametrize(("before", "state"), [(192, "pass"), (196, "fail")])
def test_an_exam_may_not_drop_below_its_baseline(
    gatemark: Run, folder: Path, before: int, state: str
) -> None:
    pairs(folder / "before.jsonl", agreeing=before)
    ran = run(gatemark, folder, pack(folder, baseline="{pairs: before.jsonl}"))
    assert findings(ran.json)["panel.regression"] == state
    assert ran.json["regression"]["value"] == pytest.approx((before - 190) / 200)
    assert ran.code == (0 if state == "pass" else 1)


def test_an_undefined_baseline_score_leaves_the_regression_open(
    gatemark: Run, folder: Path
) -> None:
    (folder / "before.jsonl").write_text("")
    ran = run(gatemark, folder, pack(folder, baseline="{pairs: before.jsonl}"))
    assert ran.code == 2
    assert "before.jsonl: contains no records" in ran.err


def test_kept_evidence_is_judged_again_without_the_files(gatemark: Run, folder: Path) -> None:
    path = pack(folder, baseline="{pairs: before.jsonl}")
    first = run(gatemark, folder, path).json
    (folder / "pairs.jsonl").unlink()
    (folder / "before.jsonl").unlink()
    again = gatemark("gate", first["id"], "--pack", path, "--store", folder / "store", "--json")
    assert again.code == 0
    assert again.json["id"] == first["id"]
    required = "required_suites: [panel]\n"
    strict = pack(folder, floor=0.99, baseline="{pairs: before.jsonl}", more=required)
    other = gatemark("gate", first["id"], "--pack", strict, "--store", folder / "store", "--json")
    assert other.code == 1


def test_a_result_can_be_the_baseline_of_an_exam(gatemark: Run, folder: Path) -> None:
    earlier = run(gatemark, folder, pack(folder)).json
    pairs(folder / "pairs.jsonl", agreeing=184)
    ran = run(gatemark, folder, pack(folder), "--baseline", earlier["id"])
    assert findings(ran.json)["panel.regression"] == "fail"
    assert ran.json["regression"]["value"] == pytest.approx(0.03)


def test_a_limited_run_of_exams_alone_never_passes(gatemark: Run, folder: Path) -> None:
    ran = run(gatemark, folder, pack(folder), "--limit", 10)
    assert ran.code == 3
    assert findings(ran.json)["run.whole"] == "inconclusive"


def test_coverage_of_a_suite_has_its_own_line(gatemark: Run, folder: Path) -> None:
    text = pack(folder, more="").read_text()
    rows = (folder / "pairs.jsonl").read_text()
    (folder / "pairs.jsonl").write_text(rows + "not json\n")
    assert run(gatemark, folder, folder / "pack.yaml").code == 2
    assert "agreement" in text


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("evidence: {pairs: pairs.jsonl}", "evidence: {votes: pairs.jsonl}"), "agreement reads"),
        (("baseline_evidence: none", "errors_max: 0"), "say baseline_evidence: none"),
        (("kind: agreement", "kind: golden"), "does not read evidence files"),
        (("weight: 1", "weight: 1\n    regression: non_inferiority"), "by the point only"),
        (("pairs.jsonl", "nowhere.jsonl"), "nowhere.jsonl"),
        (("weight: 1", "weight: 1\n    options: {pa_gate: 7}"), "pa_gate"),
    ],
)
def test_what_cannot_be_sat_is_refused(
    gatemark: Run, folder: Path, change: tuple[str, str], words: str
) -> None:
    path = pack(folder)
    path.write_text(path.read_text().replace(*change))
    ran = run(gatemark, folder, path)
    assert ran.code == 2
    assert words in ran.err
    assert not (folder / "store").exists()


def test_lint_looks_at_exams_without_reading_records(gatemark: Run, folder: Path) -> None:
    path = pack(folder)
    assert gatemark("lint", path).code == 0
    path.write_text(path.read_text().replace("pairs.jsonl", "nowhere.jsonl"))
    linted = gatemark("lint", path)
    assert linted.code == 2
    assert "nowhere.jsonl" in linted.out + linted.err


def test_a_pack_of_evidence_alone_asks_nobody(gatemark: Run, folder: Path) -> None:
    ran = run(gatemark, folder, pack(folder), "--candidate", folder / "pairs.jsonl")
    assert ran.code == 2
    assert "has no targets to ask" in ran.err


def test_answers_and_exams_share_one_bench(gatemark: Run, folder: Path) -> None:
    rows = [{"id": f"r{n}", "input": n, "target": str(n)} for n in range(40)]
    (folder / "golden.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "app.py").write_text("def answer(value):\n    return {'output': str(value)}\n")
    path = pack(
        folder,
        more=(
            "  - {id: golden, kind: golden, weight: 0.5, dataset: golden.jsonl}\n"
            'targets: {candidate: {python: "app:answer"}, baseline: none}\n'
        ),
    )
    path.write_text(path.read_text().replace("weight: 1", "weight: 0.5"))
    ran = run(gatemark, folder, path)
    assert ran.code == 0
    assert ran.json["bench"]["value"] == pytest.approx(0.5 * 0.95 + 0.5)


def test_a_sat_exam_can_be_derived_again_from_the_store(gatemark: Run, folder: Path) -> None:
    run(gatemark, folder, pack(folder, baseline="{pairs: before.jsonl}"))
    (folder / "pairs.jsonl").unlink()
    (folder / "before.jsonl").unlink()
    verified = gatemark("ledger", "verify", "--rescore", "--store", folder / "store", "--json")
    assert verified.code == 0, verified.out


@pytest.mark.parametrize(("shift", "code"), [(0.001, 0), (0.05, 1)])
def test_guard_overhead_can_be_a_suite_of_a_pack(
    gatemark: Run, tmp_path: Path, shift: float, code: int
) -> None:
    for arm, extra in (("bare", 0.0), ("guarded", shift)):
        meta = {
            "record_type": "arm_meta",
            "arm": arm,
            "metric_kind": "ppl_causal",
            "seeds": {"python": 7, "numpy": 7, "torch": None, "bootstrap": 7},
            "device": "cpu",
            "snapshot_hash": "sha256:aa",
            "plan": {"seq_len": 8, "stride": 8, "windows": 200},
        }
        windows = [
            {
                "record_type": "window",
                "window_id": f"w{n}",
                "content_hash": f"h{n}",
                "tokens": 100,
                "loss": 2.0 + n / 100 + extra,
            }
            for n in range(200)
        ]
        lines = [json.dumps(record) + "\n" for record in (meta, *windows)]
        (tmp_path / f"{arm}.jsonl").write_text("".join(lines))
    (tmp_path / "pack.yaml").write_text(
        """
gatemark: 1
name: guards
version: 1
asset: {kind: model, name: guarded}
score_min: 0.5
regression_max: 0.02
suites:
  - id: cost
    kind: overhead
    weight: 1
    evidence: {bare: bare.jsonl, guarded: guarded.jsonl}
    baseline_evidence: none
"""
    )
    ran = run(gatemark, tmp_path, tmp_path / "pack.yaml")
    assert ran.code == code, ran.err + ran.out
    verified = gatemark("ledger", "verify", "--rescore", "--store", tmp_path / "store")
    assert verified.code == 0, verified.out
    pack = (tmp_path / "pack.yaml").read_text() + "    options: {profile: dev}\n"
    (tmp_path / "pack.yaml").write_text(pack.replace("version: 1", "version: 2"))
    looser = run(gatemark, tmp_path, tmp_path / "pack.yaml")
    assert looser.code == 2
    assert "profile dev is looser than release: it needs an override" in looser.err
