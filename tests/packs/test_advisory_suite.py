"""An advisory suite in a pack is judged as strictly as the same files alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.plugins.advisory.decisions import LANE, PROMISE, PROMOTION, good_lane
from tests.plugins.advisory.test_history import LEAK, a_run

Run = Callable[..., Any]


def advisory_pack(folder: Path, options: dict[str, Any], evidence: dict[str, str]) -> Path:
    path = folder / "pack.yaml"
    suite = {
        "id": "advice",
        "kind": "advisory",
        "weight": 1,
        "evidence": evidence,
        "baseline_evidence": "none",
        "options": options,
    }
    pack = {
        "gatemark": 1,
        "name": "advice",
        "version": 1,
        "asset": {"kind": "agent", "name": "cron"},
        "score_min": 0.5,
        "regression_max": 0.02,
        "suites": [suite],
    }
    path.write_text(json.dumps(pack))
    return path


def write(folder: Path, name: str, records: list[Any]) -> str:
    (folder / name).write_text("".join(json.dumps(record) + "\n" for record in records))
    return name


def run(gatemark: Run, folder: Path, pack: Path) -> Any:
    return gatemark("run", pack, "--store", folder / "store", "--json")


POLICY = {"lanes": {LANE: {"promotion": PROMOTION, "bounds": PROMISE}}}


def test_a_good_lane_passes_in_a_pack(gatemark: Run, tmp_path: Path) -> None:
    file = write(tmp_path, "d.jsonl", good_lane())
    ran = run(gatemark, tmp_path, advisory_pack(tmp_path, {"policy": POLICY}, {"decisions": file}))
    assert ran.code == 0, ran.json["blockers"]
    assert ran.json["rules"] == {"advisory": 1, "pack": 1}
    checked = gatemark("ledger", "verify", "--rescore", "--store", tmp_path / "store")
    assert checked.code == 0, checked.out


def test_four_fixtures_asked_ten_times_do_not_pass_in_a_pack(gatemark: Run, tmp_path: Path) -> None:
    records = [
        {**record, "source": {**record["source"], "fixture_id": f"f{number % 4}"}}
        for number, record in enumerate(good_lane())
    ]
    file = write(tmp_path, "d.jsonl", records)
    ran = run(gatemark, tmp_path, advisory_pack(tmp_path, {"policy": POLICY}, {"decisions": file}))
    assert ran.code in (1, 3)
    assert any(LANE in text for text in ran.json["blockers"])


def test_typed_history_is_refused_in_a_pack(gatemark: Run, tmp_path: Path) -> None:
    file = write(tmp_path, "d.jsonl", good_lane(runs=1))
    typed = [
        {"run": run, "fixture_sets": [], "evidence": [], "lanes": {LANE: {"high": 40}}}
        for run in ("a", "b")
    ]
    options = {"policy": POLICY, "history": typed}
    ran = run(gatemark, tmp_path, advisory_pack(tmp_path, options, {"decisions": file}))
    assert ran.code == 2
    assert "unknown key 'history'" in ran.err


def test_earlier_decision_files_count_in_a_pack(gatemark: Run, tmp_path: Path) -> None:
    evidence = {
        "decisions": write(tmp_path, "d.jsonl", a_run(2)),
        "history": write(tmp_path, "earlier.jsonl", [*a_run(0), *a_run(1)]),
    }
    ran = run(gatemark, tmp_path, advisory_pack(tmp_path, {"policy": POLICY}, evidence))
    assert ran.code == 0, ran.json["blockers"]
    checked = gatemark("ledger", "verify", "--rescore", "--store", tmp_path / "store")
    assert checked.code == 0, checked.out


def test_a_failed_earlier_run_holds_a_pack(gatemark: Run, tmp_path: Path) -> None:
    evidence = {
        "decisions": write(tmp_path, "d.jsonl", a_run(2)),
        "history": write(tmp_path, "earlier.jsonl", [*a_run(0, LEAK), *a_run(1)]),
    }
    ran = run(gatemark, tmp_path, advisory_pack(tmp_path, {"policy": POLICY}, evidence))
    assert ran.code == 3


def test_times_in_the_future_are_refused_in_a_pack(gatemark: Run, tmp_path: Path) -> None:
    records = good_lane()
    records[-1]["timestamp"] = "2999-01-01T00:00:00Z"
    file = write(tmp_path, "d.jsonl", records)
    ran = run(gatemark, tmp_path, advisory_pack(tmp_path, {"policy": POLICY}, {"decisions": file}))
    assert (ran.code, "lies in the future" in ran.err) == (2, True)
