from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from gatemark.statistics.resampling.bounded_mean import share_below_zero


@pytest.mark.parametrize(("above", "below"), [(1, 1), (3, 5), (40, 25), (2000, 2100)])
@pytest.mark.parametrize("ratio", [0.3, 0.9, 1.0, 1.1, 4.0])
def test_two_weights_give_the_law_of_the_f_distribution(
    above: int, below: int, ratio: float
) -> None:
    weights = np.r_[np.full(above, 1.0), np.full(below, -ratio)]
    exact = stats.f(2 * above, 2 * below).cdf(ratio * below / above)
    assert share_below_zero(weights) == pytest.approx(exact, rel=0.06, abs=1e-12)
    if min(above, below) > 20:
        assert share_below_zero(weights) == pytest.approx(exact, rel=1e-3, abs=1e-12)


@pytest.mark.parametrize(
    ("weights", "share"), [([1.0, 0.0], 0.0), ([-1.0, 0.0], 1.0), ([0.0], 1.0), ([2.0], 0.0)]
)
def test_weights_of_one_sign_leave_no_doubt(weights: list[float], share: float) -> None:
    assert share_below_zero(np.array(weights)) == share


def test_there_is_no_gap_where_the_mean_is_zero() -> None:
    steps = [
        share_below_zero(np.r_[np.full(50, 1.0), np.full(50, -1.0 - shift)])
        for shift in np.linspace(-1e-3, 1e-3, 41)
    ]
    assert bool((np.diff(steps) > 0).all())
    assert steps[20] == pytest.approx(0.5)
