from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gatemark.core.measurement import Interval, measured
from gatemark.report.html import BAR_MARGIN, BAR_WIDTH, make_interval_bar

from .sample_results import (
    ABSTAIN,
    ABSTAIN_HOLDS,
    KAPPA_UNKNOWN,
    LANE,
    NO_KAPPA,
    PA_HOLDS,
    PERCENT,
    finding,
)

finite = st.floats(-1e250, 1e250)


def test_a_lone_value_or_a_reason_has_no_bar() -> None:
    assert make_interval_bar(LANE, ()) is None
    assert make_interval_bar(NO_KAPPA, (KAPPA_UNKNOWN,)) is None


def test_marks_stand_in_the_order_of_their_numbers() -> None:
    bar = make_interval_bar(PERCENT, (PA_HOLDS,))
    assert bar is not None
    assert bar.low is not None
    assert bar.high is not None
    assert BAR_MARGIN <= bar.bounds[0] < bar.low < bar.value < bar.high <= BAR_WIDTH - BAR_MARGIN
    assert (bar.start, bar.end) == ("0.89", "0.98")
    assert bar.allowed == (bar.bounds[0], BAR_WIDTH - BAR_MARGIN)
    assert bar.description == "value 0.9417, interval [0.9044, 0.9650], must be ≥ 0.9"


def test_a_lower_is_better_bound_allows_the_left_side() -> None:
    bar = make_interval_bar(ABSTAIN, (ABSTAIN_HOLDS,))
    assert bar is not None
    assert bar.allowed == (BAR_MARGIN, bar.bounds[0])
    assert bar.start == "0"


def test_two_bounds_that_exclude_each_other_allow_nothing() -> None:
    above = finding("a", PERCENT.name, "pass", bound=0.9, observed=0.9417, slack=0.0417)
    below = finding("b", PERCENT.name, "fail", op="<=", bound=0.5, observed=0.9417, slack=-0.4417)
    bar = make_interval_bar(PERCENT, (above, below))
    assert bar is not None
    assert bar.allowed is None
    assert len(bar.bounds) == 2


@given(finite, finite, finite, finite, st.sampled_from(["ratio", "ms", "count"]))
def test_every_mark_stays_on_the_bar(
    value: float, one: float, other: float, bound: float, unit: str
) -> None:
    low, high = sorted((one, other))
    item = measured(
        "m", value, n=1, direction="neutral", unit=unit, interval=Interval(low, high, 0.9, "x")
    )
    bar = make_interval_bar(
        item, (finding("r", "m", "pass", observed=value, slack=0.0, bound=bound),)
    )
    assert bar is not None
    for place in (bar.value, bar.low, bar.high, *bar.bounds):
        assert place is not None
        assert BAR_MARGIN - 0.01 <= place <= BAR_WIDTH - BAR_MARGIN + 0.01


@given(st.floats(0, 1), st.floats(0, 1))
def test_the_scale_of_a_ratio_stays_inside_its_range(value: float, bound: float) -> None:
    item = measured("m", value, n=1, direction="neutral")
    bar = make_interval_bar(
        item, (finding("r", "m", "pass", observed=value, slack=0.0, bound=bound),)
    )
    if value == bound:
        assert bar is None
        return
    assert bar is not None
    assert 0 <= float(bar.start) < float(bar.end) <= 1


def test_nothing_but_zeros_stands_on_a_plain_scale() -> None:
    nowhere = Interval(0.0, 0.0, 0.95, "bca")
    zero = measured("waste", 0.0, n=30, direction="lower_is_better", interval=nowhere)
    bar = make_interval_bar(zero, ())
    assert bar is not None
    assert (bar.start, bar.end) == ("0", "1")
    assert bar.value == BAR_MARGIN
