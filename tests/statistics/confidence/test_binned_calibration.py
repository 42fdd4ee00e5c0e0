from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from gatemark.statistics.confidence.binned_calibration import (
    binned_ece_each,
    binomial_mean_deviation,
)
from gatemark.statistics.confidence.calibration import bin_index, group_items, measure_calibration

BINS = 15


@settings(deadline=None, max_examples=100)
@given(st.integers(1, 300), st.integers(0, 1000))
def test_the_mean_deviation_is_the_sum_over_all_outcomes(n: int, per_mille: int) -> None:
    p = per_mille / 1000
    outcomes = np.arange(n + 1)
    expected = (stats.binom.pmf(outcomes, n, p) * np.abs(outcomes - n * p)).sum()
    found = float(binomial_mean_deviation(np.asarray(float(n)), np.asarray(n * p)))
    assert found == pytest.approx(expected, rel=1e-6, abs=1e-9)


def test_no_items_deviate_by_nothing() -> None:
    assert binomial_mean_deviation(np.zeros(2), np.zeros(2)).tolist() == [0, 0]


def binned(confidence: np.ndarray, correct: np.ndarray) -> list[np.ndarray]:
    places = bin_index(confidence, BINS)
    weights = (np.ones_like(confidence), confidence, correct.astype(float))
    return [np.bincount(places, weights=weight, minlength=BINS) for weight in weights]


def test_the_error_and_its_twin_are_those_of_whole_items() -> None:
    rng = np.random.default_rng(10)
    confidence = np.round(rng.beta(5, 2, 3000), 2)
    correct = rng.random(3000) < confidence**1.3
    found = binned_ece_each(*binned(confidence, correct))
    whole = measure_calibration(group_items(confidence, correct), rng, bins=BINS, twins=4000)
    assert float(found.ece) == pytest.approx(whole.ece)
    assert float(found.twin_mean) == pytest.approx(whole.twin_ece, rel=0.03)
    assert float(found.excess) == pytest.approx(whole.ece_excess, abs=0.001)


def test_the_twins_spread_is_that_of_drawn_twins() -> None:
    rng = np.random.default_rng(11)
    items, promised = np.asarray([50.0, 120, 0, 30]), np.asarray([10.0, 60, 0, 27])
    rate = np.divide(promised, items, out=np.zeros(4), where=items > 0)
    hits = rng.binomial(items.astype(int), rate, (40_000, 4))
    drawn = np.abs(hits - promised).sum(axis=1) / 200
    found = binned_ece_each(items, promised, promised)
    assert float(found.ece) == 0
    assert float(found.twin_mean) == pytest.approx(drawn.mean(), rel=0.01)
    assert float(found.twin_sd) == pytest.approx(drawn.std(), rel=0.02)


def test_an_empty_window_has_no_error() -> None:
    assert np.isnan(binned_ece_each(np.zeros(3), np.zeros(3), np.zeros(3)).ece)
