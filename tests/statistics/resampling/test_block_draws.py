from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from scipy import stats

from gatemark.statistics.resampling.bootstrap import (
    BLOCK,
    MANY_UNITS,
    STREAMS,
    bca_mean,
    bca_ratio,
    means_by_blocks,
    ratios_by_blocks,
)

N = 2 * BLOCK + 3


@pytest.mark.parametrize("unit", [0, BLOCK, N - 1])
def test_every_unit_is_drawn_as_often_as_in_a_plain_resample(unit: int) -> None:
    marked = np.zeros(N)
    marked[unit] = 1.0
    counts = ratios_by_blocks(marked, np.ones(N), np.random.default_rng(unit), 1_000) * N
    assert counts == pytest.approx(np.rint(counts), abs=1e-9)
    seen = np.bincount(np.minimum(np.rint(counts).astype(int), 4), minlength=5)
    law = stats.binom(N, 1 / N)
    expected = np.array([*(law.pmf(k) for k in range(4)), law.sf(3)]) * 1_000
    assert stats.chisquare(seen, expected).pvalue > 1e-3


def test_each_resample_draws_as_many_units_as_there_are() -> None:
    ones = ratios_by_blocks(np.ones(N), np.ones(N), np.random.default_rng(0), 50)
    assert ones == pytest.approx(np.ones(50), abs=1e-12)


def test_units_are_drawn_independently_of_each_other() -> None:
    marked = np.zeros(N)
    marked[::2] = 1.0
    shares = ratios_by_blocks(marked, np.ones(N), np.random.default_rng(4), 1_000)
    p = marked.mean()
    standard = (shares - p) / np.sqrt(p * (1 - p) / N)
    assert stats.kstest(standard, "norm").pvalue > 1e-3


def test_many_units_have_the_interval_of_plain_resampling() -> None:
    n = MANY_UNITS + 77
    rng = np.random.default_rng(1)
    below = rng.integers(50, 500, n).astype(float)
    above = below * rng.gamma(2.0, 0.01, n)
    found = bca_ratio(above, below, np.random.default_rng(2), resamples=999)
    again = bca_ratio(above, below, np.random.default_rng(2), resamples=999)
    residuals = above - found.estimate * below
    error = np.sqrt((residuals**2).sum()) / below.sum()
    assert found == again
    assert (found.method, found.units, found.resamples) == ("bca", n, 999)
    assert found.standard_error == pytest.approx(error, rel=0.08)
    assert found.low == pytest.approx(found.estimate - 1.96 * error, abs=0.3 * error)
    assert found.high == pytest.approx(found.estimate + 1.96 * error, abs=0.3 * error)


def test_a_mean_of_many_units_has_the_interval_of_scipy_within_the_noise_of_drawing() -> None:
    n = MANY_UNITS + 77
    x = np.random.default_rng(1).gamma(0.3, 1.0, n)
    found = bca_mean(x, np.random.default_rng(2), resamples=1_999)
    theirs = stats.bootstrap(
        (x,),
        np.mean,
        n_resamples=1_999,
        method="percentile",
        batch=10,
        rng=np.random.default_rng(3),
    )
    error = float(theirs.standard_error)
    assert found.method == "bca"
    assert found.standard_error == pytest.approx(error, rel=0.08)
    assert found.low == pytest.approx(theirs.confidence_interval.low, abs=0.2 * error)
    assert found.high == pytest.approx(theirs.confidence_interval.high, abs=0.2 * error)
    assert (
        stats.ks_2samp(
            means_by_blocks(x, np.random.default_rng(4), 1_999), theirs.bootstrap_distribution
        ).pvalue
        > 1e-3
    )


def test_a_mean_is_the_ratio_to_ones_of_the_same_draws() -> None:
    x = np.random.default_rng(7).random(N)
    means = means_by_blocks(x, np.random.default_rng(8), 20)
    ratios = ratios_by_blocks(x, np.ones(N), np.random.default_rng(8), 20)
    assert means == pytest.approx(ratios, rel=1e-12)


@pytest.mark.parametrize("resamples", [1, STREAMS - 1, STREAMS, 101])
def test_every_resample_is_drawn_once_whatever_the_streams(resamples: int) -> None:
    means = means_by_blocks(np.random.default_rng(9).random(N), np.random.default_rng(0), resamples)
    assert np.unique(means).size == resamples
    assert bool((np.abs(means - 0.5) < 0.05).all())


def test_one_unit_below_many_still_has_the_digits_of_scipys_stream() -> None:
    n = MANY_UNITS - 1
    x = np.random.default_rng(5).random(n)
    found = bca_ratio(x, np.ones(n), np.random.default_rng(6), resamples=5)
    drawn = np.random.default_rng(6).integers(0, n, (5, n))
    means = x[drawn].mean(axis=1)
    assert found.standard_error == pytest.approx(means.std(ddof=1), rel=1e-9)


def test_memory_does_not_grow_with_resamples() -> None:
    """How many streams meet at their peaks is chance, so each may take all that one needs."""
    x = np.random.default_rng(0).random(100_000)
    resamples = 80 * STREAMS
    tracemalloc.start()
    ratios_by_blocks(x, np.ones(x.size), np.random.default_rng(0), resamples)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < STREAMS * 12e6 < resamples * x.nbytes / 4
