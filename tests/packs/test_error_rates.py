"""How often whole packs decide wrongly, by a simulation with a fixed seed."""

from __future__ import annotations

import math
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import numpy as np
import pytest

from gatemark.evidence.rows import frozen_rows
from gatemark.packs.answers import Answer
from gatemark.packs.arm_answers import ArmAnswers
from gatemark.packs.judge import judge_run
from gatemark.packs.pack import Pack
from gatemark.packs.pack_file import OpenPack
from gatemark.packs.run import AnsweredRun, Run

SUITES = ("a", "b", "c", "d")
ITEMS = 300
PACKS = 60
"""Enough to see a rate that is far off; ``make bench error-rates`` simulates 500."""
NOW = datetime(2026, 1, 1, tzinfo=UTC)
CASES: dict[str, tuple[dict[str, float], str]] = {
    "equal models": ({}, "fail"),
    "one suite worse by its guard": ({"c": 0.1}, "pass"),
    "every suite worse by the margin": (dict.fromkeys(SUITES, 0.05), "pass"),
}
PACK = msgspec.convert(
    {
        "gatemark": 1,
        "name": "simulated",
        "version": 1,
        "asset": {"kind": "model", "name": "simulated"},
        "score_min": 0.5,
        "regression_max": 0.05,
        "suites": [
            {"id": name, "kind": "golden", "weight": 0.25, "dataset": f"{name}.jsonl"}
            for name in SUITES
        ],
        "targets": {"candidate": {}, "baseline": {}},
    },
    Pack,
)
ROWS = frozen_rows("rows", [{"id": f"i{n:03d}", "input": n} for n in range(ITEMS)])
OPENED = OpenPack(PACK, Path(), dict.fromkeys(SUITES, ROWS))


def answers(right: np.ndarray) -> tuple[Answer, ...]:
    return tuple(
        Answer(row.id, 1, "x", float(score), None)
        for row, score in zip(ROWS.rows, right, strict=True)
    )


def allowed(packs: int) -> float:
    """The stated rate with the noise of so few packs, one-sided at one percent."""
    return 0.05 + 2.33 * math.sqrt(0.05 * 0.95 / packs)


def outcome(rng: np.random.Generator, drops: dict[str, float]) -> str:
    """One pack over two models; each suite's candidate is truly worse by the drop named for it."""
    candidate, baseline = {}, {}
    for suite in SUITES:
        before = rng.random(ITEMS) < 0.85
        redrawn = rng.random(ITEMS) < 0.05
        after = np.where(redrawn, rng.random(ITEMS) < 0.85, before)
        after &= rng.random(ITEMS) >= drops.get(suite, 0.0) / 0.85
        candidate[suite], baseline[suite] = answers(after), answers(before)
    arms = {"candidate": ArmAnswers(candidate), "baseline": ArmAnswers(baseline)}
    judged = judge_run(AnsweredRun(Run(OPENED, NOW), arms), now=NOW)
    return judged.verdict.outcome


def wrong_rate(case: str, packs: int) -> float:
    """How often simulated packs of a case are decided wrongly."""
    drops, wrong = CASES[case]
    rng = np.random.default_rng(2026)
    counts = Counter(outcome(rng, drops) for _ in range(packs))
    return counts[wrong] / packs


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_packs_decide_wrongly_no_more_often_than_stated(case: str) -> None:
    assert wrong_rate(case, PACKS) <= allowed(PACKS)


@pytest.mark.slow
def test_a_large_drop_in_one_suite_is_found() -> None:
    rng = np.random.default_rng(2027)
    counts = Counter(outcome(rng, {"b": 0.2}) for _ in range(50))
    assert counts["fail"] >= 45
    assert counts["pass"] == 0
