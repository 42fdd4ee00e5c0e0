from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from gatemark.core.errors import InvalidValueError
from gatemark.plugins.overhead import paired_overhead, ratio_interval
from gatemark.plugins.overhead.paired_overhead import compare_accuracy, compare_losses
from gatemark.plugins.overhead.ratio_interval import Resampling
from gatemark.plugins.overhead.time_overhead import compare_times
from gatemark.statistics.resampling.bootstrap import DEFAULT_RESAMPLES
from gatemark.statistics.significance import drop_bounds


def rng(seed: int = 1) -> np.random.Generator:
    return np.random.default_rng(seed)


def by(seed: int = 1, resamples: int = DEFAULT_RESAMPLES) -> Resampling:
    return Resampling(seed, resamples=resamples)


def weighted(d: Any, w: Any, axis: int = -1) -> Any:
    return np.sum(d * w, axis=axis) / np.sum(w, axis=axis)


def test_the_worked_example_of_the_reference_implementation() -> None:
    found = compare_losses([10, 10, 20], [2.0, 2.5, 3.0], [2.005, 2.505, 3.005], by())
    assert 1 + found.overhead == pytest.approx(1.005012520859401, abs=1e-15)
    assert found.guarded / found.bare == pytest.approx(1 + found.overhead, rel=1e-14)


def test_perplexity_is_weighted_by_tokens() -> None:
    found = compare_losses([1, 3], [1.0, 2.0], [2.0, 2.0], by())
    assert found.bare == pytest.approx(math.exp(1.75))
    assert found.guarded == pytest.approx(math.exp(2.0))
    assert found.shifts.tolist() == [1.0, 0.0]


def test_the_interval_is_scipys_paired_bca_of_the_weighted_mean() -> None:
    for seed in range(12):
        draw = rng(seed)
        n = int(draw.integers(5, 60))
        tokens = draw.integers(20, 512, n)
        bare = draw.gamma(9, 0.3, n)
        guarded = bare + draw.normal(0.004, 0.02, n)
        theirs = stats.bootstrap(
            (guarded - bare, tokens),
            weighted,
            paired=True,
            n_resamples=499,
            rng=rng(seed),
        ).confidence_interval
        found = compare_losses(tokens, bare, guarded, by(seed, resamples=499))
        assert found.interval is not None
        assert found.interval.method == "bca"
        assert found.interval.low == pytest.approx(math.expm1(theirs.low), rel=1e-9, abs=1e-12)
        assert found.interval.high == pytest.approx(math.expm1(theirs.high), rel=1e-9, abs=1e-12)


def test_the_interval_covers_the_truth_at_its_level() -> None:
    hits = 0
    draw = rng(8)
    for seed in range(200):
        tokens = draw.integers(50, 400, 60)
        bare = draw.gamma(9, 0.3, 60)
        guarded = bare + draw.exponential(0.01, 60)
        found = compare_losses(tokens, bare, guarded, by(seed, resamples=399))
        assert found.interval is not None
        hits += found.interval.low <= math.expm1(0.01) <= found.interval.high
    assert 0.90 <= hits / 200 <= 0.985


def test_what_the_plan_can_see_shrinks_with_more_windows() -> None:
    draw = rng(3)
    bare, noise = draw.gamma(9, 0.3, 1600), draw.normal(0, 0.05, 1600)
    few = compare_losses(np.ones(100), bare[:100], bare[:100] + noise[:100], by(resamples=99))
    many = compare_losses(np.ones(1600), bare, bare + noise, by(resamples=99))
    assert few.detectable is not None
    assert many.detectable is not None
    assert many.detectable == pytest.approx(few.detectable / 4, rel=0.25)
    error = noise.std(ddof=1) / 40
    assert many.detectable == pytest.approx(math.expm1(error * (1.959964 + 0.841621)), rel=1e-4)


def test_one_answer_per_window_gets_the_exact_paired_bound() -> None:
    bare = np.array([1] * 90 + [0] * 10)
    guarded = np.array([1] * 85 + [0] * 13 + [1] * 2)
    found = compare_accuracy(np.ones(100), bare, guarded, by())
    assert found.overhead == pytest.approx(0.03)
    assert found.interval is not None
    low, high = drop_bounds(5, 2, 100, one_sided_alpha=0.025)
    assert (found.interval.low, found.interval.high) == pytest.approx((low, high))


def test_equal_counts_still_leave_room_for_a_rare_loss() -> None:
    found = compare_accuracy(np.full(20, 10), np.full(20, 8), np.full(20, 8), by(resamples=999))
    assert found.overhead == 0
    assert found.interval is not None
    assert found.interval.method == "point, gaffke above"
    assert found.interval.high > 0.05
    assert (found.interval.low, found.other_intervals[0].high) == (0, 0)
    assert found.detectable is None


