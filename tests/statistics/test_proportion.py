from __future__ import annotations

import math

import pytest
import scipy
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.proportion import proportion_confint

from gatemark.core.errors import InvalidValueError
from gatemark.statistics.proportion import clopper_pearson_interval, two_sided_z, wilson_interval

SIZES = (1, 2, 3, 10, 63, 400)
LEVELS = (0.5, 0.9, 0.95, 0.999)


@st.composite
def counts(draw: st.DrawFn) -> tuple[int, int]:
    n = draw(st.integers(1, 10**9))
    return draw(st.integers(0, n)), n


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("n", SIZES)
def test_wilson_equals_statsmodels(n: int, level: float) -> None:
    for k in range(n + 1):
        expected = proportion_confint(k, n, alpha=1 - level, method="wilson")
        assert wilson_interval(k, n, level) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("n", SIZES)
def test_clopper_pearson_equals_statsmodels(n: int, level: float) -> None:
    for k in range(n + 1):
        expected = proportion_confint(k, n, alpha=1 - level, method="beta")
        assert clopper_pearson_interval(k, n, level) == pytest.approx(expected, abs=1e-11)


def test_no_failure_in_n_trials_leaves_about_three_over_n() -> None:
    # One-sided 95 % is two-sided 90 %: 1 - 0.05 ** (1 / 100).
    low, high = clopper_pearson_interval(0, 100, 0.90)
    assert low == 0.0
    assert high == pytest.approx(1 - 0.05**0.01, abs=1e-12)


def test_wilson_of_eight_in_ten_by_hand() -> None:
    z = 1.959963984540054
    centre = (0.8 + z * z / 20) / (1 + z * z / 10)
    half_width = z * math.sqrt(0.016 + z * z / 400) / (1 + z * z / 10)
    assert wilson_interval(8, 10) == pytest.approx(
        (centre - half_width, centre + half_width), abs=1e-14
    )


@given(counts(), st.floats(0.01, 0.999))
@settings(deadline=None, max_examples=200)
def test_both_intervals_hold_the_share_and_stay_inside_zero_and_one(
    count: tuple[int, int], level: float
) -> None:
    k, n = count
    for interval in (wilson_interval, clopper_pearson_interval):
        low, high = interval(k, n, level)
        assert 0 <= low <= k / n + 1e-12
        assert k / n - 1e-12 <= high <= 1


@given(counts())
@settings(deadline=None, max_examples=100)
def test_swapping_successes_and_failures_mirrors_wilson(count: tuple[int, int]) -> None:
    k, n = count
    low, high = wilson_interval(k, n)
    assert wilson_interval(n - k, n) == pytest.approx((1 - high, 1 - low), abs=1e-12)


@pytest.mark.parametrize("interval", [wilson_interval, clopper_pearson_interval])
@pytest.mark.parametrize(("k", "n"), [(0, 0), (1, 0), (-1, 5), (6, 5), (0, -3)])
def test_impossible_counts_are_refused(interval: object, k: int, n: int) -> None:
    with pytest.raises(InvalidValueError, match="a proportion needs"):
        interval(k, n, 0.95)  # type: ignore[operator]


@pytest.mark.parametrize("level", [0.0, 1.0, -0.5, 95.0, math.nan])
def test_a_level_outside_zero_and_one_is_refused(level: float) -> None:
    for call in (
        lambda: wilson_interval(1, 2, level),
        lambda: clopper_pearson_interval(1, 2, level),
    ):
        with pytest.raises(InvalidValueError, match="level must be inside"):
            call()
    with pytest.raises(InvalidValueError, match="level must be inside"):
        two_sided_z(level)


def test_the_quantile_that_is_not_loaded_from_scipy_is_scipys() -> None:
    assert two_sided_z(0.95) == float(scipy.special.ndtri((1 + 0.95) / 2))
    assert two_sided_z(0.9) == float(scipy.special.ndtri((1 + 0.9) / 2))
