from __future__ import annotations

import itertools

import numpy as np
import pytest
from statsmodels.stats.multitest import multipletests

from gatemark.core.errors import InvalidValueError
from gatemark.statistics.significance import benjamini_hochberg_p_values, holm_p_values, look_levels


def _p_values(rng: np.random.Generator) -> np.ndarray:
    p = rng.random(int(rng.integers(1, 40))) ** rng.integers(1, 5)
    return np.round(p, int(rng.integers(1, 6)))


# statsmodels takes 40 ms for one Holm adjustment; the plain definition below covers the rest.
@pytest.mark.parametrize(
    ("ours", "theirs", "cases"),
    [(holm_p_values, "holm", 25), (benjamini_hochberg_p_values, "fdr_bh", 250)],
)
def test_adjusted_p_values_are_those_of_statsmodels(ours, theirs, cases):
    rng = np.random.default_rng(1)
    for _ in range(cases):
        p = _p_values(rng)
        assert ours(p) == pytest.approx(multipletests(p, method=theirs)[1], rel=1e-12, abs=1e-15)


def test_holm_is_its_definition():
    rng = np.random.default_rng(3)
    for _ in range(250):
        p = _p_values(rng)
        ranked = sorted(p)
        steps = [
            min(1.0, max((p.size - i) * ranked[i] for i in range(k + 1))) for k in range(p.size)
        ]
        expected = [steps[ranked.index(x) + ranked.count(x) - 1] for x in p]
        assert np.allclose(np.sort(holm_p_values(p)), np.sort(steps), rtol=1e-12)
        assert np.all(holm_p_values(p) <= np.array(expected) + 1e-15)


def test_no_p_values_adjust_to_none():
    assert holm_p_values([]).size == 0
    assert benjamini_hochberg_p_values([]).size == 0


def test_adjustment_never_lowers_a_p_value():
    p = np.random.default_rng(2).random(50)
    assert np.all(benjamini_hochberg_p_values(p) >= p)
    assert np.all(holm_p_values(p) >= benjamini_hochberg_p_values(p))


@pytest.mark.parametrize("bad", [[-0.1], [1.5], [float("nan")], [[0.1]]])
def test_what_is_no_p_value_is_refused(bad):
    with pytest.raises(InvalidValueError):
        holm_p_values(bad)


@pytest.mark.parametrize("alpha", [0.01, 0.05])
@pytest.mark.parametrize("looks", [1, 2, 3, 10])
def test_levels_of_looks_add_up_to_alpha_and_grow(looks: int, alpha: float) -> None:
    levels = look_levels(looks, alpha)
    assert len(levels) == looks
    assert sum(levels) == pytest.approx(alpha, abs=1e-15)
    assert all(0 < level <= alpha for level in levels)
    assert levels[0] == min(levels)
    if looks == 3 and alpha == 0.05:
        # Lan and DeMets: 2 - 2 * Phi(1.96 / sqrt(t)) at t = 1/3, 2/3, 1.
        assert levels == pytest.approx((0.000687, 0.015687, 0.033626), abs=2e-5)
        assert all(early < late for early, late in itertools.pairwise(levels))


@pytest.mark.parametrize(("looks", "alpha"), [(0, 0.05), (3, 0.0), (3, 0.5)])
def test_looks_without_a_level_are_refused(looks: int, alpha: float) -> None:
    with pytest.raises(InvalidValueError, match="needs a look"):
        look_levels(looks, alpha)
