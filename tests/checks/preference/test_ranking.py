"""Votes between several models: strengths, intervals, and what cannot be ranked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from tests.checks.preference.test_command import vote as two_sided_vote

from gatemark.statistics.bradley_terry import PSEUDO_WINS

Run = Callable[..., Any]
Write = Callable[..., Path]
TRUTH = {"a": 1.2, "b": 0.0, "c": -1.2}


@pytest.fixture
def score(gatemark: Run, write_jsonl: Write) -> Run:
    def run(rows: list[Any], *arguments: object) -> Any:
        return gatemark("score", "preference", write_jsonl("m.jsonl", rows), *arguments)

    return run


def vote(item: object, first: str, second: str, winner: str, reviewer: str = "r1") -> Any:
    return {
        "item": f"i{item}",
        "reviewer": reviewer,
        "model_a": first,
        "model_b": second,
        "winner": winner,
    }


def simulated(items: int, seed: int = 1, ties: float = 0.1) -> list[Any]:
    rng = np.random.default_rng(seed)
    rows = []
    for item in range(items):
        for first, second in (("a", "b"), ("c", "a"), ("b", "c")):
            chance = 1 / (1 + np.exp(TRUTH[second] - TRUTH[first]))
            won = "model_a" if rng.random() < chance else "model_b"
            rows.append(vote(item, first, second, "tie" if rng.random() < ties else won))
    return rows


def fitted(rows: list[Any], names: list[str]) -> np.ndarray:
    """Strengths by maximising the likelihood directly, with the same pseudo-wins."""
    wins = np.zeros((len(names), len(names)))
    for row in rows:
        pair = names.index(row["model_a"]), names.index(row["model_b"])
        share = {"model_a": 1.0, "model_b": 0.0}.get(row["winner"], 0.5)
        wins[pair] += share
        wins[pair[::-1]] += 1 - share
    wins += PSEUDO_WINS * ((wins + wins.T) > 0)

    def loss(strength: np.ndarray) -> float:
        gaps = strength[:, None] - strength[None, :]
        return float((wins * np.log1p(np.exp(-gaps))).sum() + 1e-9 * (strength**2).sum())

    found = minimize(loss, np.zeros(len(names)), method="BFGS").x
    return np.asarray(found - found.mean())


def test_strengths_are_those_of_a_direct_optimisation(score: Run) -> None:
    rows = simulated(60)
    ran = score(rows, "--json")
    assert ran.code == 0, ran.err
    found = {one["name"]: one for one in ran.json["models"]}
    for name, strength in zip("abc", fitted(rows, list("abc")), strict=True):
        assert found[name]["log_strength"] == pytest.approx(strength, abs=1e-3)
        low, high = found[name]["interval"]
        assert low < found[name]["log_strength"] < high
    assert [one["name"] for one in ran.json["models"]] == ["a", "b", "c"]
    assert ran.json["verdict"] is None
    assert (ran.json["items"], ran.json["votes"]) == (60, 180)


def test_a_candidate_is_judged_against_a_baseline_or_everybody(score: Run) -> None:
    rows = simulated(80)
    assert score(rows, "--candidate", "a").code == 0
    assert score(rows, "--candidate", "b", "--baseline", "c").code == 0
    ran = score(rows, "--candidate", "b", "--json")
    assert (ran.code, ran.json["verdict"]) == (1, "fail")
    assert "a is preferred" in ran.json["reason"]


def test_ties_alone_rank_all_models_alike_and_decide_nothing(score: Run) -> None:
    rows = [vote(item, "a", "b", "tie") for item in range(40)]
    ran = score(rows, "--candidate", "a", "--json")
    assert (ran.code, ran.json["verdict"]) == (3, "inconclusive")
    assert [one["log_strength"] for one in ran.json["models"]] == pytest.approx([0, 0], abs=1e-9)


def test_models_that_never_met_are_inconclusive_with_the_reason(score: Run) -> None:
    rows = [vote(n, "a", "b", "model_a") for n in range(30)]
    rows += [vote(n, "c", "d", "model_a") for n in range(30)]
    ran = score(rows, "--json")
    assert (ran.code, ran.json["models"]) == (3, [])
    assert "never met" in ran.json["reason"]


def test_a_model_that_won_all_has_no_interval_and_is_judged_by_direct_votes(score: Run) -> None:
    rows = [vote(n, "a", "b", "model_a") for n in range(12)]
    few = score(rows, "--candidate", "a", "--json")
    assert (few.code, few.json["verdict"]) == (3, "inconclusive")
    many = [
        vote(n, *(("a", "b", "model_a") if n % 2 else ("b", "a", "model_b"))) for n in range(40)
    ]
    ran = score(many, "--candidate", "a", "--json")
    assert (ran.code, ran.json["verdict"]) == (0, "pass")
    assert [one["interval"] for one in ran.json["models"]] == [None, None]
    assert "a won every comparison: its strength has no upper bound" in ran.json["caveats"]


def test_a_winner_of_all_that_never_met_the_candidate_is_not_decided(score: Run) -> None:
    rows = [vote(n, "a", "b", "model_a") for n in range(40)]
    rows += [vote(n, "b", "c", "model_a") for n in range(40)]
    ran = score(rows, "--candidate", "a", "--baseline", "c", "--json")
    assert (ran.code, ran.json["verdict"]) == (3, "inconclusive")
    assert "direct votes do not decide" in ran.json["reason"]


def test_few_items_decide_nothing(score: Run) -> None:
    ran = score(simulated(9), "--candidate", "a", "--baseline", "c", "--json")
    assert (ran.code, ran.json["verdict"]) == (3, "inconclusive")


def test_many_votes_on_one_item_are_no_evidence_about_items(score: Run) -> None:
    rows = [vote(1, "a", "b", "model_a" if n % 4 else "model_b", f"r{n}") for n in range(60)]
    assert score(rows, "--candidate", "a").code == 3


def test_equal_models_rarely_pass(score: Run) -> None:
    rng = np.random.default_rng(4)
    passed = 0
    for _ in range(20):
        rows = [
            vote(n, "a", "b", "model_a" if rng.random() < 0.5 else "model_b") for n in range(30)
        ]
        passed += score(rows, "--candidate", "a").code == 0
    assert passed <= 4


@pytest.mark.parametrize(
    ("rows", "arguments", "problem"),
    [
        (simulated(5), ("--candidate", "aa"), "no vote names the model 'aa'"),
        (simulated(5), ("--baseline", "a"), "--baseline needs --candidate"),
        (simulated(5), ("--candidate", "a", "--baseline", "a"), "must be two models"),
        (simulated(5), ("--peeking",), "--peeking is for votes between candidate"),
        ([vote(1, "a", "b", "tie"), vote(1, "b", "a", "tie")], (), "a reviewer votes once"),
        ([vote(1, "a", "a", "tie")], (), "a vote compares two models"),
        ([vote(n, f"m{n}", "z", "tie") for n in range(31)], (), "at most 30 models"),
        ([two_sided_vote(n) for n in range(5)], ("--candidate", "a"), "name models"),
    ],
)
def test_bad_input_is_refused_with_the_problem(
    score: Run, rows: list[Any], arguments: tuple[str, ...], problem: str
) -> None:
    ran = score(rows, *arguments)
    assert ran.code == 2
    assert problem in ran.err


def test_the_same_seed_gives_the_same_intervals_and_the_text_shows_them(score: Run) -> None:
    rows = simulated(30)
    first, second = score(rows, "--seed", "3", "--json"), score(rows, "--seed", "3", "--json")
    assert first.json["models"] == second.json["models"]
    ran = score(rows)
    assert ran.out.startswith("RANKING")
    assert "90 votes on 30 items by 1 reviewers" in ran.out


def test_a_model_that_wins_by_being_shown_first_is_not_preferred(score: Run) -> None:
    def shown(times_first: int, winner: Callable[[bool], str]) -> list[Any]:
        rows = []
        for n in range(100):
            is_first = n % 10 < times_first
            pair = ("new", "old") if is_first else ("old", "new")
            rows.append(vote(n, *pair, winner(is_first)))
        return rows

    def outcome(rows: list[Any]) -> tuple[int, str]:
        ran = score(rows, "--candidate", "new", "--json")
        return ran.code, ran.json["reason"]

    for times_first in (9, 10):
        code, reason = outcome(shown(times_first, lambda _: "model_a"))
        assert (code, "being shown first or second decides" in reason) == (3, True)
    always_new = shown(9, lambda is_first: "model_a" if is_first else "model_b")
    assert outcome(always_new)[0] == 0
    assert outcome(shown(5, lambda is_first: "model_a" if is_first else "model_b"))[0] == 0


@pytest.mark.parametrize(
    "spelt", ["SMALL", "small ", "sm\u200ball", "sm\u0430ll", "\uff53mall", "small\u00ad"]
)
def test_a_model_is_one_model_in_every_spelling(score: Run, spelt: str) -> None:
    rows = [
        vote(
            n,
            *(("small", "old") if n % 4 < 2 else ("old", "small")),
            "model_a" if (n % 2 == 0) == (n % 4 < 2) else "model_b",
        )
        for n in range(60)
    ]
    hidden = [
        row | {side: spelt}
        for row in rows
        for side in ("model_a", "model_b")
        if row[side] == "small" and row["winner"] != side
    ]
    hidden += [row for row in rows if row[row["winner"]] == "small"]
    names = ("--candidate", "small", "--baseline", "OLD\u200b")
    honest, ran = (score(some, *names, "--json").json for some in (rows, hidden))
    assert honest["verdict"] == ran["verdict"] == "inconclusive"
    assert len(ran["models"]) == 2
    assert ran["comparisons"][0]["difference"] == honest["comparisons"][0]["difference"]
    assert ran["baseline"] == "old"
    again = score([*rows, rows[0] | {"model_a": spelt}])
    assert (again.code, "a reviewer votes once" in again.err) == (2, True)
    assert score([*rows, vote(99, "small", spelt, "model_a")]).code == 2
    same = score(rows, "--candidate", "small", "--baseline", spelt)
    assert (same.code, "must be two models" in same.err) == (2, True)