def test_larger_windows_weigh_more_in_accuracy() -> None:
    found = compare_accuracy([10, 90], [10, 45], [0, 45], by(resamples=99))
    assert (found.bare, found.guarded) == (0.55, 0.45)
    assert found.overhead == pytest.approx(0.10)
    assert found.shifts.tolist() == [1.0, 0.0]


def test_many_answers_are_left_to_bca(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paired_overhead, "GAFFKE_CELLS", 10)
    found = compare_accuracy([10, 10, 10], [9, 8, 7], [9, 7, 7], by(resamples=99))
    assert found.interval is not None
    assert (found.interval.method, found.other_intervals) == ("bca", ())


def test_too_many_windows_to_resample_get_a_t_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = rng(5)
    bare, shift = draw.gamma(9, 0.3, 300), draw.normal(0.01, 0.02, 300)
    plain = compare_losses(np.ones(300), bare, bare + shift, by(resamples=2_999))
    monkeypatch.setattr(ratio_interval, "MAX_DRAWN_CELLS", 1_000)
    found = compare_losses(np.ones(300), bare, bare + shift, by(resamples=2_999))
    expected = stats.ttest_1samp(shift, 0).confidence_interval(0.95)
    assert found.interval is not None
    assert found.interval.method == "t"
    assert "too many to resample" in str(found.interval_reason)
    assert found.interval.low == pytest.approx(math.expm1(expected.low))
    assert found.interval.high == pytest.approx(math.expm1(expected.high))
    assert plain.interval is not None
    assert plain.interval.high == pytest.approx(found.interval.high, rel=0.05)


def test_windows_that_all_shift_alike_show_no_spread() -> None:
    found = compare_losses([5, 5, 5], [2.0, 3.0, 4.0], [2.125, 3.125, 4.125], by())
    assert found.interval is not None
    assert found.interval.low == found.interval.high == pytest.approx(math.expm1(0.125))
    assert found.interval_reason == "all units are equal, so resampling shows no spread"
    assert found.detectable is None


def test_one_window_has_no_interval() -> None:
    found = compare_losses([5], [2.0], [2.1], by())
    assert (found.interval, found.interval_reason) == (None, "one window shows no spread")


def test_time_is_compared_in_total_and_paired_by_window() -> None:
    overhead, interval, _ = compare_times([10, 20, 30], [11, 22, 33], by(resamples=99))
    assert overhead == pytest.approx(0.1)
    assert interval is not None


@pytest.mark.parametrize(
    ("tokens", "guarded"),
    [([1, 10**9], [1e6, 2.0]), ([5, 5], [2.0, 1300.0]), ([5] * 9, [2.0] * 8 + [5000.0])],
)
def test_windows_that_break_altogether_keep_every_number_finite(
    tokens: list[int], guarded: list[float]
) -> None:
    found = compare_losses(tokens, [2.0] * len(tokens), guarded, by())
    assert found.interval is not None
    assert found.interval.low <= found.overhead <= found.interval.high < math.inf
    assert found.detectable is not None
    assert math.isfinite(found.detectable)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.tuples(st.integers(1, 999), st.floats(0.01, 20), st.floats(0.01, 20)),
        min_size=2,
        max_size=30,
    )
)
def test_swapping_the_arms_turns_the_ratio_over(rows: list[tuple[int, float, float]]) -> None:
    tokens, bare, guarded = (list(column) for column in zip(*rows, strict=True))
    there = compare_losses(tokens, bare, guarded, by(resamples=49))
    back = compare_losses(tokens, guarded, bare, by(resamples=49))
    assert (1 + there.overhead) * (1 + back.overhead) == pytest.approx(1, rel=1e-9)
    assert there.interval is not None
    assert there.interval.low <= there.interval.high


@pytest.mark.parametrize(
    "columns",
    [
        ([], [], []),
        ([1], [1.0, 2.0], [1.0]),
        ([0, 1], [1.0, 2.0], [1.0, 2.0]),
        ([1, 1], [1.0, math.nan], [1.0, 2.0]),
        ([1, 1], [1.0, 2.0], [1.0, math.inf]),
        ([1, 1], [800.0, 800.0], [1.0, 2.0]),
        ([1] * 9, [1.0] * 9, [1e308] * 9),
        ([2**53 - 1] * 2, [1.0] * 2, [1e300] * 2),
    ],
)
def test_windows_that_cannot_be_compared_are_refused(columns: tuple[list[float], ...]) -> None:
    with pytest.raises(InvalidValueError):
        compare_losses(*columns, by())
