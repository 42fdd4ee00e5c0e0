from __future__ import annotations

import numpy as np
import pytest
import statsmodels.api as sm
from scipy import stats

from gatemark.core.errors import InvalidValueError
from gatemark.statistics.clustered_means import mean_estimate


def test_the_error_is_the_widened_sandwich_of_statsmodels():
    rng = np.random.default_rng(1)
    for _ in range(200):
        n = int(rng.integers(4, 80))
        clusters = rng.integers(0, max(2, n // 3), n)
        if len(set(clusters.tolist())) < 2:
            continue
        d = rng.normal(size=n) + 0.5 * clusters
        fit = sm.OLS(d, np.ones(n)).fit(
            cov_type="cluster", cov_kwds={"groups": clusters, "use_correction": False}
        )
        found = mean_estimate(d, clusters)
        assert found.mean == pytest.approx(fit.params[0])
        widened = fit.bse[0] * np.sqrt(found.clusters / (found.clusters - 1))
        assert found.error == pytest.approx(widened, rel=1e-9)


def test_lone_items_give_the_paired_t_test():
    rng = np.random.default_rng(2)
    for _ in range(200):
        n = int(rng.integers(2, 60))
        d = rng.normal(0.2, 1, n)
        found = mean_estimate(d)
        theirs = stats.ttest_1samp(d, 0.0)
        assert found.error == pytest.approx(stats.sem(d), rel=1e-12)
        assert found.p_value() == pytest.approx(theirs.pvalue, rel=1e-9)
        assert found.bounds(0.025) == pytest.approx(
            tuple(theirs.confidence_interval(0.95)), rel=1e-9, abs=1e-12
        )


def test_clusters_of_one_size_give_the_t_test_on_their_means():
    rng = np.random.default_rng(3)
    clusters = np.repeat(np.arange(9), 5)
    d = rng.normal(size=9)[clusters] + rng.normal(size=45)
    theirs = stats.ttest_1samp(d.reshape(9, 5).mean(axis=1), 0.0)
    found = mean_estimate(d, clusters)
    assert found.p_value() == pytest.approx(theirs.pvalue, rel=1e-9)
    assert found.bounds(0.05) == pytest.approx(tuple(theirs.confidence_interval(0.9)), rel=1e-9)


def test_items_that_move_together_have_a_larger_error_than_lone_ones():
    rng = np.random.default_rng(4)
    clusters = np.repeat(np.arange(30), 10)
    d = 0.3 * rng.normal(size=30)[clusters] + 0.3 * rng.normal(size=300)
    found = mean_estimate(d, clusters)
    assert found.error > 1.4 * stats.sem(d)


def test_names_of_clusters_do_not_matter():
    d = [0.1, 0.4, -0.2, 0.9, 0.3]
    by_name = mean_estimate(d, ["x", "y", "x", "z", "y"])
    by_code = mean_estimate(d, [7, 3, 7, 1, 3])
    assert by_name.error == pytest.approx(by_code.error, rel=1e-12)


def test_one_item_or_one_cluster_has_no_error():
    assert mean_estimate([0.5]).error is None
    together = mean_estimate([0.5, 0.7], ["a", "a"])
    assert together.error is None
    assert together.bounds(0.05) is None
    assert together.p_value() is None


def test_equal_deltas_have_no_spread_and_no_p_value():
    found = mean_estimate([0.1] * 7)
    assert (found.mean, found.error) == (0.1, 0.0)
    assert found.bounds(0.05) == (0.1, 0.1)
    assert found.p_value() is None


def test_bad_input_is_refused():
    with pytest.raises(InvalidValueError):
        mean_estimate([])
    with pytest.raises(InvalidValueError):
        mean_estimate([1.0, 2.0], ["a"])
    with pytest.raises(InvalidValueError):
        mean_estimate([1.0, 2.0]).bounds(0.0)
