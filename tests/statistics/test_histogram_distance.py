from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import jensenshannon
from scipy.stats import entropy

from gatemark.statistics.histogram_distance import (
    js_each,
    kl_each,
    kl_null_mean_each,
    kl_null_sd_each,
)

COUNTS = st.lists(st.integers(0, 1000), min_size=10, max_size=10)


@settings(deadline=None, max_examples=60)
@given(COUNTS, COUNTS)
def test_kl_is_that_of_scipy_over_smoothed_counts_and_always_finite(
    current: list[int], reference: list[int]
) -> None:
    p, q = np.asarray(current, float), np.asarray(reference, float)
    found = float(kl_each(p, q))
    assert found == pytest.approx(float(entropy(p + 0.5, q + 0.5)), abs=1e-12)
    assert np.isfinite(found)


@settings(deadline=None, max_examples=60)
@given(COUNTS, COUNTS)
def test_js_is_the_square_of_scipys_distance_and_undefined_for_nothing(
    current: list[int], reference: list[int]
) -> None:
    p, q = np.asarray(current, float), np.asarray(reference, float)
    found = float(js_each(p, q))
    if p.sum() == 0 or q.sum() == 0:
        assert np.isnan(found)
    else:
        assert found == pytest.approx(float(jensenshannon(p, q)) ** 2, abs=1e-9)
        assert 0 <= found <= np.log(2) + 1e-12


def test_mass_where_the_reference_has_none_costs_more_than_the_reverse() -> None:
    inside, beside = np.asarray([50.0, 50, 0]), np.asarray([34.0, 33, 33])
    assert kl_each(beside, inside) > kl_each(inside, beside)


def test_the_null_mean_and_deviation_are_those_of_simulated_twins() -> None:
    rng = np.random.default_rng(8)
    shape = np.asarray([0.05, 0.05, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.2])
    current = rng.multinomial(400, shape, 20_000).astype(float)
    reference = rng.multinomial(5600, shape, 20_000).astype(float)
    distances = kl_each(current, reference)
    mean = kl_null_mean_each(10, np.asarray(400.0), np.asarray(5600.0))
    sd = kl_null_sd_each(10, np.asarray(400.0), np.asarray(5600.0))
    assert distances.mean() == pytest.approx(float(mean), rel=0.03)
    assert distances.std() == pytest.approx(float(sd), rel=0.05)


def test_a_histogram_of_nothing_has_no_null_mean() -> None:
    assert np.isnan(kl_null_mean_each(10, np.zeros(1), np.ones(1)))[0]
