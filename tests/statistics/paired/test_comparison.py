from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from gatemark.statistics.clustered_means import mean_estimate
from gatemark.statistics.paired import comparison
from gatemark.statistics.paired.comparison import compare_clusters, compare_counts, compare_deltas
from gatemark.statistics.resampling.bootstrap import bca_clusters, bca_mean
from gatemark.statistics.significance import mcnemar_test, minimum_detectable_effect


def test_right_or_wrong_answers_get_mcnemar_and_an_interval_that_agrees():
    for lost, gained in ((14, 5), (5, 14), (4, 4), (20, 3), (0, 9)):
        found = compare_counts(lost, gained, 200)
        assert found.delta == (gained - lost) / 200
        assert found.p_value == mcnemar_test(lost, gained).p_value
        assert found.mde == minimum_detectable_effect(200, (lost + gained) / 200)
        zero_is_outside = not found.interval.low <= 0 <= found.interval.high
        assert zero_is_outside == (found.p_value <= 0.05)


def test_nothing_discordant_still_has_an_interval_and_an_effect():
    found = compare_counts(0, 0, 100)
    assert (found.delta, found.p_value) == (0.0, 1.0)
    assert found.interval.low < 0 < found.interval.high
    assert found.mde == minimum_detectable_effect(100, 1 / 102)
    assert found.caveats == ("no discordant items",)


def test_graded_scores_get_bca_and_sign_flips_with_t_beside():
    d = np.random.default_rng(1).normal(0.05, 0.2, 120)
    found = compare_deltas(d, np.random.default_rng(2), resamples=499)
    boot = bca_mean(d, np.random.default_rng(2), resamples=499)
    assert (found.interval.low, found.interval.high) == (boot.low, boot.high)
    assert found.interval.method == "bca"
    assert [i.method for i in found.other_intervals] == ["t"]
    assert found.p_value == pytest.approx(stats.ttest_1samp(d, 0).pvalue, abs=0.03)
    assert found.mid_p_value is None


def test_equal_deltas_get_a_point_and_a_caveat():
    found = compare_deltas([0.25] * 6, np.random.default_rng(0))
    assert (found.interval.low, found.interval.high) == (0.25, 0.25)
    assert found.mde is None
    assert found.caveats == ("all units are equal, so resampling shows no spread",)


def test_too_many_items_to_resample_get_t(monkeypatch):
    monkeypatch.setattr(comparison, "MAX_DRAWN_CELLS", 1000)
    d = np.random.default_rng(3).normal(0.05, 0.2, 120)
    found = compare_deltas(d, np.random.default_rng(0), resamples=499)
    assert found.interval.method == "t"
    assert found.p_value == pytest.approx(stats.ttest_1samp(d, 0).pvalue)
    assert "too many to resample" in found.caveats[0]
    clusters = np.arange(120) // 4
    assert compare_clusters(d, clusters, np.random.default_rng(0)).other_intervals == ()


def test_clusters_get_a_robust_t_with_bca_over_clusters_beside():
    rng = np.random.default_rng(4)
    clusters = np.repeat(np.arange(25), 4)
    d = rng.normal(0.1, 0.3, 25)[clusters] + rng.normal(0, 0.1, 100)
    found = compare_clusters(d, clusters, np.random.default_rng(5), resamples=499)
    estimate = mean_estimate(d, clusters)
    boot = bca_clusters(d, clusters, np.random.default_rng(5), resamples=499)
    assert (found.interval.low, found.interval.high) == pytest.approx(estimate.bounds(0.025))
    assert found.p_value == estimate.p_value()
    assert found.other_intervals[0].low == boot.low
    assert found.other_intervals[0].method == "bca over clusters"


def test_one_cluster_has_a_delta_and_nothing_else():
    found = compare_clusters([0.1, 0.2], ["a", "a"], np.random.default_rng(0))
    assert found.delta == pytest.approx(0.15)
    assert (found.interval, found.p_value, found.mde) == (None, None, None)
    assert found.caveats == ("one cluster shows no spread, so the delta has no interval",)


def test_alpha_sets_the_level_of_intervals_and_the_detectable_effect():
    d = np.random.default_rng(1).normal(0.05, 0.2, 40)
    clusters = np.arange(40) // 4
    rng = np.random.default_rng
    for compare in (
        lambda alpha: compare_counts(9, 3, 60, alpha=alpha),
        lambda alpha: compare_deltas(d, rng(2), resamples=999, alpha=alpha),
        lambda alpha: compare_clusters(d, clusters, rng(2), resamples=999, alpha=alpha),
    ):
        loose, strict = compare(0.1), compare(0.01)
        assert (loose.interval.level, strict.interval.level) == (0.9, 0.99)
        assert strict.interval.low < loose.interval.low < loose.interval.high < strict.interval.high
        assert all(other.level == 0.99 for other in strict.other_intervals)
        assert strict.mde > loose.mde
        assert strict.p_value == loose.p_value
