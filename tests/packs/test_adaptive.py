"""Packs that ask in rounds: where they stop, what is sealed, and that nobody gains by it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]

PACK = """
gatemark: 1
name: rounds
version: 1
asset: {kind: prompt, name: rounds}
score_min: 0.5
regression_max: 0.03
required_suites: [a]
adaptive: {looks: 3}
suites:
  - {id: a, kind: golden, weight: 0.5, min: 0.5, dataset: a.jsonl}
  - {id: b, kind: golden, weight: 0.5, dataset: b.jsonl}
targets:
  candidate: {python: "app:CANDIDATE"}
  baseline: {python: "app:right"}
"""
APP = """
import pathlib
import gatemark

def number(text):
    return int(text.split()[-1])

def right(text):
    return text.upper()

def broken(text):
    return text if number(text) % 5 == 0 else text.upper()

def slips(text):
    return text if number(text) % 60 == 0 else text.upper()

def worse(text):
    return text if number(text) % 33 == 0 else text.upper()

def once(text):
    seen = pathlib.Path(__file__).with_name(f"{text}.seen")
    if seen.exists():
        return False
    seen.touch()
    return True

def down(text):
    if number(text) % 40 == 0 and once(text):
        raise gatemark.UnavailableError("store is down")
    return text.upper()

def flaky(text):
    if number(text) % 40 == 0 and once(text):
        raise RuntimeError("once")
    return text.upper()
