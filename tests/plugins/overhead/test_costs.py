"""Time and memory beside quality: recorded apart, gated apart, or said not to be measured."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gatemark.evidence.reading_choices import ReadingChoices
from gatemark.plugins.overhead.arms import read_arm
from gatemark.plugins.overhead.costs import digest_schedule

from .arms import ppl_pair

Run = Callable[..., Any]


@pytest.fixture
def score(gatemark: Run, tmp_path: Path) -> Run:
    """Score equal arms with these costs and these overrides."""

    def run(change: Callable[[dict[str, Any]], Any] | None = None, **budgets: float) -> Any:
        arms = ppl_pair(tmp_path, 10, 10.01)
        schedule = digest_schedule(read_arm("bare", str(arms[1]), ReadingChoices()))
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


def turns(bare: float, guarded: float, spread: float = 0.0) -> Callable[[dict[str, Any]], Any]:
    """Times of arms that took turns; ``spread`` moves the blocks of time apart."""

    def change(costs: dict[str, Any]) -> None:
        off = [spread * (-1) ** (group // 10) for group in range(200)]
        costs["timing"] = {
            "windows": [1] * 200,
            "bare_ms": [[bare, bare + 9]] * 200,
            "guarded_ms": [[guarded + 9, guarded + more] for more in off],
        }

    return change


def test_times_of_arms_that_took_turns_go_before_those_of_the_passes(score: Run) -> None:
    latency = score(turns(10, 13, spread=1)).json["axes"]["latency"]
    assert latency["overhead"] == pytest.approx(0.3)
    assert latency["low"] == pytest.approx(0.3 - 0.048, abs=1e-3)
    assert latency["high"] == pytest.approx(0.3 + 0.048, abs=1e-3)


@pytest.mark.parametrize(("budget", "code"), [(0.36, 0), (0.24, 1), (0.3, 3)])
def test_a_budget_of_time_is_met_by_the_whole_interval(
    score: Run, budget: float, code: int
) -> None:
    ran = score(turns(10, 13, spread=1), latency_budget=budget)
    state = ("pass", "fail", "", "inconclusive")[code]
    assert (ran.code, ran.json["axes"]["latency"]["state"]) == (code, state)


def test_arms_that_could_not_take_turns_have_no_interval(score: Run) -> None:
    def change(costs: dict[str, Any]) -> None:
        costs["timing"] = {"reason": "switching is slow"}

    ran = score(change)
    latency = ran.json["axes"]["latency"]
    assert (ran.code, latency["overhead"], latency["low"]) == (0, pytest.approx(0.2), None)
    judged = score(change, latency_budget=5.0)
    assert judged.code == 3
    words = "the time cannot be judged by its budget: switching is slow"
    assert judged.json["blockers"] == [words]


@pytest.mark.parametrize(
    ("install", "budget", "code"), [([90, 30], 90, 0), ([90, 30], 89, 1), (None, 90, 3)]
)
def test_installing_has_a_budget_in_milliseconds(
    score: Run, install: Any, budget: float, code: int
) -> None:
    ran = score(lambda costs: costs.update(install_ms=install), install_budget=budget)
    axis = ran.json["axes"]["install"]
    assert ran.code == code
    assert (axis["overhead"], axis["budget"]) == (max(install) if install else None, budget)
    assert axis["state"] == ("pass", "fail", "", "inconclusive")[code]
    assert install or axis["reason"] == "no install time was recorded"


def test_without_an_install_time_and_a_budget_there_is_no_such_axis(score: Run) -> None:
    ran = score()
    assert "install" not in ran.json["axes"]
    assert ran.json["resolved_policy"]["settings"]["install_budget"] is None


def test_memory_that_was_read_in_different_places_is_not_compared(score: Run) -> None:
    def change(costs: dict[str, Any]) -> None:
        costs["arms"]["bare"]["memory_source"] = "process"
        costs["arms"]["guarded"]["memory_source"] = "device"

    ran = score(change, memory_budget=5.0)
    assert (ran.code, ran.json["axes"]["memory"]["overhead"]) == (3, None)
    assert ran.json["axes"]["memory"]["reason"] == "the arms read their memory in different places"


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
        (lambda costs: costs.update(timing={"windows": [1]}), "equally many windows"),
        (lambda costs: costs.update(timing={}), "either groups or a reason"),
        (lambda costs: costs.update(install_ms=[-1]), "install_ms"),
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


def test_costs_that_are_no_utf8_are_refused(gatemark: Run, tmp_path: Path) -> None:
    arms = ppl_pair(tmp_path, 10, 10)
    (tmp_path / "costs.json").write_bytes(b'{"schedule_digest": "\xed\xa0\x80"}')
    ran = gatemark("score", "overhead", *arms, "--costs", tmp_path / "costs.json")
    assert (ran.code, ran.out) == (2, "")
    assert "costs.json: 'utf-8' codec" in ran.err


def alone(costs: dict[str, Any]) -> None:
    """A slow guard, and one that does harm."""
    costs["guards"] = [
        {"name": "slow", "windows": 40, "bare_ms": 100, "alone_ms": 130, "shift": 0.001},
        {"name": "harmful", "windows": 40, "bare_ms": 100, "alone_ms": 101, "shift": 0.2},
    ]


def test_the_guard_that_costs_most_is_named(score: Run, gatemark: Run, tmp_path: Path) -> None:
    slow = score(alone, latency_budget=0.1)
    assert slow.code == 1
    assert slow.json["guards"] == [
        {"name": "slow", "windows": 40, "latency_overhead": pytest.approx(0.3), "shift": 0.001},
        {"name": "harmful", "windows": 40, "latency_overhead": pytest.approx(0.01), "shift": 0.2},
    ]
    told = " ".join(slow.json["remedies"])
    assert "Look at guard slow first: alone it adds +30.0% to the time" in told
    assert "harmful" not in told
    harmful = " ".join(score(alone, budget=0.0).json["remedies"])
    assert "Look at guard harmful first: alone it costs 0.2 nats per token" in harmful
    page = tmp_path / "report.md"
    arms = ("--bare", tmp_path / "bare.jsonl", "--guarded", tmp_path / "guarded.jsonl")
    gatemark("score", "overhead", *arms, "--costs", tmp_path / "costs.json", "-o", page)
    table = page.read_text().partition("Each guard alone")[2].split("\n\n")[1]
    assert [row.split("|")[1].strip() for row in table.splitlines()[2:]] == ["slow", "harmful"]


def test_edited_install_times_and_guards_are_caught(
    score: Run, gatemark: Run, tmp_path: Path
) -> None:
    def change(costs: dict[str, Any]) -> None:
        alone(costs)
        costs["install_ms"] = [90, 30]

    report = score(change).json
    arms = ("--bare", tmp_path / "bare.jsonl", "--guarded", tmp_path / "guarded.jsonl")
    page = tmp_path / "report.json"
    for check, edit in (
        (None, lambda found: None),
        ("axis.install", lambda found: found["axes"]["install"].update(overhead=1.0)),
        ("value.guards", lambda found: found["guards"][0].update(latency_overhead=0.0)),
    ):
        found = json.loads(json.dumps(report))
        edit(found)
        page.write_text(json.dumps(found))
        ran = gatemark("overhead", "verify", page, *arms, "--json")
        failed = {name for name, state in ran.json["checks"].items() if state == "fail"}
        assert failed == ({check} if check else set()), ran.json["disagreements"]
