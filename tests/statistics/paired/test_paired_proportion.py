from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
from scipy.special import betaincinv, gammaln
from scipy.stats import binom

from gatemark.core.errors import InvalidValueError
from gatemark.statistics.significance import drop_bounds


def test_no_discordant_item_gives_three_over_n():
    for n in (30, 150, 1000):
        lower, upper = drop_bounds(0, 0, n)
        assert upper == pytest.approx(1 - 0.05 ** (1 / n), rel=1e-12)
        assert upper == pytest.approx(3 / n, rel=0.06)
        assert lower == -upper


def test_losses_alone_give_the_clopper_pearson_bound():
    assert drop_bounds(4, 0, 90)[1] == pytest.approx(betaincinv(5, 86, 0.95), rel=1e-12)
    assert drop_bounds(7, 0, 7)[1] == 1.0


def _loss_p_value(lost: int, gained: int) -> float:
    """The one-sided exact p-value of "more was lost than gained"."""
    return float(binom.cdf(gained, lost + gained, 0.5))


def test_bounds_agree_with_the_exact_mcnemar_test_about_zero():
    rng = np.random.default_rng(1)
    for _ in range(250):
        lost, gained = (int(x) for x in rng.integers(0, 25, 2))
        n = lost + gained + int(rng.integers(1, 300))
        alpha = float(rng.choice([0.01, 0.025, 0.05, 0.1]))
        lower, upper = drop_bounds(lost, gained, n, one_sided_alpha=alpha)
        assert (lower > 0) == (_loss_p_value(lost, gained) <= alpha)
        assert (upper < 0) == (_loss_p_value(gained, lost) <= alpha)
        assert lower <= (lost - gained) / n <= upper


def test_bounds_are_those_of_a_simulated_confidence_distribution():
    rng = np.random.default_rng(2)
    for lost, gained, n in ((10, 3, 500), (3, 2, 10), (1, 9, 200), (40, 55, 1000), (5, 5, 10)):
        split = rng.beta(lost + 1, gained, 400_000)
        high_rate = (
            rng.beta(lost + gained + 1, n - lost - gained, 400_000)
            if (lost + gained < n)
            else np.ones(400_000)
        )
        low_rate = rng.beta(lost + gained, n - lost - gained + 1, 400_000)
        product = np.where(split > 0.5, high_rate, low_rate) * (2 * split - 1)
        upper = drop_bounds(lost, gained, n)[1]
        assert upper == pytest.approx(np.quantile(product, 0.95), abs=0.003)
        share_below = np.mean(product <= upper)
        assert share_below == pytest.approx(0.95, abs=0.002)


def test_swapping_the_models_mirrors_the_bounds():
    lower, upper = drop_bounds(9, 4, 80)
    assert drop_bounds(4, 9, 80) == (-upper, -lower)


@cache
def _upper(lost: int, gained: int, n: int) -> float:
    return drop_bounds(lost, gained, n)[1]


@pytest.mark.parametrize("n", [20, 60])
@pytest.mark.parametrize("margin", [0.05, 0.1])
@pytest.mark.parametrize("rate", [0.1, 0.15, 0.3])
def test_the_exact_chance_of_missing_the_truth_stays_below_alpha(n, margin, rate):
    worse, better = (rate + margin) / 2, (rate - margin) / 2
    missed = 0.0
    for lost in range(n + 1):
        for gained in range(n + 1 - lost):
            same = n - lost - gained
            log_p = gammaln(n + 1) - gammaln(lost + 1) - gammaln(gained + 1) - gammaln(same + 1)
            log_p += lost * math.log(worse) + gained * math.log(max(better, 1e-300))
            log_p += same * math.log1p(-rate)
            if log_p > -20 and _upper(lost, gained, n) <= margin:
                missed += math.exp(log_p)
    assert missed <= 0.05


@pytest.mark.parametrize("counts", [(-1, 0, 5), (0, -1, 5), (3, 3, 5), (0, 0, 0)])
def test_impossible_counts_are_refused(counts):
    with pytest.raises(InvalidValueError):
        drop_bounds(*counts)


def test_an_impossible_alpha_is_refused():
    with pytest.raises(InvalidValueError):
        drop_bounds(1, 1, 5, one_sided_alpha=0.5)
