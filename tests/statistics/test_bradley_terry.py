from __future__ import annotations

import evalica
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatemark.core.errors import InvalidValueError
from gatemark.statistics.bradley_terry import PSEUDO_WINS, fit_strengths, rank_sides


def evalica_strengths(wins: np.ndarray) -> np.ndarray:
    """The same pseudo-wins handed to evalica as weighted comparisons."""
    count = len(wins)
    rows = [
        (left, right, wins[left, right] + PSEUDO_WINS * bool(wins[left, right] + wins[right, left]))
        for left in range(count)
        for right in range(count)
        if left != right
    ]
    played = [row for row in rows if row[2] > 0]
    result = evalica.bradley_terry(
        [str(row[0]) for row in played],
        [str(row[1]) for row in played],
        [evalica.Winner.X] * len(played),
        weights=[row[2] for row in played],
        tolerance=1e-12,
        limit=10_000,
    )
    logs = np.log([result.scores[str(at)] for at in range(count)])
    return np.asarray(logs - logs.mean())


@settings(deadline=None, max_examples=25)
@given(
    st.integers(2, 5).flatmap(
        lambda count: st.lists(
            st.lists(st.integers(0, 30), min_size=count, max_size=count),
            min_size=count,
            max_size=count,
        )
    )
)
def test_strengths_are_those_of_evalica(table: list[list[int]]) -> None:
    wins = np.array(table, dtype=float) + 1
    np.fill_diagonal(wins, 0)
    assert fit_strengths(wins) == pytest.approx(evalica_strengths(wins), abs=1e-4)


def test_two_sides_have_the_log_odds_of_their_wins() -> None:
    wins = np.array([[0.0, 30.0], [10.0, 0.0]])
    strong, weak = fit_strengths(wins)
    assert strong - weak == pytest.approx(np.log(30.5 / 10.5))


def test_a_side_that_never_lost_keeps_a_finite_strength() -> None:
    item_wins = np.zeros((12, 2, 2))
    item_wins[:, 0, 1] = 1
    ranking = rank_sides(("a", "b"), item_wins, seed=1)
    assert ranking.sides[0].name == "a"
    assert all(np.isfinite(side.interval).all() for side in ranking.sides)


def test_intervals_hold_the_true_strengths_about_as_often_as_they_say() -> None:
    rng = np.random.default_rng(3)
    truth = np.array([0.6, 0.0, -0.6])
    held = 0
    for _ in range(60):
        item_wins = np.zeros((60, 3, 3))
        for left, right in ((0, 1), (0, 2), (1, 2)):
            chance = 1 / (1 + np.exp(truth[right] - truth[left]))
            won = rng.random(60) < chance
            item_wins[:, left, right] = won
            item_wins[:, right, left] = ~won
        ranking = rank_sides(("a", "b", "c"), item_wins, seed=5, resamples=200)
        (first,) = [side for side in ranking.sides if side.name == "a"]
        held += first.interval[0] <= 0.6 <= first.interval[1]
    assert held >= 51


def test_sides_that_never_met_have_a_reason_and_no_ranking() -> None:
    item_wins = np.zeros((3, 4, 4))
    item_wins[:, 0, 1] = item_wins[:, 2, 3] = 1
    ranking = rank_sides(("a", "b", "c", "d"), item_wins, seed=1)
    assert ranking.sides == ()
    assert ranking.reason == "the sides fall into groups that never met"


def test_a_table_of_another_size_is_refused() -> None:
    with pytest.raises(InvalidValueError, match="do not fit"):
        rank_sides(("a", "b"), np.zeros((3, 3, 3)), seed=1)
