from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize, stats

from gatemark.core.errors import InvalidValueError
from gatemark.statistics.rank_shift import MAX_VALUES, MIN_VALUES, rank_shift


def p_value(sample: np.ndarray, reference: np.ndarray, shift: float) -> float:
    return float(
        stats.mannwhitneyu(
            sample - shift, reference, method="asymptotic", use_continuity=False
        ).pvalue
    )


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("level", [0.9, 0.98])
def test_the_interval_holds_what_the_test_does_not_reject(seed: int, level: float) -> None:
    rng = np.random.default_rng(seed)
    sample, reference = rng.lognormal(0.3, 1, 60), rng.lognormal(0, 1, 45)
    found = rank_shift(sample.tolist(), reference.tolist(), level)
    step = 1e-9
    assert p_value(sample, reference, found.low + step) >= 1 - level
    assert p_value(sample, reference, found.low - step) < 1 - level
    assert p_value(sample, reference, found.high - step) >= 1 - level
    assert p_value(sample, reference, found.high + step) < 1 - level


def test_the_estimate_is_where_the_test_sees_no_difference() -> None:
    rng = np.random.default_rng(9)
    sample, reference = rng.normal(3, 1, 50), rng.normal(1, 1, 70)
    found = rank_shift(sample.tolist(), reference.tolist(), 0.95)

    def surplus(shift: float) -> float:
        return float(stats.mannwhitneyu(sample - shift, reference).statistic) - 50 * 70 / 2

    root = optimize.brentq(surplus, 0, 5, xtol=1e-12)
    assert found.estimate == pytest.approx(root, abs=0.02)
    assert found.low < found.estimate < found.high


def test_equal_samples_have_no_shift() -> None:
    values = [float(at % 7) for at in range(40)]
    found = rank_shift(values, values, 0.98)
    assert found.estimate == 0
    assert found.low <= 0 <= found.high


def test_too_few_or_too_many_values_are_refused() -> None:
    enough = [1.0] * MIN_VALUES
    for bad in ([1.0] * (MIN_VALUES - 1), [1.0] * (MAX_VALUES + 1)):
        with pytest.raises(InvalidValueError, match="values per arm"):
            rank_shift(bad, enough, 0.95)
    with pytest.raises(InvalidValueError, match="level"):
        rank_shift(enough, enough, 1.0)


def test_the_interval_covers_as_often_as_it_says() -> None:
    rng = np.random.default_rng(10)
    covered = 0
    for _ in range(400):
        sample, reference = rng.normal(1, 1, 40), rng.normal(0, 1, 40)
        found = rank_shift(sample.tolist(), reference.tolist(), 0.9)
        covered += found.low <= 1 <= found.high
    # Four standard errors around 0.9.
    assert abs(covered / 400 - 0.9) < 0.06
