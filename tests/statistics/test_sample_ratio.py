from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import integrate, stats

from gatemark.core.errors import InvalidValueError
from gatemark.statistics.sequential import sample_ratio


@pytest.mark.parametrize(
    ("canary", "baseline", "share"), [(30, 50, 0.5), (7, 90, 0.1), (0, 9, 0.5)]
)
def test_the_numbers_are_those_of_scipy(canary: int, baseline: int, share: float) -> None:
    found = sample_ratio(canary, baseline, share)
    total = canary + baseline
    expected = stats.chisquare([canary, baseline], [total * share, total * (1 - share)])
    assert found.p_value == pytest.approx(expected.pvalue)
    mixed, _ = integrate.quad(lambda p: p**canary * (1 - p) ** baseline, 0, 1)
    plain = share**canary * (1 - share) ** baseline
    assert found.log_e_value == pytest.approx(math.log(mixed / plain), rel=1e-6)


def test_no_traffic_is_no_evidence() -> None:
    assert sample_ratio(0, 0).log_e_value == 0
    assert sample_ratio(0, 0).p_value == 1


@pytest.mark.parametrize("arguments", [(-1, 2, 0.5), (1, 2, 0.0), (1, 2, 1.0)])
def test_impossible_counts_and_shares_are_refused(arguments: tuple[int, int, float]) -> None:
    with pytest.raises(InvalidValueError):
        sample_ratio(*arguments)


def test_an_even_split_is_rarely_accused_however_often_one_looks() -> None:
    rng = np.random.default_rng(11)
    alpha, rollouts, looks = 0.05, 1000, 50
    canary = rng.binomial(200, 0.5, size=(rollouts, looks)).cumsum(axis=1)
    total = 200 * np.arange(1, looks + 1)
    accused = sum(
        any(
            sample_ratio(int(c), int(t - c)).log_e_value >= -math.log(alpha)
            for c, t in zip(row, total, strict=True)
        )
        for row in canary
    )
    # Four standard errors above alpha.
    assert accused / rollouts < 0.078


def test_a_wrong_split_is_seen() -> None:
    assert sample_ratio(560, 440).log_e_value > math.log(10)
    assert sample_ratio(5600, 4400).log_e_value > math.log(1000)
    assert sample_ratio(5020, 4980).log_e_value < 0
