from __future__ import annotations

import math

import pytest

from gatemark.core.errors import InvalidValueError
from gatemark.core.measurement import Interval
from gatemark.statistics.proportion import Bootstrap, Estimate, IntervalEstimate, zero_width_caveat

POINT = Interval(low=1.0, high=1.0, level=0.95, method="analytic")


@pytest.mark.parametrize(("value", "reason"), [(None, None), (0.5, "why")])
def test_an_estimate_is_a_value_or_a_reason(value: float | None, reason: str | None) -> None:
    with pytest.raises(InvalidValueError, match="value or a reason"):
        Estimate(value, reason)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_an_estimate_is_finite(value: float) -> None:
    with pytest.raises(InvalidValueError, match="finite"):
        Estimate(value)


@pytest.mark.parametrize(("interval", "reason"), [(None, None), (POINT, "why")])
def test_an_interval_estimate_is_an_interval_or_a_reason(
    interval: Interval | None, reason: str | None
) -> None:
    with pytest.raises(InvalidValueError, match="interval or a reason"):
        IntervalEstimate(interval, reason)
    with pytest.raises(InvalidValueError, match="interval or a reason"):
        Bootstrap(interval, reason, draw_count=10, undefined_count=0)


def test_an_interval_without_width_has_a_caveat() -> None:
    assert zero_width_caveat(POINT) == ("zero_width_interval",)
    assert zero_width_caveat(Interval(low=0.9, high=1.0, level=0.95, method="analytic")) == ()
    assert zero_width_caveat(None) == ()
    drawn = Bootstrap(POINT, draw_count=10, undefined_count=0)
    assert drawn.caveats == ("zero_width_interval",)
