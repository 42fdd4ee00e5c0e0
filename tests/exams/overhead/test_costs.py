"""Time and memory beside quality: recorded apart, gated apart, or said not to be measured."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gatemark.evidence.source import ReadingChoices
from gatemark.exams.overhead.arms import read_arm
from gatemark.exams.overhead.costs import schedule_digest

from .arms import ppl_pair

Run = Callable[..., Any]


@pytest.fixture
def score(gatemark: Run, tmp_path: Path) -> Run:
    """Score equal arms with these costs and these overrides."""

    def run(change: Callable[[dict[str, Any]], Any] | None = None, **budgets: float) -> Any:
        arms = ppl_pair(tmp_path, 10, 10.01)
        schedule = schedule_digest(read_arm("bare", str(arms[1]), ReadingChoices()))
        costs: dict[str, Any] = {
            "schema": "gatemark.overhead-costs/1",
            "schedule_digest": schedule,
            "passes": [],
            "arms": {
                "bare": arm([10.0] * 200, [14.0] * 200, 1_000),
                "guarded": arm([13.0] * 200, [12.0] * 200, 1_100),
            },
        }
        if change is not None:
            change(costs)
        (tmp_path / "costs.json").write_text(json.dumps(costs))
        overrides = [{"field": name, "value": value} for name, value in budgets.items()]
        (tmp_path / "policy.yaml").write_text(json.dumps({"overrides": overrides}))
        return gatemark(
            *("score", "overhead", *arms, "--json"),
            *("--costs", tmp_path / "costs.json", "--policy", tmp_path / "policy.yaml"),
        )

    return run


def arm(first: list[float], second: list[float], memory: int | None) -> dict[str, Any]:
    return {
        "latency_ms": [first, second],
        "peak_memory_bytes": memory,
        "memory_reason": None if memory is not None else "nobody looked",
        "repeat_shift_max": 0.0,
    }


def test_the_fastest_pass_of_each_window_counts(score: Run) -> None:
    axes = score().json["axes"]
    assert axes["latency"]["overhead"] == pytest.approx(0.2)
    assert axes["latency"]["bare"]["latency_ms_p50"] == 10
    assert axes["latency"]["guarded"]["latency_ms_total"] == 2_400
    assert axes["memory"]["overhead"] == pytest.approx(0.1)
    assert (axes["latency"]["state"], axes["memory"]["state"]) == ("not gated", "not gated")


@pytest.mark.parametrize(
    ("budgets", "code"),
    [
        ({"latency_budget": 0.21}, 0),
        ({"latency_budget": 0.19}, 1),
        ({"memory_budget": 0.11}, 0),
        ({"memory_budget": 0.09}, 1),
    ],
)
def test_each_axis_has_a_budget_of_its_own(score: Run, budgets: Any, code: int) -> None:
    ran = score(**budgets)
    (axis,) = (name.removesuffix("_budget") for name in budgets)
    assert ran.code == code
    assert ran.json["axes"][axis]["state"] == ("pass", "fail")[code]
    assert ran.json["axes"]["quality"]["state"] == "pass"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda costs: costs.update(schedule_digest="sha256:00"), "belong to other windows"),
        (lambda costs: costs["arms"].pop("bare"), "lack an arm"),
        (
            lambda costs: costs["arms"]["guarded"].update(latency_ms=[[1.0] * 3]),
            "some windows have no recorded time",
        ),
        (lambda costs: costs["arms"]["guarded"].update(latency_ms=[]), "no recorded time"),
    ],
)
def test_costs_that_do_not_fit_leave_the_axis_open(score: Run, change: Any, reason: str) -> None:
    shown = score(change)
    assert (shown.code, shown.json["axes"]["latency"]["state"]) == (0, "not measured")
    assert reason in shown.json["axes"]["latency"]["reason"]
    assert score(change, latency_budget=0.5).code == 3


def test_memory_that_nobody_measured_is_a_reason(score: Run) -> None:
    def forget(costs: dict[str, Any]) -> None:
        costs["arms"]["bare"] |= {"peak_memory_bytes": None, "memory_reason": "nobody looked"}

    ran = score(forget)
    assert ran.json["axes"]["memory"]["reason"] == "nobody looked"
    assert score(forget, memory_budget=0.5).code == 3
    none_used = score(lambda costs: costs["arms"]["bare"].update(peak_memory_bytes=0))
    assert "used no memory" in none_used.json["axes"]["memory"]["reason"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda costs: costs.update(extra=1), "unknown field `extra`"),
        (lambda costs: costs["arms"]["bare"].update(latency_ms=[[0.0]]), ">= 1e-06"),
        (lambda costs: costs["arms"]["bare"].update(latency_ms=[[1e308]]), "<= 1000000000000"),
        (lambda costs: costs["arms"]["bare"].update(latency_ms=[[math.nan]]), "JSON is malformed"),
        (lambda costs: costs["arms"]["bare"].update(peak_memory_bytes=10**400), "costs.json"),
        (
            lambda costs: costs["arms"]["bare"].update(memory_reason="why"),
            "give one of peak_memory_bytes",
        ),
        (lambda costs: costs["arms"]["bare"].update(peak_memory_bytes=-1), ">= 0"),
    ],
)
def test_a_file_of_costs_that_is_none_is_refused(score: Run, change: Any, words: str) -> None:
    ran = score(change)
    assert (ran.code, ran.out) == (2, "")
    assert "costs.json" in ran.err
    assert words in ran.err


def test_costs_with_a_key_that_comes_twice_are_refused(gatemark: Run, tmp_path: Path) -> None:
    arms = ppl_pair(tmp_path, 10, 10)
    rest = '"passes": [], "arms": {}}'
    for text in (
        '{"schedule_digest": "sha256:00", "schedule_digest": "sha256:01", ' + rest,
        '{"schedule_digest": "sha256\\u003a00", "schedule_digest": "sha256:01", ' + rest,
    ):
        (tmp_path / "costs.json").write_text(text)
        ran = gatemark("score", "overhead", *arms, "--costs", tmp_path / "costs.json")
        assert (ran.code, ran.out) == (2, "")
        assert 'costs.json: key "schedule_digest" appears more than once' in ran.err
