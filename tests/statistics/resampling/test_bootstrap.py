from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest
from scipy import stats

from gatemark.core.errors import InvalidValueError
from gatemark.statistics.clustered_means import cluster_totals
from gatemark.statistics.resampling.bootstrap import bca_clusters, bca_mean, bca_ratio


def _data(rng: np.random.Generator, n: int) -> np.ndarray:
    kind = rng.integers(4)
    if kind == 0:
        return rng.normal(size=n)
    if kind == 1:
        return rng.choice([-1.0, 0.0, 1.0], n, p=[0.1, 0.8, 0.1])
    if kind == 2:
        return rng.exponential(size=n) - 0.3
    return np.round(rng.random(n), 1) - np.round(rng.random(n), 1)


def _ratio(above, below, axis):
    return above.sum(axis=axis) / below.sum(axis=axis)


def test_mean_gives_the_digits_of_scipy_for_the_same_seed():
    rng = np.random.default_rng(3)
    compared = 0
    for seed in range(220):
        x = _data(rng, int(rng.integers(2, 120)))
        if x.min() == x.max():
            continue
        level = float(rng.choice([0.8, 0.9, 0.95, 0.99]))
        theirs = stats.bootstrap(
            (x,),
            np.mean,
            n_resamples=199,
            confidence_level=level,
            rng=np.random.default_rng(seed),
        )
        ours = bca_mean(x, np.random.default_rng(seed), level=level, resamples=199)
        if ours.method != "bca":
            continue
        compared += 1
        interval = theirs.confidence_interval
        assert ours.low == pytest.approx(interval.low, rel=1e-12, abs=1e-12)
        assert ours.high == pytest.approx(interval.high, rel=1e-12, abs=1e-12)
        assert ours.standard_error == pytest.approx(theirs.standard_error, rel=1e-12)
    assert compared > 200


@pytest.mark.parametrize("n", [3, 17, 400, 1999])
def test_mean_gives_the_digits_of_scipy_at_full_resamples(n):
    x = np.random.default_rng(n).normal(0.02, 0.3, n)
    theirs = stats.bootstrap(
        (x,), np.mean, n_resamples=2999, batch=50, rng=np.random.default_rng(8)
    )
    ours = bca_mean(x, np.random.default_rng(8), resamples=2999)
    assert (ours.low, ours.high) == pytest.approx(theirs.confidence_interval, rel=1e-12, abs=1e-14)


def test_ratio_gives_the_digits_of_scipy_for_the_same_seed():
    rng = np.random.default_rng(4)
    for seed in range(200):
        n = int(rng.integers(3, 80))
        below = rng.integers(1, 500, n).astype(float)
        above = below * rng.gamma(2.0, 1.0, n)
        theirs = stats.bootstrap(
            (above, below), _ratio, paired=True, n_resamples=149, rng=np.random.default_rng(seed)
        )
        ours = bca_ratio(above, below, np.random.default_rng(seed), resamples=149)
        assert ours.method == "bca"
        interval = theirs.confidence_interval
        assert (ours.low, ours.high) == pytest.approx(tuple(interval), rel=1e-11)
        assert ours.estimate == pytest.approx(above.sum() / below.sum())


def test_ratio_over_equal_weights_is_the_mean():
    x = np.random.default_rng(5).normal(1, 1, 60)
    mean = bca_mean(x, np.random.default_rng(6), resamples=499)
    ratio = bca_ratio(3 * x, np.full(60, 3.0), np.random.default_rng(6), resamples=499)
    assert (ratio.low, ratio.high) == pytest.approx((mean.low, mean.high), rel=1e-10)


