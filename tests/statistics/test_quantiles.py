from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatemark.core.errors import InvalidValueError
from gatemark.statistics.quantiles import (
    percentile_disc,
    sketch_percentile,
    sketch_values,
)

times = st.lists(st.floats(0, 1e9, allow_subnormal=False), min_size=1, max_size=60)


@settings(deadline=None)
@given(times, st.sampled_from([1, 50, 90, 95, 99, 100]))
def test_percentiles_are_numpys_inverted_cdf(values: list[float], percent: int) -> None:
    ordered = np.sort(np.array(values))
    expected = np.quantile(ordered, percent / 100, method="inverted_cdf")
    assert percentile_disc(ordered, percent) == expected


def test_every_size_gives_numpys_bits() -> None:
    for n in range(1, 400):
        ordered = np.arange(n, dtype=np.float64)
        for percent in (50, 95):
            expected = np.quantile(ordered, percent / 100, method="inverted_cdf")
            assert percentile_disc(ordered, percent) == expected


@settings(deadline=None)
@given(times, st.sampled_from([50, 95]))
def test_a_sketch_is_at_most_a_tenth_of_a_per_cent_too_high(
    values: list[float], percent: int
) -> None:
    exact = percentile_disc(np.sort(np.array(values)), percent)
    found = sketch_percentile(sketch_values(np.array(values)), percent)
    assert exact <= found <= exact * (1 + 2.0**-9)


@settings(deadline=None)
@given(times, times)
def test_sketches_of_parts_add_up_to_the_sketch_of_all(
    left: list[float], right: list[float]
) -> None:
    whole = sketch_values(np.array(left + right))
    parts = [sketch_values(np.array(part)) for part in (left, right)]
    assert whole == {
        key: sum(part.get(key, 0) for part in parts) for key in sorted({*parts[0], *parts[1]})
    }


def test_what_has_no_percentile_is_refused() -> None:
    with pytest.raises(InvalidValueError, match="at least one value"):
        percentile_disc(np.array([]), 50)
    with pytest.raises(InvalidValueError, match=r"\(0, 100\]"):
        percentile_disc(np.array([1.0]), 0)
    with pytest.raises(InvalidValueError, match=">= 0"):
        sketch_values(np.array([-1.0]))
