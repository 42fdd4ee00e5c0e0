from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from gatemark.statistics.control_chart import (
    BaselineMoments,
    deviations_each,
    ewma_each,
    ewma_weights,
    mean_floor_each,
    moments_each,
    normal_scores,
    rate_floor_each,
)

ALL = np.ones((1, 14), dtype=bool)


def moments(values: list[float]) -> BaselineMoments:
    row = np.asarray([values])
    return moments_each(row, np.ones_like(row, dtype=bool))


def test_moments_are_those_of_numpy_over_the_cells_that_are_there() -> None:
    rng = np.random.default_rng(3)
    values, present = rng.normal(5, 2, (20, 14)), rng.random((20, 14)) < 0.7
    found = moments_each(np.where(present, values, np.nan), present)
    for row in range(20):
        kept = values[row][present[row]]
        assert found.windows[row] == kept.size
        assert found.mean[row] == pytest.approx(kept.mean())
        assert found.sd[row] == pytest.approx(kept.std(ddof=1))


@pytest.mark.parametrize("value", [0.9, 0.1, 1e9 / 3, 0.0, -7.7e-9])
def test_a_constant_baseline_has_a_spread_of_exactly_zero(value: float) -> None:
    assert moments([value] * 14).sd[0] == 0


def test_no_window_has_no_mean_and_one_window_has_no_spread() -> None:
    values = np.zeros((2, 3))
    found = moments_each(values, np.asarray([[False, False, False], [False, True, False]]))
    assert np.isnan(found.mean[0])
    assert found.mean[1] == 0
    assert np.isnan(found.sd).all()


def test_sigma_and_its_normal_score_are_those_of_students_t() -> None:
    rng = np.random.default_rng(4)
    values = rng.normal(0, 1, (50, 14))
    current = rng.normal(0, 4, 50)
    found = deviations_each(current, moments_each(values, np.ones_like(values, dtype=bool)))
    sigma = (current - values.mean(axis=1)) / values.std(axis=1, ddof=1)
    tail = 2 * stats.t.sf(np.abs(sigma) / np.sqrt(1 + 1 / 14), 13)
    assert found.sigma == pytest.approx(sigma)
    assert found.p_value == pytest.approx(tail)
    assert found.z == pytest.approx(np.sign(sigma) * stats.norm.isf(tail / 2))


@pytest.mark.parametrize(
    ("windows", "two", "three"),
    [(5, 3.14, 7.25), (7, 2.69, 5.24), (10, 2.43, 4.29), (14, 2.29, 3.82), (30, 2.12, 3.33)],
)
def test_small_baselines_need_a_larger_sigma_for_the_same_score(
    windows: int, two: float, three: float
) -> None:
    known = BaselineMoments(np.full(2, windows), np.zeros(2), np.ones(2))
    assert deviations_each(np.asarray([two, three]), known).z == pytest.approx([2, 3], abs=0.01)


def test_a_flat_baseline_says_zero_or_that_it_cannot_say() -> None:
    flat = moments_each(np.full((2, 14), 0.9), np.ones((2, 14), dtype=bool))
    found = deviations_each(np.asarray([0.9, 0.8]), flat)
    assert found.sigma[0] == found.z[0] == 0
    assert found.is_degenerate.tolist() == [False, True]
    assert np.isnan([found.sigma[1], found.z[1], found.p_value[1]]).all()
    mended = deviations_each(np.asarray([0.9, 0.8]), flat, np.full(2, 0.02))
    assert mended.sigma == pytest.approx([0, -5])
    assert not mended.is_degenerate.any()


@settings(deadline=None, max_examples=60)
@given(
    st.floats(-1e18, 1e18),
    st.lists(st.floats(-1e18, 1e18), min_size=2, max_size=14),
    st.sampled_from([None, 1e-9, 1.0]),
)
def test_no_finite_input_gives_an_infinite_answer(
    current: float, values: list[float], floor: float | None
) -> None:
    least = None if floor is None else np.asarray([floor])
    found = deviations_each(np.asarray([current]), moments(values), least)
    for part in (found.sigma, found.z, found.p_value, found.sd):
        assert not np.isinf(part).any()


@pytest.mark.parametrize("df", [1, 2, 13, 200])
def test_scores_go_on_where_tails_leave_floating_point(df: int) -> None:
    t = np.logspace(-3, 150, 400)
    z, p_value = normal_scores(t, np.asarray(float(df)))
    assert np.isfinite(z).all()
    assert (np.diff(z) >= 0).all()
    plain = t < 1e3
    expected = stats.t.sf(t[plain], df)
    kept = expected > 1e-200
    assert p_value[plain][kept] == pytest.approx(2 * expected[kept], rel=1e-9)
    assert z[plain][kept] == pytest.approx(stats.norm.isf(expected[kept]), rel=1e-6)


def test_the_floor_of_a_rate_is_its_sampling_noise() -> None:
    found = rate_floor_each(np.asarray([0.0]), np.asarray([2800.0]), *np.asarray([[6.0], [200.0]]))
    rate = 7 / 3002
    assert found[0] == pytest.approx((rate * (1 - rate) / 200) ** 0.5)
    assert found[0] > 0


def test_the_floor_of_a_mean_pools_the_spread_inside_windows() -> None:
    rng = np.random.default_rng(5)
    windows = [rng.normal(place, 3, size) for place, size in ((0, 40), (10, 60), (-4, 80))]
    items = np.asarray([[w.size for w in windows]], dtype=float)
    total = np.asarray([[w.sum() for w in windows]])
    squares = np.asarray([[(w**2).sum() for w in windows]])
    pooled = sum(((w - w.mean()) ** 2).sum() for w in windows) / (180 - 3)
    found = mean_floor_each(items, total, squares, np.asarray([25.0]))
    assert found[0] == pytest.approx((pooled / 25) ** 0.5)
    assert np.isnan(mean_floor_each(np.ones((1, 2)), *np.ones((2, 1, 2)), np.ones(1))[0])


def test_ewma_is_the_recursion_it_is_named_after() -> None:
    rng = np.random.default_rng(6)
    baseline, recent = rng.normal(2, 1, 14), rng.normal(3, 1, 8)
    known = moments(baseline.tolist())
    level = baseline.mean()
    for value in recent:
        level = 0.3 * value + 0.7 * level
    weights = ewma_weights(0.3, 8)
    spread = known.sd[0] * ((weights**2).sum() + weights.sum() ** 2 / 14) ** 0.5
    found = ewma_each(recent[None, :], np.ones((1, 8), dtype=bool), known, None, 0.3)
    assert found.sigma[0] == pytest.approx((level - baseline.mean()) / spread)


def test_ewma_stays_where_it_was_while_windows_are_missing() -> None:
    rng = np.random.default_rng(7)
    known = moments(rng.normal(0, 1, 14).tolist())
    recent = np.asarray([[1.0, 2.0, 0.0, 3.0]])
    gap = np.asarray([[True, True, False, True]])
    joined = np.asarray([[1.0, 2.0, 3.0]])
    left = ewma_each(recent, gap, known, None, 0.3)
    right = ewma_each(joined, np.ones((1, 3), dtype=bool), known, None, 0.3)
    assert left.sigma == pytest.approx(right.sigma)