@pytest.mark.parametrize("chunk_cells", [1, 7, 100, 333, 5000])
def test_the_size_of_chunks_changes_no_bit(chunk_cells):
    x = np.random.default_rng(7).random(37)
    weights = np.random.default_rng(8).integers(1, 9, 37)
    mean = bca_mean(x, np.random.default_rng(9), resamples=301)
    ratio = bca_ratio(x, weights, np.random.default_rng(9), resamples=301)
    chunked = {"resamples": 301, "chunk_cells": chunk_cells}
    assert bca_mean(x, np.random.default_rng(9), **chunked) == mean
    assert bca_ratio(x, weights, np.random.default_rng(9), **chunked) == ratio


def test_clusters_are_resampled_whole():
    values = np.array([1.0, 2.0, 3.0, 4.0, 10.0, 0.5])
    clusters = ["b", "a", "b", "a", "c", "c"]
    sums, sizes = cluster_totals(values, clusters)
    assert sums.tolist() == [6.0, 4.0, 10.5]
    assert sizes.tolist() == [2.0, 2.0, 2.0]
    whole = bca_clusters(values, clusters, np.random.default_rng(1), resamples=199)
    assert whole == bca_ratio(sums, sizes, np.random.default_rng(1), resamples=199)
    assert whole.units == 3


def test_clustering_widens_the_interval_of_items_that_move_together():
    rng = np.random.default_rng(10)
    clusters = np.repeat(np.arange(40), 10)
    values = rng.normal(size=40)[clusters] + 0.1 * rng.normal(size=400)
    alone = bca_mean(values, np.random.default_rng(1), resamples=999)
    together = bca_clusters(values, clusters, np.random.default_rng(1), resamples=999)
    assert together.high - together.low > 2.5 * (alone.high - alone.low)


@pytest.mark.parametrize("values", [[0.1] * 9, [0.0, 0.0], [5.0]])
def test_data_without_spread_give_a_point_and_a_reason(values):
    found = bca_mean(values, np.random.default_rng(0))
    assert found.low == found.high == found.estimate
    assert found.estimate == pytest.approx(values[0])
    assert found.method == "point"
    assert found.reason


def test_ratios_without_spread_give_a_point_and_a_reason():
    below = np.array([3.0, 7.0, 11.0])
    found = bca_ratio(0.1 * below, below, np.random.default_rng(0))
    assert (found.method, found.low, found.high) == ("point", found.estimate, found.estimate)


def test_resamples_on_one_side_fall_back_to_percentiles_and_say_so():
    x = [0.0] * 200 + [1.0]
    found = None
    for seed in range(200):
        found = bca_mean(x, np.random.default_rng(seed), resamples=2)
        if found.method == "percentile":
            break
    assert found is not None
    assert found.method == "percentile"
    assert found.reason == "the resamples are too lopsided for BCa"
    assert math.isfinite(found.low)
    assert found.low <= found.high


def test_memory_stays_bounded():
    x = np.random.default_rng(0).random(20_000)
    tracemalloc.start()
    bca_mean(x, np.random.default_rng(0), resamples=400)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 16e6


def test_coverage_of_a_skewed_mean_is_near_its_level():
    rng = np.random.default_rng(11)
    hits = 0
    for seed in range(400):
        found = bca_mean(rng.exponential(size=80), np.random.default_rng(seed), resamples=399)
        hits += found.low <= 1 <= found.high
    assert 0.90 <= hits / 400 <= 0.98


@pytest.mark.parametrize(
    "call",
    [
        lambda rng: bca_mean([], rng),
        lambda rng: bca_mean([1.0, math.nan], rng),
        lambda rng: bca_mean([1.0, 2.0], rng, level=1.0),
        lambda rng: bca_mean([1.0, 2.0], rng, resamples=1),
        lambda rng: bca_ratio([1.0, 2.0], [1.0], rng),
        lambda rng: bca_ratio([1.0, 2.0], [1.0, 0.0], rng),
        lambda rng: bca_clusters([1.0, 2.0], ["a"], rng),
    ],
)
def test_impossible_input_is_refused(call):
    with pytest.raises(InvalidValueError):
        call(np.random.default_rng(0))
