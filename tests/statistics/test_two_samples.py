from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.stats.contingency import association

from gatemark.core.errors import InvalidValueError
from gatemark.statistics.two_samples import (
    balanced_v_each,
    chi_square_each,
    chi_square_p_each,
    compare_two_samples,
)


def rng() -> np.random.Generator:
    return np.random.default_rng(9)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.integers(100, 500), min_size=2, max_size=6),
    st.lists(st.integers(100, 500), min_size=6, max_size=6),
)
def test_well_filled_tables_get_scipys_uncorrected_chi_square(
    current: list[int], other: list[int]
) -> None:
    baseline = other[: len(current)]
    table = np.asarray([current, baseline])
    expected = stats.chi2_contingency(table, correction=False)
    found = compare_two_samples(current, baseline, rng())
    assert found.method == "chi_square"
    assert found.statistic == pytest.approx(expected.statistic, abs=1e-9)
    assert found.p_value == pytest.approx(expected.pvalue)
    assert found.df == expected.dof
    assert found.cramers_v == pytest.approx(association(table, method="cramer"), abs=1e-6)


def test_two_classes_with_few_items_get_fishers_exact_test() -> None:
    found = compare_two_samples([6, 194], [0, 2800], rng())
    assert found.method == "fisher"
    assert found.p_value == pytest.approx(stats.fisher_exact([[6, 194], [0, 2800]]).pvalue)


def test_more_classes_with_few_items_are_simulated_close_to_scipys_simulation() -> None:
    current, baseline = [3, 1, 4, 0], [120, 20, 8, 2]
    method = stats.MonteCarloMethod(n_resamples=9999, rng=rng())
    expected = stats.chi2_contingency([current, baseline], correction=False, method=method)
    found = compare_two_samples(current, baseline, rng())
    assert found.method == "monte_carlo"
    assert found.p_value == pytest.approx(expected.pvalue, abs=0.005)
    assert found.p_value == compare_two_samples(current, baseline, rng()).p_value


def test_a_simulated_p_value_is_never_zero() -> None:
    found = compare_two_samples([0, 0, 40], [50, 50, 0], rng(), tables=99)
    assert found.p_value == 0.01 or found.method == "chi_square"
    assert compare_two_samples([0, 0, 4], [50, 50, 0], rng(), tables=99).p_value == pytest.approx(
        0.01
    )


@pytest.mark.parametrize(
    ("current", "baseline"), [([5, 0], [70, 0]), ([0, 0, 0], [3, 4, 5]), ([], []), ([4], [9])]
)
def test_what_has_nothing_to_differ_in_does_not_differ(
    current: list[int], baseline: list[int]
) -> None:
    found = compare_two_samples(np.asarray(current, float), np.asarray(baseline, float), rng())
    assert (found.statistic, found.df, found.p_value, found.cramers_v) == (0, 0, 1, 0)


def test_classes_that_nobody_has_change_nothing() -> None:
    plain = compare_two_samples([30, 40], [50, 60], rng())
    padded = compare_two_samples([30, 0, 40], [50, 0, 60], rng())
    assert padded == plain


def test_many_tables_at_once_are_the_same_tables() -> None:
    current = rng().integers(5, 60, (8, 5)).astype(float)
    baseline = rng().integers(50, 600, (8, 5)).astype(float)
    statistic, df, v, _ = chi_square_each(current, baseline)
    p_values = chi_square_p_each(statistic, df)
    for row in range(8):
        alone = compare_two_samples(current[row], baseline[row], rng())
        assert (alone.statistic, alone.cramers_v) == pytest.approx((statistic[row], v[row]))
        if alone.method == "chi_square":
            assert alone.p_value == pytest.approx(p_values[row])


def test_rows_of_different_lengths_or_negative_counts_are_refused() -> None:
    for current, baseline in (([1, 2], [1, 2, 3]), ([-1, 2], [1, 2])):
        with pytest.raises(InvalidValueError, match="two rows of counts"):
            compare_two_samples(current, baseline, rng())


def test_the_balanced_effect_is_cramers_v_of_rows_brought_to_one_size() -> None:
    current, baseline = np.asarray([5.0, 45, 50]), np.asarray([800.0, 700, 500])
    table = np.stack([current * 20, baseline])
    expected = association(table.astype(int), method="cramer")
    assert float(balanced_v_each(current, baseline)) == pytest.approx(expected)
    assert float(balanced_v_each(np.zeros(3), baseline)) == 0
