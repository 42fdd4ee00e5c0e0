from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from scipy import stats

from gatemark.core.errors import InvalidValueError
from gatemark.statistics.paired.permutation import GROUP, _draw_subset_sums, sign_flip
from gatemark.statistics.significance import mcnemar_test


def _rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_small_samples_match_a_count_by_hand():
    rng = np.random.default_rng(1)
    for _ in range(200):
        d = np.round(rng.normal(0.2, 1, int(rng.integers(1, 9))), 1)
        flips = [
            abs(sum(s * x for s, x in zip(signs, d, strict=True)))
            for signs in product((-1, 1), repeat=d.size)
        ]
        share = sum(f >= abs(d.sum()) - 1e-9 for f in flips) / len(flips)
        assert sign_flip(d, _rng()).p_value == pytest.approx(share)


def test_exact_p_is_that_of_scipy():
    rng = np.random.default_rng(2)
    for _ in range(20):
        d = rng.normal(0.3, 1, int(rng.integers(5, 13)))
        theirs = stats.permutation_test(
            (d,), lambda x, axis: x.mean(axis=axis), permutation_type="samples", n_resamples=np.inf
        )
        found = sign_flip(d, _rng())
        assert found.method == "exact"
        assert found.p_value == pytest.approx(theirs.pvalue, rel=1e-9)


def test_sixteen_are_enumerated_and_seventeen_are_drawn():
    d = np.random.default_rng(3).normal(0.4, 1, 17)
    assert sign_flip(d[:16], _rng()).method == "exact"
    assert sign_flip(d, _rng()).method == "monte_carlo"


def test_drawn_p_is_near_the_exact_one():
    d = np.random.default_rng(4).normal(0.35, 1, 18)
    words = ((np.arange(2**18)[:, None] >> np.arange(18)) & 1) * 2 - 1
    exact = np.mean(np.abs(words @ d) >= abs(d.sum()) - 1e-9)
    found = sign_flip(d, _rng(5), resamples=20_000)
    assert found.p_value == pytest.approx(exact, abs=4 * math.sqrt(exact * (1 - exact) / 20_000))


def test_zero_deltas_change_nothing():
    d = np.array([0.3, -0.1, 0.7, 0.2])
    padded = np.concatenate([d, np.zeros(500)])
    assert sign_flip(padded, _rng()).p_value == sign_flip(d, _rng()).p_value


def test_right_or_wrong_deltas_give_the_exact_mcnemar_test():
    d = [1.0] * 30 + [-1.0] * 14 + [0.0] * 100
    found = sign_flip(d, _rng())
    assert found.p_value == mcnemar_test(14, 30).p_value
    assert (found.method, found.resamples) == ("binomial", 0)


def test_nothing_changed_gives_one_and_says_why():
    found = sign_flip([0.0, 0.0], _rng())
    assert (found.p_value, found.note) == (1.0, "no item changed")


@pytest.mark.parametrize("n", [GROUP + 5, 2 * GROUP, 700])
def test_signs_are_drawn_fairly_and_apart_from_each_other(n):
    d = np.random.default_rng(6).normal(0, 1, n)
    flipped = 2 * _draw_subset_sums(d, _rng(7), 4000) - d.sum()
    plain = np.random.default_rng(8).choice([-1.0, 1.0], (4000, n)) @ d
    assert stats.ks_2samp(flipped, plain).pvalue > 1e-3
    assert flipped.var() == pytest.approx((d**2).sum(), rel=0.1)


def test_one_seed_gives_one_p_value():
    d = np.random.default_rng(6).normal(0.1, 1, 70)
    assert sign_flip(d, _rng(7), resamples=999) == sign_flip(d, _rng(7), resamples=999)


def test_the_drawn_p_of_many_deltas_is_near_the_normal_one():
    d = np.random.default_rng(10).normal(0.035, 1, 3000)
    expected = 2 * stats.norm.sf(abs(d.sum()) / math.sqrt((d**2).sum()))
    found = sign_flip(d, _rng(11), resamples=9_999)
    assert found.p_value == pytest.approx(expected, abs=5 * math.sqrt(expected / 9_999))


def test_an_extreme_delta_never_gets_p_zero():
    d = np.linspace(1, 2, 40)
    assert sign_flip(d, _rng(), resamples=99).p_value == 0.01


def test_equal_models_are_called_different_at_most_at_the_level():
    rng = np.random.default_rng(8)
    hits = sum(
        sign_flip(rng.standard_t(3, 30), _rng(seed), resamples=199).p_value <= 0.05
        for seed in range(600)
    )
    assert hits / 600 <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 600)


def test_broken_numbers_are_refused():
    with pytest.raises(InvalidValueError):
        sign_flip([1.0, math.inf], _rng())
    with pytest.raises(InvalidValueError):
        sign_flip([1.0], _rng(), resamples=0)