"""
ITEMS = 900


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in "ab":
        rows = [
            {"id": f"{name}{n:04d}", "input": f"{name} {n}", "target": f"{name.upper()} {n}"}
            for n in range(ITEMS)
        ]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "app.py").write_text(APP)
    return tmp_path


def _pack(folder: Path, candidate: str, *changes: tuple[str, str]) -> Path:
    text = PACK.replace("CANDIDATE", candidate)
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    path = folder / "pack.yaml"
    path.write_text(text)
    return path


def _run(gatemark: Run, folder: Path, path: Path, *more: object) -> Any:
    return gatemark("run", path, "--store", folder / "store", "--json", *more)


def _look(ran: Any) -> tuple[int, int]:
    settings = ran.json["policy"]["settings"]
    return settings["look"], sum(account["expected"] for account in ran.json["evidence"])


def _verified(gatemark: Run, folder: Path) -> Any:
    return gatemark("ledger", "verify", "--rescore", "--store", folder / "store")


@pytest.mark.parametrize(
    ("candidate", "code", "look"),
    [("right", 0, 1), ("broken", 1, 1), ("slips", 0, 2), ("worse", 3, 3)],
)
def test_a_run_stops_at_the_first_look_that_settles_it(
    gatemark: Run, folder: Path, candidate: str, code: int, look: int
) -> None:
    ran, asked = _run(gatemark, folder, _pack(folder, candidate)), 600 * look
    assert ran.code == code, ran.err
    assert _look(ran) == (look, asked)
    assert ran.json["cost"]["calls"] == 2 * asked
    assert f"adaptive: settled at look {look} of 3" in ran.json["caveats"][-1]
    (table,) = [figure for figure in ran.json["figures"] if figure["title"] == "Looks"]
    assert [row[3] for row in table["rows"]] == ["no"] * (look - 1) + ["yes"]
    checked = _verified(gatemark, folder)
    assert checked.code == 0, checked.out + checked.err


def test_each_look_has_its_own_level(gatemark: Run, folder: Path) -> None:
    ran = _run(gatemark, folder, _pack(folder, "slips"))
    settings = ran.json["policy"]["settings"]
    (drop,) = [m for m in ran.json["measurements"] if m["name"] == "bench_regression"]
    assert drop["interval"]["level"] == pytest.approx(1 - 2 * settings["look_alpha"])
    assert (settings["alpha"], settings["looks"]) == (0.05, 3)
    assert settings["look_alpha"] == pytest.approx(0.0157, abs=1e-4)


@pytest.mark.parametrize(("floor", "look"), [(0.98, 1), (0.99, 2)])
def test_a_floor_is_not_reached_more_easily_by_fewer_items(
    gatemark: Run, folder: Path, floor: float, look: int
) -> None:
    """Everything is right; near its floor the suite is asked further all the same."""
    ran = _run(gatemark, folder, _pack(folder, "right", ("min: 0.5", f"min: {floor}")))
    assert (ran.code, _look(ran)[0]) == (0, look)


def test_a_budget_bounds_what_is_asked(gatemark: Run, folder: Path) -> None:
    path = _pack(folder, "worse", ("{looks: 3}", "{looks: 2, budget: 500}"))
    ran = _run(gatemark, folder, path)
    assert (ran.code, *_look(ran)) == (3, 2, 500)
    assert ran.json["cost"]["calls"] == 1000
    assert _verified(gatemark, folder).code == 0


def test_what_could_not_be_asked_ends_the_run_and_a_resumed_one_goes_on(
    gatemark: Run, folder: Path
) -> None:
    path = _pack(folder, "down")
    held = _run(gatemark, folder, path)
    assert (held.code, *_look(held)) == (3, 1, 600)
    assert "store is down" in held.json["blockers"][0]
    again = _run(gatemark, folder, path, "--resume")
    assert (again.code, *_look(again)) == (0, 1, 600)
    assert _verified(gatemark, folder).code == 0


def test_a_crash_gets_no_other_chance_in_a_later_round(gatemark: Run, folder: Path) -> None:
    """A candidate that crashes the first time and would be right the second."""
    path = _pack(folder, "flaky")
    path.write_text(path.read_text().replace("weight: 0.5,", "weight: 0.5, errors_max: 0.5,"))
    ran = _run(gatemark, folder, path)
    assert _look(ran)[0] == 3
    rates = [m["value"] for m in ran.json["measurements"] if m["name"] == "error_rate"]
    assert rates == pytest.approx([23 / 900] * 2)
    refused = _run(gatemark, folder, path, "--cache")
    assert refused.code == 2
    assert "--cache and an adaptive pack do not go together" in refused.err


def test_a_limited_run_has_no_looks(gatemark: Run, folder: Path) -> None:
    ran = _run(gatemark, folder, _pack(folder, "right"), "--limit", 50)
    assert ran.code == 3
    assert "look" not in ran.json["policy"]["settings"]


def test_without_a_baseline_everything_is_asked(gatemark: Run, folder: Path) -> None:
    ran = _run(
        gatemark,
        folder,
        _pack(folder, "right", ('baseline: {python: "app:right"}', "baseline: none")),
    )
    assert ran.code == 0, ran.err
    assert ran.json["cost"]["calls"] == 2 * ITEMS


@pytest.mark.parametrize(
    ("old", "new", "name"),
    [
        ("dataset: b", "cost: {money_max: 1}, dataset: b", "cost.money_max"),
        ("score_min", "cost: {tokens_max: 9}\nscore_min", "cost.tokens_max"),
        ("dataset: b", "slices: [x], slice_min: 0.1, dataset: b", "slice_min"),
        (
            "score_min",
            "rules: [{id: few, metric: lost_count, scope: a, op: '<=', bound: 5}]\nscore_min",
            "rules",
        ),
    ],
)
def test_rules_that_fewer_items_would_ease_are_refused(
    gatemark: Run, folder: Path, old: str, new: str, name: str
) -> None:
    ran = _run(gatemark, folder, _pack(folder, "right", (old, new)))
    assert ran.code == 2
    assert f"{name} needs all of them" in ran.err


def test_lint_says_what_rounds_may_cost_and_where_its_number_comes_from(
    gatemark: Run, folder: Path
) -> None:
    path = _pack(folder, "slips")
    store = ("--store", folder / "store")
    (told,) = gatemark("lint", path, "--json", *store).json["predictions"]
    assert "if 10% of the answers differ (assumed)" in told
    assert "; asked in 3 rounds, each arm answers at most 1800 items, on average " in told
    ran = _run(gatemark, folder, path)
    (told,) = gatemark("lint", path, "--json", *store).json["predictions"]
    assert f"of the answers differ (as in result {ran.json['id'][7:19]} of " in told
    assert "if 2% " in told
    (told,) = gatemark("lint", path, "--json", "--discordance", 0.3, *store).json["predictions"]
    assert "if 30% of the answers differ (given)" in told
