from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chi2_contingency, fisher_exact

from gatemark.core.errors import InvalidValueError
from gatemark.statistics.homogeneity import assess_homogeneity, largest_shift


def test_large_tables_are_scipys_chi_square() -> None:
    table = [[40, 60, 25], [50, 45, 30], [38, 70, 22]]
    ours = assess_homogeneity(table, np.random.default_rng(1))
    theirs = chi2_contingency(table, correction=False)
    assert ours.method == "chi_square"
    assert ours.dof == theirs.dof
    assert ours.statistic == pytest.approx(theirs.statistic)
    assert ours.p_value == pytest.approx(theirs.pvalue)


def test_small_tables_are_dealt_anew() -> None:
    table = [[7, 1], [2, 8]]
    ours = assess_homogeneity(table, np.random.default_rng(1))
    assert ours.method == "monte_carlo"
    assert ours.p_value == pytest.approx(fisher_exact(table).pvalue, abs=0.01)


def test_random_tables_keep_the_nominal_level() -> None:
    rng = np.random.default_rng(5)
    shares = [0.02, 0.05, 0.13, 0.5, 0.3]
    rejected = sum(
        assess_homogeneity(rng.multinomial(36, shares, size=3), rng).p_value <= 0.05
        for _ in range(200)
    )
    assert rejected <= 20


def test_equal_runs_do_not_shift_and_one_class_cannot() -> None:
    assert largest_shift([[3, 7], [30, 70]]) == pytest.approx(0.0)
    assert assess_homogeneity([[5, 0], [9, 0]], np.random.default_rng(1)).p_value == 1.0


def test_a_shift_is_the_share_that_changed_class() -> None:
    assert largest_shift([[10, 0], [10, 0], [7, 3]]) == pytest.approx(0.3)


@pytest.mark.parametrize("table", [[[1, 2]], [[1, 2], [0, 0]], [[1, -1], [2, 2]], [1, 2]])
def test_what_cannot_be_compared_is_refused(table: list[object]) -> None:
    with pytest.raises(InvalidValueError):
        largest_shift(table)
