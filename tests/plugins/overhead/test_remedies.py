"""What a report says to do about a verdict that is not a pass."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from .arms import loss_arm, ppl_pair

Run = Callable[..., Any]


@pytest.fixture
def score(gatemark: Run) -> Run:
    return lambda *arguments: gatemark("score", "overhead", *arguments, "--json")


def test_a_pass_needs_no_remedy(score: Run, tmp_path: Path) -> None:
    assert "remedies" not in score(*ppl_pair(tmp_path, 10, 10.01)).json


def test_too_few_windows_are_told_how_many(score: Run, tmp_path: Path) -> None:
    found = score(*ppl_pair(tmp_path, 10, 10.01, windows=12)).json["remedies"]
    assert "Measure about 200 windows instead of 12, the same ones in both arms." in found
    assert "Measure 8,800 more tokens: use more or longer windows." in found


def test_an_open_interval_is_told_how_many_windows_would_decide(score: Run, tmp_path: Path) -> None:
    draw = np.random.default_rng(3)
    bare = draw.gamma(40, 0.06, 460)
    shifts = draw.normal(0.008, 0.05, 460)
    arms = [
        *("--bare", loss_arm(tmp_path / "b.jsonl", "bare", bare.tolist())),
        *("--guarded", loss_arm(tmp_path / "g.jsonl", "guarded", (bare + shifts).tolist())),
    ]
    ran = score(*arms, "--mode", "interval")
    found = ran.json["guard_overhead"]
    assert ran.code == 3
    half = (found["interval"]["high"] - found["interval"]["low"]) / 2
    needed = int(np.ceil(460 * (half / abs(0.01 - found["overhead"])) ** 2))
    assert f"Measure about {needed:,} windows instead of 460" in ran.json["remedies"][0]


def test_harmful_guards_are_told_the_worst_windows_and_a_bare_check(
    score: Run, tmp_path: Path
) -> None:
    guarded = [2.0] * 199 + [9.0]
    arms = [
        *("--bare", loss_arm(tmp_path / "b.jsonl", "bare", [2.0] * 200)),
        *(
            "--guarded",
            loss_arm(tmp_path / "g.jsonl", "guarded", guarded, guards=["clip", "cap"]),
        ),
    ]
    ran = score(*arms)
    told = " ".join(ran.json["remedies"])
    assert ran.code == 1
    assert "Look at the windows that lost most: w199 (+7)." in told
    assert "Find the guard that costs most: run clip, cap one by one." in told
    assert "give a second bare run with --noise" in told


def test_arms_that_do_not_pair_are_told_to_run_again(score: Run, tmp_path: Path) -> None:
    arms = ppl_pair(tmp_path, 10, 10.01)
    short = loss_arm(tmp_path / "s.jsonl", "guarded", [2.0] * 3)
    told = score(*arms[:2], "--guarded", short).json["remedies"]
    assert any(text.startswith("Run both arms again with the same plan") for text in told)


def test_people_read_the_remedies(gatemark: Run, tmp_path: Path) -> None:
    ran = gatemark("score", "overhead", *ppl_pair(tmp_path, 10, 10))
    assert "next: Check that the toggle switches the guards on." in " ".join(ran.out.split())


@pytest.mark.parametrize(
    ("windows", "guarded", "words"),
    [
        (1, 10.01, "200 windows are needed, 1 window was measured"),
        (12, 10.01, "10,000 tokens are needed, 1,200 were measured"),
        (200, 10.3, "the guards cost 3 %, the budget is 1 % (n=200)"),
        (200, 10, "the guards changed nothing: 200 windows were the same in both arms"),
    ],
)
def test_blockers_are_plain_words(
    score: Run, tmp_path: Path, windows: int, guarded: float, words: str
) -> None:
    found = score(*ppl_pair(tmp_path, 10, guarded, windows=windows)).json
    assert words in found["blockers"]
    assert words in [one["reason"] for one in found["findings"]]
