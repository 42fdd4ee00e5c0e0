from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import integrate, stats

from gatemark.core.errors import InvalidValueError
from gatemark.statistics.preference import (
    choose_majority,
    judge_preference,
    log_e_value,
    one_sided_log_e_value,
    position_bias,
    win_p_value,
)
from gatemark.statistics.proportion import wilson_interval


def test_p_value_is_the_one_sided_binomial_test_of_scipy():
    rng = np.random.default_rng(1)
    for _ in range(250):
        wins, losses = (int(x) for x in rng.integers(0, 120, 2))
        if wins + losses == 0:
            continue
        theirs = stats.binomtest(wins, wins + losses, 0.5, alternative="greater").pvalue
        assert win_p_value(wins, losses) == pytest.approx(theirs, rel=1e-9)


def test_e_values_are_their_integrals():
    for wins, losses in ((0, 0), (1, 0), (12, 7), (7, 12), (40, 20), (3, 30)):
        n = wins + losses

        def likelihood(p, wins=wins, losses=losses):
            return (2 * p) ** wins * (2 * (1 - p)) ** losses

        whole = integrate.quad(likelihood, 0, 1)[0]
        upper = 2 * integrate.quad(likelihood, 0.5, 1)[0]
        assert log_e_value(wins, losses) == pytest.approx(math.log(whole), abs=1e-8), n
        assert one_sided_log_e_value(wins, losses) == pytest.approx(math.log(upper), abs=1e-8), n


def test_one_sided_e_value_stays_finite_far_out():
    far = one_sided_log_e_value(10, 5000)
    assert math.isfinite(far)
    assert far < one_sided_log_e_value(11, 5000)
    near_underflow = [one_sided_log_e_value(w, 1100) for w in range(30)]
    steps = np.diff(near_underflow)
    assert np.all(np.abs(np.diff(steps)) < 1e-3)


def _walks(p: float, runs: int, n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    wins = np.cumsum(np.random.default_rng(seed).random((runs, n)) < p, axis=1)
    return wins, np.arange(1, n + 1)


def test_looking_all_the_time_misleads_a_sign_test_but_not_the_e_process():
    wins, n = _walks(0.5, 6000, 200, 2)
    p = np.minimum(1, 2 * stats.binom.cdf(np.minimum(wins, n - wins), n, 0.5))
    looks = np.arange(9, 200)
    assert np.mean((p[:, looks] <= 0.05).any(axis=1)) == pytest.approx(0.27, abs=0.03)
    assert np.mean((p[:, 19::20] <= 0.05).any(axis=1)) == pytest.approx(0.15, abs=0.03)
    log_e = _log_e(wins, n)
    assert np.mean((log_e >= math.log(20)).any(axis=1)) == pytest.approx(0.03, abs=0.01)


def _log_e(wins: np.ndarray, n: np.ndarray) -> np.ndarray:
    table = np.array(
        [
            [log_e_value(w, k - w) if w <= k else 0 for w in range(n[-1] + 1)]
            for k in range(n[-1] + 1)
        ]
    )
    return table[n, wins]


def test_the_e_process_has_the_power_and_the_stopping_times_measured_before():
    for p, power, stop in ((0.65, 0.90, 81), (0.7, None, 45)):
        wins, n = _walks(p, 4000, 200, 3)
        clear = (_log_e(wins, n) >= math.log(20)) & (2 * wins > n)
        stopped = clear.any(axis=1)
        if power is not None:
            assert stopped.mean() == pytest.approx(power, abs=0.03)
        times = clear[stopped].argmax(axis=1) + 1
        assert np.median(times) == pytest.approx(stop, abs=6)


def test_a_clear_preference_passes_and_its_mirror_fails():
    won = judge_preference(40, 15, 5)
    lost = judge_preference(15, 40, 5)
    assert (won.outcome, lost.outcome) == ("pass", "fail")
    assert won.win_rate == 40 / 55
    assert won.half_tie_win_rate == 42.5 / 60
    assert won.interval == wilson_interval(40, 55, 0.95)
    assert won.p_value == win_p_value(40, 15)
    assert "40:15" in str(won.reason)


def test_the_test_decides_where_the_wilson_interval_disagrees():
    found = judge_preference(59, 41, 0)
    assert found.interval[0] < 0.5
    assert found.p_value < 0.05
    assert found.outcome == "pass"


def test_few_decisive_pairs_are_inconclusive_however_clear():
    found = judge_preference(19, 0, 300)
    assert found.outcome == "inconclusive"
    assert str(found.reason) == "19 decisive pairs, at least 20 are needed"
    assert judge_preference(20, 0, 0).outcome == "pass"


def test_peeking_asks_for_more():
    assert judge_preference(60, 40, 0).outcome == "pass"
    peeked = judge_preference(60, 40, 0, peeking=True)
    assert peeked.outcome == "inconclusive"
    assert judge_preference(70, 30, 0, peeking=True).outcome == "pass"
    assert judge_preference(30, 70, 0, peeking=True).outcome == "fail"
    assert peeked.anytime_p_value == pytest.approx(min(1, math.exp(-peeked.log_e_value)))


def test_no_decisive_pair_has_no_rate():
    found = judge_preference(0, 0, 4)
    assert (found.win_rate, found.interval, found.p_value) == (None, None, None)
    assert found.half_tie_win_rate == 0.5
    assert found.outcome == "inconclusive"
    assert judge_preference(0, 0, 0).half_tie_win_rate is None


def test_equal_answers_rarely_pass_or_fail():
    rng = np.random.default_rng(5)
    wins = rng.binomial(60, 0.5, 4000)
    outcomes = [judge_preference(int(w), 60 - int(w), 0).outcome for w in wins]
    for side in ("pass", "fail"):
        assert outcomes.count(side) / 4000 <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 4000)


@pytest.mark.parametrize(
    ("votes", "expected"),
    [
        (["candidate", "candidate", "baseline"], "candidate"),
        (["baseline", "tie", "baseline"], "baseline"),
        (["candidate", "baseline"], "tie"),
        (["candidate", "tie"], "tie"),
        (["candidate", "tie", "tie"], "tie"),
        (["candidate", "candidate", "baseline", "baseline", "tie"], "tie"),
        ([], "tie"),
    ],
)
def test_the_majority_of_an_item_is_one_vote(votes, expected):
    assert choose_majority(votes) == expected


def test_position_bias_is_the_two_sided_binomial_test():
    found = position_bias(75, 100)
    assert found.p_value == pytest.approx(stats.binomtest(75, 100).pvalue, rel=1e-9)
    assert found.is_biased
    assert not position_bias(55, 100).is_biased
    nothing = position_bias(0, 0)
    assert (nothing.first_win_rate, nothing.p_value, nothing.is_biased) == (None, None, False)


def test_impossible_counts_are_refused():
    with pytest.raises(InvalidValueError):
        judge_preference(-1, 0, 0)
    with pytest.raises(InvalidValueError):
        judge_preference(1, 0, 0, alpha=0.0)
    with pytest.raises(InvalidValueError):
        position_bias(3, 2)
