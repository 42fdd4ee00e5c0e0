from __future__ import annotations

import math

import numpy as np
import pytest

from gatemark.core.errors import InvalidValueError
from gatemark.statistics.proportion import clopper_pearson_interval
from gatemark.statistics.resampling.bounded_mean import (
    MANY_VALUES,
    _draw_bounds,
    bounded_mean_bounds,
)


def test_yes_and_no_give_the_clopper_pearson_bounds():
    for k, n in ((0, 20), (3, 20), (10, 50), (50, 50)):
        x = np.array([1.0] * k + [0.0] * (n - k))
        found = bounded_mean_bounds(
            x, np.random.default_rng(1), low=0, high=1, one_sided_alpha=0.05, draws=40_000
        )
        assert found == pytest.approx(clopper_pearson_interval(k, n, 0.9), abs=0.006)


def test_a_large_dense_sample_gives_nearly_the_normal_bound():
    x = np.random.default_rng(2).uniform(-0.2, 0.2, 4000)
    error = x.std(ddof=1) / math.sqrt(x.size)
    lower, upper = bounded_mean_bounds(x, np.random.default_rng(3), low=-1, high=1, draws=4000)
    assert upper == pytest.approx(x.mean() + 1.645 * error, abs=0.25 * error)
    assert lower == pytest.approx(x.mean() - 1.645 * error, abs=0.25 * error)


def test_a_constant_sample_still_allows_for_what_it_did_not_show():
    lower, upper = bounded_mean_bounds(np.zeros(30), np.random.default_rng(4), low=-1, high=1)
    assert upper == pytest.approx(1 - 0.05 ** (1 / 30), abs=0.005)
    assert lower == pytest.approx(-upper, abs=0.005)


@pytest.mark.parametrize("k", [0, 1, 7, 400, 20_000, MANY_VALUES - 1, MANY_VALUES])
def test_many_yes_and_no_give_the_clopper_pearson_bounds_by_computing(k):
    x = np.array([1.0] * k + [0.0] * (MANY_VALUES - k))
    found = bounded_mean_bounds(x, np.random.default_rng(1), low=0, high=1)
    exact = clopper_pearson_interval(k, MANY_VALUES, 0.9)
    for bound, right in zip(found, exact, strict=True):
        error = math.sqrt(right * (1 - right) / MANY_VALUES)
        assert bound == pytest.approx(right, abs=0.01 * error)


def test_the_computed_bound_is_the_drawn_one_without_its_noise():
    rng = np.random.default_rng(9)
    x = np.where(rng.random(MANY_VALUES) < 0.001, 0.9, rng.normal(0, 0.02, MANY_VALUES))
    sizes = rng.integers(1, 9, MANY_VALUES).astype(float)
    found = bounded_mean_bounds(x, rng, low=-1, high=1, sizes=sizes)
    below = np.append(sizes, sizes.mean())
    drawn = _draw_bounds(x, below, (-1.0, 1.0), 0.05, rng=np.random.default_rng(10), draws=1_500)
    error = float(np.linalg.norm(sizes * (x - x.mean())) / sizes.sum())
    assert found == pytest.approx(drawn, abs=0.3 * error)


@pytest.mark.parametrize("value", [-1.0, 0.0, 1.0])
def test_many_equal_values_still_allow_for_what_they_did_not_show(value):
    x = np.full(MANY_VALUES, value)
    lower, upper = bounded_mean_bounds(x, np.random.default_rng(4), low=-1, high=1)
    reach = 1 - 0.05 ** (1 / MANY_VALUES)
    assert lower == pytest.approx(value - (value + 1) * reach, abs=0.01 * reach)
    assert upper == pytest.approx(value + (1 - value) * reach, abs=0.01 * reach)


@pytest.mark.parametrize("n", [15, 60])
def test_a_rare_collapse_is_missed_at_most_at_the_rate_alpha(n):
    rng = np.random.default_rng(5)
    missed = 0
    for _ in range(600):
        x = np.where(rng.random(n) < 0.1, 1.0, rng.uniform(0, 0.02, n))
        truth = 0.1 + 0.9 * 0.01
        missed += bounded_mean_bounds(x, rng, low=-1, high=1, draws=299)[1] < truth
    assert missed / 600 <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 600)


def test_clusters_of_one_item_change_nothing():
    x = np.random.default_rng(6).uniform(-1, 1, 40)
    alone = bounded_mean_bounds(x, np.random.default_rng(7), low=-1, high=1)
    sized = bounded_mean_bounds(x, np.random.default_rng(7), low=-1, high=1, sizes=np.ones(40))
    assert alone == sized


def test_large_clusters_weigh_more():
    x = np.array([0.5, -0.5] * 200)
    sizes = np.array([9.0, 1.0] * 200)
    lower, upper = bounded_mean_bounds(x, np.random.default_rng(8), low=-1, high=1, sizes=sizes)
    assert lower < 0.4 < upper
    assert lower > 0.3


@pytest.mark.parametrize(
    "kwargs",
    [
        {"values": []},
        {"values": [2.0]},
        {"values": [math.nan]},
        {"values": [0.5], "sizes": [0.0]},
        {"values": [0.5], "sizes": [1.0, 2.0]},
        {"values": [0.5], "one_sided_alpha": 0.7},
        {"values": [0.5], "low": 1.0},
    ],
)
def test_impossible_input_is_refused(kwargs):
    with pytest.raises(InvalidValueError):
        bounded_mean_bounds(**{"rng": np.random.default_rng(0), "low": -1.0, "high": 1.0, **kwargs})
