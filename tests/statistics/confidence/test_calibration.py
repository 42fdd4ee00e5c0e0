from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.calibration import calibration_curve
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import brier_score_loss

from gatemark.core.errors import InvalidValueError
from gatemark.statistics.confidence.calibration import (
    bin_index,
    bin_items,
    group_items,
    measure_calibration,
    simulate_twin_eces,
    split_brier,
)
from gatemark.statistics.proportion import wilson_interval


def _sample(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    n = int(rng.integers(2, 300))
    kind = rng.integers(3)
    if kind == 0:
        p = rng.random(n)
    elif kind == 1:
        p = rng.integers(0, 21, n) / 20
    else:
        p = np.clip(rng.beta(8, 2, n), 0, 1)
    return p, rng.random(n) < p ** rng.uniform(0.5, 2)


def _measure(p, y, **kwargs):
    return measure_calibration(group_items(p, y), np.random.default_rng(0), twins=20, **kwargs)


def test_numbers_are_those_of_sklearn():
    rng = np.random.default_rng(1)
    for _ in range(220):
        p, y = _sample(rng)
        found = _measure(p, y)
        accuracy, confidence = calibration_curve(y, p, n_bins=15)
        filled = [b for b in found.bins if b.n]
        on_edges = np.any(np.isclose(p * 15, np.round(p * 15), atol=1e-9))
        if not on_edges:
            assert [b.accuracy for b in filled] == pytest.approx(list(accuracy))
            assert [b.mean_confidence for b in filled] == pytest.approx(list(confidence))
            gaps = np.abs(accuracy - confidence)
            sizes = np.array([b.n for b in filled])
            assert found.ece == pytest.approx((sizes * gaps).sum() / p.size)
            assert found.mce == pytest.approx(gaps.max())
        fit = IsotonicRegression(y_min=0, y_max=1).fit_transform(p, y.astype(float))
        score = brier_score_loss(y, p, labels=[False, True])
        assert found.iso_dev == pytest.approx(np.abs(fit - p).mean(), abs=1e-9)
        assert found.iso_dev_max == pytest.approx(np.abs(fit - p).max(), abs=1e-9)
        assert found.brier.score == pytest.approx(score)
        assert found.brier.mcb == pytest.approx(score - np.mean((fit - y) ** 2), abs=1e-9)
        assert found.brier.unc == pytest.approx(y.mean() * (1 - y.mean()))


def test_numbers_are_their_plain_definitions():
    rng = np.random.default_rng(2)
    for _ in range(220):
        p, y = _sample(rng)
        bins = int(rng.integers(1, 25))
        found = _measure(p, y, bins=bins)
        total, gaps, large = 0.0, [], []
        for k in range(bins):
            low, high = k / bins, (k + 1) / bins
            inside = ((p > low + 1e-9) | (k == 0)) & (p <= high + 1e-9)
            if inside.any():
                gap = abs(y[inside].mean() - p[inside].mean())
                total += inside.sum() * gap
                gaps.append(gap)
                if inside.sum() >= 10:
                    large.append(gap)
        assert found.ece == pytest.approx(total / p.size)
        assert found.mce == pytest.approx(max(gaps))
        assert found.mce_min10 == (pytest.approx(max(large)) if large else None)


def test_brier_parts_add_up():
    rng = np.random.default_rng(3)
    for _ in range(200):
        parts = split_brier(group_items(*_sample(rng)))
        assert parts.score == pytest.approx(parts.mcb - parts.dsc + parts.unc, abs=1e-12)
        assert min(parts.mcb, parts.dsc, parts.unc) >= 0


@pytest.mark.parametrize(
    ("p", "expected"),
    [
        (0.0, 0),
        (1e-12, 0),
        (1 / 15, 0),
        (1 / 15 + 1e-6, 1),
        (0.2, 2),
        (0.4, 5),
        (0.6, 8),
        (0.8, 11),
        (1.0, 14),
        (0.1 + 0.1 + 0.1 + 0.1 + 0.1 + 0.1, 8),
    ],
)
def test_bins_are_closed_on_the_right_and_zero_is_in_the_first(p, expected):
    assert bin_index(np.array([p])).tolist() == [expected]


def test_no_confidence_is_lost_between_bins():
    p = np.concatenate([np.arange(0, 21) / 20, np.arange(0, 16) / 15, np.arange(0, 11) / 10])
    table = bin_items(group_items(p, np.ones(p.size)))
    assert sum(b.n for b in table) == p.size
    assert (table[0].low, table[-1].high) == (0.0, 1.0)


def test_a_bin_carries_its_wilson_interval_and_an_empty_one_nothing():
    table = bin_items(group_items([0.5] * 8, [1] * 6 + [0] * 2))
    filled = table[bin_index(np.array([0.5]))[0]]
    assert (filled.n, filled.correct, filled.accuracy) == (8, 6, 0.75)
    assert filled.interval == wilson_interval(6, 8)
    empty = table[0]
    assert (empty.n, empty.accuracy, empty.mean_confidence, empty.interval) == (0, None, None, None)


@pytest.mark.parametrize(("n", "mean_ece"), [(100, 0.105), (1000, 0.035), (5000, 0.0155)])
def test_a_calibrated_model_has_an_ece_that_falls_with_n_as_measured_before(n, mean_ece):
    rng = np.random.default_rng(4)
    samples = [group_items(rng.beta(5, 2, n), np.zeros(n)) for _ in range(20)]
    eces = [simulate_twin_eces(groups, rng, twins=20).mean() for groups in samples]
    assert np.mean(eces) == pytest.approx(mean_ece, rel=0.06)


def test_twins_are_what_a_plain_simulation_gives():
    rng = np.random.default_rng(11)
    p = np.round(rng.beta(5, 2, 250), 2)
    plain = [
        measure_calibration(group_items(p, rng.random(250) < p), rng, twins=1).ece
        for _ in range(600)
    ]
    twins = simulate_twin_eces(group_items(p, np.zeros(250)), rng, twins=2000)
    assert twins.mean() == pytest.approx(np.mean(plain), rel=0.04)
    assert np.quantile(twins, 0.9) == pytest.approx(np.quantile(plain, 0.9), rel=0.06)


def test_the_excess_of_a_calibrated_model_is_near_zero_and_of_a_boaster_is_not():
    rng = np.random.default_rng(5)
    p = rng.uniform(0.5, 1, 2000)
    honest = _measure(p, rng.random(2000) < p)
    boaster = _measure(p, rng.random(2000) < p - 0.2)
    assert abs(honest.ece_excess) < 0.02
    assert honest.twin_p_value > 0.05
    assert boaster.ece_excess > 0.12
    assert boaster.twin_p_value == pytest.approx(1 / 21)
    assert boaster.ece_excess == boaster.ece - boaster.twin_ece


def test_twins_of_grouped_and_of_lone_confidences_agree():
    rng = np.random.default_rng(6)
    coarse = rng.integers(1, 20, 3000) / 20
    lone = coarse + rng.uniform(-1e-7, 1e-7, 3000)
    twins = [
        simulate_twin_eces(group_items(c, np.zeros(3000)), rng, twins=400).mean()
        for c in (coarse - 1e-6, lone - 1e-6)
    ]
    assert twins[0] == pytest.approx(twins[1], rel=0.05)


def test_the_same_seed_gives_the_same_twins():
    groups = group_items(*_sample(np.random.default_rng(7)))
    once = measure_calibration(groups, np.random.default_rng(8))
    assert measure_calibration(groups, np.random.default_rng(8)) == once


def test_groups_of_parts_add_up_to_the_groups_of_the_whole():
    rng = np.random.default_rng(9)
    p, y = rng.integers(0, 11, 400) / 10, rng.random(400) < 0.5
    whole = group_items(p, y)
    parts = [group_items(p[i::3], y[i::3]) for i in range(3)]
    rows = [
        (c, correct, count)
        for g in parts
        for c, n, k in zip(g.confidence, g.items, g.correct, strict=True)
        for correct, count in ((1, k), (0, n - k))
    ]
    added = group_items(*(np.array(column) for column in zip(*rows, strict=True)))
    for field in range(3):
        assert added[field].tolist() == whole[field].tolist()
    assert whole.total == 400


def test_order_changes_no_bit():
    rng = np.random.default_rng(10)
    p, y = _sample(rng)
    order = rng.permutation(p.size)
    assert _measure(p, y) == _measure(p[order], y[order])


@pytest.mark.parametrize("value", [0.0, 0.3, 1.0])
def test_one_item_has_every_number(value):
    found = _measure([value], [1])
    assert found.ece == found.mce == found.iso_dev == pytest.approx(1 - value)
    assert found.mce_min10 is None
    assert math.isfinite(found.ece_excess)


@pytest.mark.parametrize(
    ("p", "y"),
    [
        ([1.1], [1]),
        ([-0.1], [1]),
        ([math.nan], [1]),
        ([0.5], [2]),
        ([0.5], [1, 0]),
    ],
)
def test_impossible_items_are_refused(p, y):
    with pytest.raises(InvalidValueError):
        group_items(p, y)


def test_no_items_and_no_bins_are_refused():
    with pytest.raises(InvalidValueError):
        measure_calibration(group_items([], []), np.random.default_rng(0))
    with pytest.raises(InvalidValueError):
        _measure([0.5], [1], bins=0)
