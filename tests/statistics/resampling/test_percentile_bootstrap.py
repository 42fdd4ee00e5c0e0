from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

from gatemark.core.errors import InvalidValueError
from gatemark.statistics.quantiles import linear_percentile, summarize_distribution
from gatemark.statistics.resampling.percentile_bootstrap import percentile_mean, percentile_ratio


def drawn_one_by_one(values: np.ndarray, seed: int, resamples: int) -> tuple[float, float]:
    state = np.random.RandomState(seed)
    means = [
        np.mean(state.choice(values, size=len(values), replace=True)) for _ in range(resamples)
    ]
    return np.percentile(means, 2.5), np.percentile(means, 97.5)


@pytest.mark.parametrize(("n", "seed"), [(40, 42), (1, 42), (7, 3), (300, 42), (64, 0)])
def test_the_interval_has_the_bits_of_one_choice_per_resample(n: int, seed: int) -> None:
    values = np.random.default_rng(n).random(n)
    found = percentile_mean(values.tolist(), seed=seed, resamples=500, chunk_cells=1000)
    assert found is not None
    assert (found.low, found.high) == drawn_one_by_one(values, seed, 500)
    assert found.mean == np.mean(values)


def test_the_size_of_chunks_changes_nothing() -> None:
    values = np.random.default_rng(1).random(33).tolist()
    whole = percentile_mean(values, seed=42, resamples=900)
    assert percentile_mean(values, seed=42, resamples=900, chunk_cells=40) == whole


def test_scipy_draws_about_the_same_interval() -> None:
    values = np.random.default_rng(2).beta(2, 5, 60)
    ours = percentile_mean(values.tolist(), seed=42, resamples=10_000)
    theirs = scipy.stats.bootstrap(
        (values,), np.mean, method="percentile", n_resamples=10_000, rng=np.random.default_rng(3)
    ).confidence_interval
    assert ours is not None
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=0.004)


def test_nothing_has_no_interval() -> None:
    assert percentile_mean([], seed=42, resamples=10) is None
    assert percentile_ratio([], [], seed=42, resamples=10) is None


@pytest.mark.parametrize("values", [[1.0, float("nan")], [float("inf")]])
def test_numbers_without_end_are_refused(values: list[float]) -> None:
    with pytest.raises(InvalidValueError):
        percentile_mean(values, seed=42, resamples=10)


def test_a_bootstrap_without_resamples_is_refused() -> None:
    with pytest.raises(InvalidValueError):
        percentile_mean([1.0], seed=42, resamples=0)


def test_a_ratio_over_ones_is_the_mean() -> None:
    values = np.random.default_rng(4).random(25).tolist()
    mean = percentile_mean(values, seed=42, resamples=400)
    ratio = percentile_ratio(values, [1.0] * 25, seed=42, resamples=400)
    assert mean is not None
    assert ratio is not None
    assert (ratio.low, ratio.high) == pytest.approx((mean.low, mean.high))


def test_a_ratio_pools_its_parts() -> None:
    found = percentile_ratio([1, 0, 3], [2, 0, 4], seed=42, resamples=200)
    assert found is not None
    assert found.mean == pytest.approx(4 / 6)
    assert found.n == 2
    assert 0.5 <= found.low <= found.mean <= found.high <= 0.75


def test_a_distribution_of_nothing_is_null_and_of_one_value_is_that_value() -> None:
    assert summarize_distribution([]) is None
    only = summarize_distribution([7])
    assert only is not None
    assert only.pop("count") == 1
    assert set(only.values()) == {7.0}


def test_percentiles_lie_between_the_values_around_them() -> None:
    found = summarize_distribution([1, 2, 3, 4])
    assert found == {
        "count": 4,
        "min": 1.0,
        "max": 4.0,
        "mean": 2.5,
        "p50": 2.5,
        "p90": pytest.approx(3.7),
        "p95": pytest.approx(3.85),
        "p99": pytest.approx(3.97),
    }
    assert linear_percentile([1, 2, 3, 4], 5) == pytest.approx(1.15)
    assert linear_percentile([], 5) is None
