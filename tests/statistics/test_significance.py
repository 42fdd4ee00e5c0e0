from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from statsmodels.stats.contingency_tables import mcnemar as oracle

from gatemark.core.errors import InvalidValueError
from gatemark.statistics.significance import (
    mcnemar_test,
    minimum_detectable_effect,
)


def test_exact_p_is_that_of_statsmodels():
    rng = np.random.default_rng(1)
    for _ in range(300):
        b, c = (int(x) for x in rng.integers(0, rng.integers(2, 300), 2))
        if b + c == 0:
            continue
        expected = oracle([[7, b], [c, 9]], exact=True).pvalue
        assert mcnemar_test(b, c).p_value == pytest.approx(expected, rel=1e-9)


def test_p_values_are_those_of_exact_fractions():
    for b in range(14):
        for c in range(14):
            if b + c == 0:
                continue
            k, n = min(b, c), b + c
            below = sum(Fraction(math.comb(n, i), 2**n) for i in range(k))
            at = Fraction(math.comb(n, k), 2**n)
            found = mcnemar_test(b, c)
            assert found.p_value == pytest.approx(float(min(1, 2 * (below + at))), rel=1e-12)
            assert found.mid_p_value == pytest.approx(float(min(1, 2 * below + at)), rel=1e-12)


def test_one_published_split_gives_the_known_three_decimals():
    found = mcnemar_test(14, 5)
    assert round(found.p_value, 3) == 0.064
    assert round(found.mid_p_value, 3) == 0.041


def test_nothing_discordant_gives_one_and_says_why():
    found = mcnemar_test(0, 0)
    assert (found.p_value, found.mid_p_value) == (1.0, 1.0)
    assert found.note == "no discordant items"


def test_a_far_tail_keeps_its_digits():
    assert mcnemar_test(0, 900).p_value == pytest.approx(2.0**-899, rel=1e-9)


@pytest.mark.parametrize(
    ("rate", "effects"), [(0.05, (0.044, 0.020)), (0.10, (0.063, 0.028)), (0.20, (0.089, 0.040))]
)
def test_the_planning_table_is_reproduced(rate, effects):
    assert tuple(round(minimum_detectable_effect(n, rate), 3) for n in (200, 1000)) == effects


def test_the_detectable_effect_is_detected_with_its_power():
    rng = np.random.default_rng(2)
    n, rate = 1000, 0.1
    effect = minimum_detectable_effect(n, rate)
    shares = [(rate + effect) / 2, (rate - effect) / 2, 1 - rate]
    draws = rng.multinomial(n, shares, size=2000)
    z = (draws[:, 0] - draws[:, 1]) / np.sqrt(draws[:, 0] + draws[:, 1])
    assert np.mean(np.abs(z) > 1.959964) == pytest.approx(0.8, abs=0.04)


@pytest.mark.parametrize(
    "call",
    [
        lambda: mcnemar_test(-1, 2),
        lambda: minimum_detectable_effect(0, 0.1),
        lambda: minimum_detectable_effect(10, 0.0),
        lambda: minimum_detectable_effect(10, 0.1, power=1.0),
    ],
)
def test_impossible_designs_are_refused(call):
    with pytest.raises(InvalidValueError):
        call()
