from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import roc_auc_score

from gatemark.statistics.confidence.calibration import group_items
from gatemark.statistics.confidence.resolution import Resolution, measure_resolution


def measured(confidence: object, correct: object, bins: int = 15) -> Resolution:
    return measure_resolution(group_items(confidence, correct), bins)


@pytest.mark.parametrize("steps", [3, 20, 10**6])
@pytest.mark.parametrize("seed", range(5))
def test_the_area_and_its_p_values_are_those_of_other_libraries(seed: int, steps: int) -> None:
    rng = np.random.default_rng(seed)
    confidence = rng.integers(0, steps + 1, 150) / steps
    correct = rng.random(150) < 0.3 + 0.4 * confidence
    found = measured(confidence, correct)
    assert found.auroc == pytest.approx(roc_auc_score(correct, confidence), abs=1e-12)
    for alternative, p_value in (("greater", found.p_above), ("less", found.p_below)):
        oracle = stats.mannwhitneyu(
            confidence[correct],
            confidence[~correct],
            alternative=alternative,
            method="asymptotic",
            use_continuity=False,
        )
        assert p_value == pytest.approx(oracle.pvalue, abs=1e-12)


def test_the_interval_covers_the_true_area() -> None:
    rng = np.random.default_rng(8)
    true = float(stats.norm.cdf(1 / np.sqrt(2)))
    covered = 0
    for _ in range(400):
        correct = rng.random(200) < 0.6
        confidence = stats.norm.cdf(rng.normal(size=200) + correct)
        low, high = measured(confidence, correct).interval or (0.0, 0.0)
        covered += low <= true <= high
    # Binomial limits of 400 draws at .95, wide enough for the normal approximation.
    assert 0.92 <= covered / 400 <= 0.98


def test_a_constant_confidence_has_no_information() -> None:
    found = measured([0.8] * 10, [True] * 8 + [False] * 2)
    assert (found.auroc, found.p_above, found.p_below) == (0.5, 1.0, 1.0)
    assert "the same confidence" in str(found.explain_uninformative())


def test_inverted_confidences_are_found_and_chance_is_not() -> None:
    right = [True] * 50 + [False] * 50
    inverted = measured([0.6] * 50 + [0.9] * 50, right)
    assert inverted.is_inverted
    assert "lower confidences than wrong ones (AUROC 0," in str(inverted.explain_uninformative())
    mixed = measured([0.1, 0.9] * 50, right)
    assert (mixed.auroc, mixed.is_inverted, mixed.is_shown) == (0.5, False, False)
    assert mixed.explain_uninformative() is None


def test_a_constant_with_noise_is_one_bin_without_information() -> None:
    rng = np.random.default_rng(3)
    noisy = 0.83 + 0.01 * rng.random(200)
    found = measured(noisy, np.arange(200) % 5 > 0)
    assert found.filled_bin_count == 1
    assert "all confidences are in one bin" in str(found.explain_uninformative())


@pytest.mark.parametrize("is_right", [True, False])
def test_one_kind_of_answer_has_no_area(is_right: bool) -> None:
    found = measured([0.7, 0.8, 0.9], [is_right] * 3)
    assert (found.auroc, found.interval, found.p_above) == (None, None, None)
    assert found.explain_uninformative() is None
    assert measured([0.1, 0.9], [False, True]).interval is None
