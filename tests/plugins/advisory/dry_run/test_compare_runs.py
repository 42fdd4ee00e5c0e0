"""Runs side by side: a trend over a folder, and what differs between two runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.plugins.advisory.decisions import ACTION, FALSE_NEGATIVE, LANE, NORMAL, UNSURE, numbered

Run = Callable[..., Any]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(name: str, *kinds: dict[str, Any], run: str, day: int, start: int = 0) -> str:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    records = numbered(kinds, run=run, start=start)
    for record in records:
        record["timestamp"] = f"2026-06-{day:02d}T00:00:00Z"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return name


def two_runs() -> tuple[str, str]:
    first = write("out/runs/b/decisions.jsonl", NORMAL, ACTION, ACTION, run="run:b", day=1)
    second = write(
        *("out/runs/a/decisions.jsonl", NORMAL, FALSE_NEGATIVE, UNSURE),
        run="run:a",
        day=2,
        start=10,
    )
    return first, second


def test_a_trend_has_every_run_in_order_of_time(gatemark: Run) -> None:
    first, _ = two_runs()
    # The front of a folder is a copy of its last run.
    Path("out/decisions.jsonl").write_text(Path(first).read_text())
    ran = gatemark("advisory", "trend", "out", "--json")
    assert ran.code == 0, ran.err
    points = ran.json["lanes"][LANE]
    assert [point["run"] for point in points] == ["run:b", "run:a"]
    assert [point["agreement_rate"] for point in points] == [1.0, 0.5]
    assert points[1]["false_negatives"] == 1
    assert points[1]["uncertain_rate"] == pytest.approx(1 / 3)
    assert points[0]["interval"][0] < 1
    shown = gatemark("advisory", "trend", "out").out
    assert "run:a: 3 records, agreement 0.500" in shown


def test_a_copy_of_a_run_counts_once(gatemark: Run) -> None:
    first, _ = two_runs()
    Path("flat").mkdir()
    for name in ("one", "two"):
        Path(f"flat/{name}.jsonl").write_text(Path(first).read_text())
    (point,) = gatemark("advisory", "trend", "flat", "--json").json["lanes"][LANE]
    assert point["records"] == 3


def test_a_diff_names_what_was_lost_first(gatemark: Run) -> None:
    first, second = two_runs()
    ran = gatemark("advisory", "diff", first, str(Path(second).parent))
    assert ran.code == 0, ran.err
    assert f"{LANE}: 2 lost, 0 gained, 0 changed otherwise, 1 the same" in ran.out
    assert "escalate/high (high) was agree" in ran.out
    assert "is false_negative, expected escalate/high" in ran.out
    back = gatemark("advisory", "diff", second, first, "--json").json["lanes"][LANE]
    assert [one["before_category"] for one in back["gained"]] == ["false_negative", "uncertain"]


def test_inputs_of_one_run_only_are_named(gatemark: Run) -> None:
    first = write("a.jsonl", NORMAL, ACTION, run="run:a", day=1)
    second = write("b.jsonl", NORMAL, run="run:b", day=2, start=10)
    found = gatemark("advisory", "diff", first, second, "--json").json["lanes"][LANE]
    assert (len(found["only_before"]), found["only_after"], found["same"]) == (1, [], 1)


def test_several_runs_in_one_file_are_refused(gatemark: Run) -> None:
    first, second = two_runs()
    Path("both.jsonl").write_text(Path(first).read_text() + Path(second).read_text())
    ran = gatemark("advisory", "diff", "both.jsonl", first)
    assert (ran.code, "several runs" in ran.err) == (2, True)


def test_a_folder_without_decisions_is_refused(gatemark: Run) -> None:
    Path("empty").mkdir()
    ran = gatemark("advisory", "trend", "empty")
    assert (ran.code, "no decision files" in ran.err) == (2, True)
