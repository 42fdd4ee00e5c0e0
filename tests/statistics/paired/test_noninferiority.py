from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest

from gatemark.core.errors import InvalidValueError
from gatemark.statistics.paired.noninferiority import (
    judge_point,
    non_inferiority_of_deltas,
)
from gatemark.statistics.significance import drop_bounds

ALPHA = 0.05


def _within_noise(hits: int, runs: int) -> bool:
    return hits / runs <= ALPHA + 3 * math.sqrt(ALPHA * (1 - ALPHA) / runs)


@cache
def _judged(lost: int, gained: int, n: int, margin: float) -> str:
    """The rule that the bounds of a drop are for."""
    lower, upper = drop_bounds(lost, gained, n, one_sided_alpha=ALPHA)
    if judge_point(upper, margin) == "pass":
        return "pass"
    is_beyond = judge_point((lost - gained) / n, margin) == "fail" and lower > 0
    return "fail" if is_beyond else "inconclusive"


def _count_outcomes(drop: float, rate: float, n: int, margin: float, runs: int) -> dict[str, int]:
    rng = np.random.default_rng(n)
    shares = [(rate + drop) / 2, (rate - drop) / 2, 1 - rate]
    found = {"pass": 0, "fail": 0, "inconclusive": 0}
    for lost, gained, _ in rng.multinomial(n, shares, size=runs).tolist():
        found[_judged(lost, gained, n, margin)] += 1
    return found


@pytest.mark.parametrize(
    ("rate", "n"), [(0.05, 50), (0.3, 50), (0.05, 250), (0.1, 250), (0.06, 900)]
)
def test_equal_models_rarely_fail(rate, n):
    assert _within_noise(_count_outcomes(0.0, rate, n, 0.02, 1500)["fail"], 1500)


@pytest.mark.parametrize(
    ("rate", "n"), [(0.05, 50), (0.3, 50), (0.05, 250), (0.1, 250), (0.06, 900)]
)
def test_a_model_worse_by_the_margin_rarely_passes(rate, n):
    assert _within_noise(_count_outcomes(0.05, rate, n, 0.05, 1500)["pass"], 1500)


def test_enough_items_let_equal_models_pass():
    found = _count_outcomes(0.0, 0.05, 1200, 0.02, 300)
    assert found["pass"] / 300 > 0.8
    assert found["fail"] <= 3


def test_a_clear_drop_fails():
    assert _count_outcomes(0.1, 0.2, 400, 0.02, 200)["fail"] / 200 > 0.97


def _graded(rng: np.random.Generator, kind: str, n: int) -> tuple[np.ndarray, float]:
    """Deltas, and the drop they truly have."""
    if kind == "dense":
        return -np.clip(rng.normal(0.05, 0.2, n), -1, 1), 0.05
    if kind == "sparse":
        changed = rng.random(n) < 0.1
        sign = np.where(rng.random(n) < 0.75, 1, -1)
        return -(changed * sign * rng.uniform(0.25, 1, n)), 0.1 * 0.5 * 0.625
    return -np.where(rng.random(n) < 0.03, 1.0, rng.uniform(-0.02, 0.02, n)), 0.03


@pytest.mark.parametrize("kind", ["dense", "sparse", "collapse"])
@pytest.mark.parametrize("n", [30, 150])
def test_a_graded_model_worse_by_the_margin_rarely_passes(kind, n):
    rng = np.random.default_rng(3)
    passed = 0
    for _ in range(500):
        deltas, drop = _graded(rng, kind, n)
        found = non_inferiority_of_deltas(deltas, rng, margin=drop, alpha=ALPHA, draws=299)
        passed += found.outcome == "pass"
    assert _within_noise(passed, 500)


@pytest.mark.parametrize("n", [30, 150])
def test_equal_graded_models_rarely_fail(n):
    rng = np.random.default_rng(4)
    failed = 0
    for _ in range(500):
        deltas = np.clip(rng.standard_t(3, n) * 0.1, -1, 1)
        found = non_inferiority_of_deltas(deltas, rng, margin=0.01, alpha=ALPHA, draws=299)
        failed += found.outcome == "fail"
    assert _within_noise(failed, 500)


def test_clustered_items_that_move_together_rarely_pass_when_worse():
    rng = np.random.default_rng(5)
    clusters = np.repeat(np.arange(20), 10)
    passed = 0
    for _ in range(400):
        deltas = -np.clip(0.05 + 0.15 * rng.normal(size=20)[clusters], -1, 1)
        found = non_inferiority_of_deltas(
            deltas, rng, margin=0.05, alpha=ALPHA, clusters=clusters, draws=299
        )
        passed += found.outcome == "pass"
    assert _within_noise(passed, 400)


def test_graded_models_pass_and_fail_when_it_is_clear():
    rng = np.random.default_rng(6)
    same = rng.normal(0, 0.05, 600)
    assert non_inferiority_of_deltas(same, rng, margin=0.03).outcome == "pass"
    worse = np.clip(rng.normal(-0.2, 0.1, 600), -1, 1)
    found = non_inferiority_of_deltas(worse, rng, margin=0.03)
    assert (found.outcome, found.point) == ("fail", "fail")
    assert found.lower > 0.03


def test_no_change_on_few_items_is_inconclusive():
    assert _judged(0, 0, 100, 0.02) == "inconclusive"
    assert _judged(0, 0, 150, 0.02) == "pass"
    graded = non_inferiority_of_deltas(np.zeros(20), np.random.default_rng(0), margin=0.02)
    assert (graded.outcome, graded.point) == ("inconclusive", "pass")


def test_a_drop_above_the_margin_that_may_be_chance_is_inconclusive():
    deltas = np.array([-1.0] * 3 + [1.0] + [0.0] * 46)
    found = non_inferiority_of_deltas(deltas, np.random.default_rng(0), margin=0.02)
    assert (found.outcome, found.point) == ("inconclusive", "fail")
    assert "may be chance" in found.reason


def test_the_reason_names_drop_bounds_margin_and_n():
    deltas = np.array([-1.0] * 50 + [1.0] * 2 + [0.0] * 348)
    found = non_inferiority_of_deltas(deltas, np.random.default_rng(0), margin=0.02)
    assert found.outcome == "fail"
    assert found.reason.startswith("drop 0.12 [0.0")
    assert found.reason.endswith("0.02 (n=400)")


def test_the_point_rule_forgives_rounding_and_nothing_else():
    assert judge_point(0.90 - 0.88, 0.02) == "pass"
    assert judge_point(0.0200001, 0.02) == "fail"
    assert judge_point(-0.3, 0.0) == "pass"


def test_nothing_paired_is_inconclusive_both_ways():
    found = non_inferiority_of_deltas([], np.random.default_rng(0), margin=0.02)
    assert (found.outcome, found.point, found.drop) == ("inconclusive", "inconclusive", None)
    assert found.reason == "no paired items"


@pytest.mark.parametrize(("margin", "alpha"), [(-0.1, 0.05), (1.0, 0.05), (0.02, 0.0), (0.02, 0.5)])
def test_impossible_designs_are_refused(margin, alpha):
    with pytest.raises(InvalidValueError):
        non_inferiority_of_deltas([0.0], np.random.default_rng(0), margin=margin, alpha=alpha)


def test_scores_outside_their_range_are_refused():
    with pytest.raises(InvalidValueError):
        non_inferiority_of_deltas([3.0], np.random.default_rng(0), margin=0.02)
