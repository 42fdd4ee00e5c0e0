from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from gatemark.statistics.change_point import CUTS, LEAST_BEFORE, find_shifts_each, remove_season


def judged(*values: float, floor: float | None = None) -> dict[str, float]:
    row = np.asarray([values], dtype=np.float64)
    least = None if floor is None else np.asarray([floor])
    found = find_shifts_each(row, np.ones(row.shape, dtype=bool), least)
    return {name: part[0] for name, part in found._asdict().items()}


def test_the_best_cut_is_the_two_sample_t_test_with_bonferronis_correction() -> None:
    rng = np.random.default_rng(4)
    values = rng.normal(0, 1, 40)
    values[-7:] += 1.5
    found = judged(*values)
    if found["correlation"] == 0:
        cuts = [cut for cut in CUTS if values.size - cut >= LEAST_BEFORE]
        tests = [stats.ttest_ind(values[-cut:], values[:-cut]) for cut in cuts]
        best = min(tests, key=lambda test: float(test.pvalue))
        assert found["p_value"] == pytest.approx(min(1, len(cuts) * best.pvalue))
        assert np.sign(found["z"]) == np.sign(best.statistic)
        after = cuts[tests.index(best)]
        assert found["windows"] == after
        assert found["moved"] == pytest.approx(values[-after:].mean() - values[:-after].mean())


def test_the_oracle_above_is_not_skipped() -> None:
    rng = np.random.default_rng(4)
    values = rng.normal(0, 1, 40)
    values[-7:] += 1.5
    assert judged(*values)["correlation"] == 0


def test_one_value_far_out_is_an_outlier_and_two_are_a_shift() -> None:
    rng = np.random.default_rng(5)
    steady = rng.normal(0, 1, 60)
    one, further = judged(*steady, 12.0), judged(*steady, 1e6)
    two = judged(*steady, 12.0, 12.0)
    assert further["z"] == pytest.approx(one["z"]), "how far out it is does not matter"
    assert two["z"] > one["z"] + 1


def test_correlated_values_need_a_larger_shift() -> None:
    rng = np.random.default_rng(6)
    free = rng.normal(0, 1, 90)
    alike = free.copy()
    for at in range(1, alike.size):
        alike[at] = 0.7 * alike[at - 1] + 0.71 * free[at]
    scores = []
    for values in (free, alike):
        values[-14:] += 1.2 * values.std()
        scores.append(judged(*values))
    assert scores[1]["correlation"] > 0.4 > scores[0]["correlation"]
    assert scores[1]["z"] < scores[0]["z"]


def test_too_few_values_have_no_score_and_flat_parts_are_marked() -> None:
    assert np.isnan(judged(*range(11))["z"])
    assert judged(*[3.0] * 20)["z"] == 0
    flat = judged(*[3.0] * 20, 4.0, 4.0)
    assert flat["is_flat"]
    assert np.isnan(flat["z"])
    assert np.isfinite(judged(*[3.0] * 20, 4.0, 4.0, floor=0.5)["z"])


def test_missing_values_at_the_front_change_nothing() -> None:
    values = np.random.default_rng(7).normal(5, 2, 30)
    short = find_shifts_each(values[None], np.ones((1, 30), dtype=bool))
    padded = np.concatenate([np.full(9, 1e9), values])[None]
    present = np.arange(39)[None] >= 9
    long = find_shifts_each(padded, present)
    for name in ("z", "p_value", "moved", "before"):
        assert getattr(long, name) == pytest.approx(getattr(short, name))


@given(
    st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=60),
    st.floats(0.01, 100),
    st.floats(-1e5, 1e5),
)
def test_scores_are_finite_or_missing_and_do_not_depend_on_the_unit(
    values: list[float], unit: float, origin: float
) -> None:
    found = judged(*values)
    assert np.isnan(found["z"]) or np.isfinite(found["z"])
    assert np.isnan(found["z"]) or 0 <= found["p_value"] <= 1
    rounded = [round(value, 1) for value in values]
    before, after = judged(*rounded), judged(*[unit * value + origin for value in rounded])
    if np.isfinite(before["z"]) and np.isfinite(after["z"]):
        assert after["z"] == pytest.approx(before["z"], rel=1e-3, abs=1e-3)


def test_a_season_is_taken_off_once_there_are_three() -> None:
    rng = np.random.default_rng(8)
    number = np.arange(42)[None]
    season = 3.0 * (number % 7 >= 5)
    noise = rng.normal(0, 0.1, (1, 42))
    present = np.ones((1, 42), dtype=bool)
    found = remove_season(noise + season, present, number, 7)
    assert found.std() < 0.2
    assert found.mean() == pytest.approx((noise + season).mean())
    short = (noise + season)[:, :14]
    assert remove_season(short, present[:, :14], number[:, :14], 7) == pytest.approx(short)
