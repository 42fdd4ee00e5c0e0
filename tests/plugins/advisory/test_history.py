"""Earlier runs are evidence: they come from decision files, and failed ones are not forgotten."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .decisions import ACTION, FALSE_ALARM, LANE, NORMAL, UNSURE, WRONG, decision

Run = Callable[..., Any]
Write = Callable[..., Path]
KINDS = [NORMAL] * 16 + [ACTION] * 10 + [FALSE_ALARM] * 10 + [UNSURE] * 4
LEAK = {"authority_flags.can_write_memory": True}


def a_run(number: int, *changes: dict[str, Any], kinds: list[dict[str, Any]] = KINDS) -> list[Any]:
    """Forty records of one run, made on a day of its own."""
    day = {"timestamp": f"2026-06-{number + 1:02d}T00:00:00Z"}
    return [
        decision(100 * number + place, kind, day, *changes, run=f"run:{number}", fixture=place)
        for place, kind in enumerate(kinds)
    ]


@pytest.fixture
def history(tmp_path: Path) -> Path:
    folder = tmp_path / "runs"
    folder.mkdir()
    return folder


def write(folder: Path, name: str, records: list[Any]) -> Path:
    path = folder / name
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def test_typed_summaries_do_not_make_a_run_stable(
    gatemark: Run, write_jsonl: Write, history: Path
) -> None:
    for run in ("a", "b"):
        summary = {
            "schema": "gatemark.advisory_summary/1",
            "fixture_sets": ["npu_advisory_eval_v1"],
            "runs": {run: {LANE: {"high": 36, "low": 4}}},
            "evidence_digests": [],
        }
        (history / f"{run}.json").write_text(json.dumps(summary))
    file = write_jsonl("d.jsonl", a_run(2))
    ran = gatemark("score", "advisory", file, "--history", history)
    assert ran.code == 2
    assert "no decision files" in ran.err


def test_earlier_decision_files_make_stability_judgeable(
    gatemark: Run, write_jsonl: Write, history: Path
) -> None:
    for number in (0, 1):
        write(history, f"{number}.jsonl", a_run(number))
    ran = gatemark(
        "score", "advisory", write_jsonl("d.jsonl", a_run(2)), "--history", history, "--json"
    )
    assert ran.code == 0, ran.json["promotion"]
    assert ran.json["past_runs"] == ["run:0", "run:1"]
    assert ran.json["total_records"] == 40


def test_a_copy_under_another_run_id_is_refused(
    gatemark: Run, write_jsonl: Write, history: Path
) -> None:
    first = write(history, "0.jsonl", a_run(0))
    (history / "1.jsonl").write_text(first.read_text().replace("run:0", "run:1"))
    ran = gatemark("score", "advisory", write_jsonl("d.jsonl", a_run(2)), "--history", history)
    assert ran.code == 2
    assert "has 40 records that are in" in ran.err


def test_a_clean_run_after_a_violating_one_is_held_by_name(
    gatemark: Run, write_jsonl: Write, history: Path
) -> None:
    write(history, "0.jsonl", a_run(0, LEAK))
    write(history, "1.jsonl", a_run(1))
    ran = gatemark(
        "score", "advisory", write_jsonl("d.jsonl", a_run(2)), "--history", history, "--json"
    )
    assert ran.code != 0
    assert any("run:0" in text for text in ran.json["promotion"]["lanes"][LANE]["blockers"])


def test_enough_clean_runs_in_a_row_make_up_for_it(
    gatemark: Run, write_jsonl: Write, history: Path
) -> None:
    write(history, "0.jsonl", a_run(0, LEAK))
    for number in (1, 2):
        write(history, f"{number}.jsonl", a_run(number))
    file = write_jsonl("d.jsonl", a_run(3))
    assert gatemark("score", "advisory", file, "--history", history).code == 0


def test_clean_runs_before_the_failure_do_not_count(
    gatemark: Run, write_jsonl: Write, history: Path
) -> None:
    for number in (0, 1, 2):
        write(history, f"{number}.jsonl", a_run(number))
    write(history, "3.jsonl", a_run(3, kinds=[WRONG] * 36 + [UNSURE] * 4))
    file = write_jsonl("d.jsonl", a_run(4))
    assert gatemark("score", "advisory", file, "--history", history).code != 0


def test_history_is_sealed_and_derived_again(
    gatemark: Run, write_jsonl: Write, history: Path, tmp_path: Path
) -> None:
    for number in (0, 1):
        write(history, f"{number}.jsonl", a_run(number))
    file, store = write_jsonl("d.jsonl", a_run(2)), tmp_path / "store"
    ran = gatemark("score", "advisory", file, "--history", history, "--seal", "--store", store)
    assert ran.code == 0, ran.err
    for path in (file, *history.iterdir()):
        path.unlink()
    checked = gatemark("ledger", "verify", "--rescore", "--store", store)
    assert checked.code == 0, checked.out + checked.err
