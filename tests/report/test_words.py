from __future__ import annotations

import math
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatemark.core.measurement import Interval
from gatemark.core.result import Cost
from gatemark.report import words

from .sample_results import BARE, FAILING, KAPPA_UNKNOWN, PASSING, WAIVED, finding


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.95, "ratio", "0.9500"),
        (0.0, "ratio", "0.0000"),
        (-0.0, "ratio", "0.0000"),
        (0.00001, "ratio", "1.000e-05"),
        (231.5, "ms", "231.50"),
        (12345.678, "ms", "12,345.7"),
        (3e12, "ms", "3.000e+12"),
        (1240.0, "count", "1,240"),
        (0.5, "count", "0.5000"),
    ],
)
def test_numbers_have_four_decimals_or_fewer_when_large(value: float, unit: str, text: str) -> None:
    assert words.number(value, unit) == text


@given(st.floats(-1e300, 1e300), st.sampled_from(["ratio", "count", "ms"]))
def test_a_printed_number_stays_near_and_never_becomes_zero(value: float, unit: str) -> None:
    back = float(words.number(value, unit).replace(",", ""))
    assert math.isclose(back, value, rel_tol=6e-4, abs_tol=5.1e-5)
    assert (back == 0) == (value == 0)


@given(st.floats(0, 1), st.floats(0, 1))
def test_an_observed_number_reads_as_the_bound_only_when_it_is(seen: float, bound: float) -> None:
    item = finding("r", "m", "fail", observed=seen, slack=seen - bound, bound=bound)
    assert (words.observed(item) == words.number(bound)) <= (seen == bound)


def test_a_near_miss_shows_all_its_digits() -> None:
    item = finding("r", "m", "fail", observed=0.89999, slack=-0.00001, bound=0.9)
    assert words.observed(item) == "0.89999"
    assert words.slack(item) == "-1.000e-05"


def test_an_unmeasured_number_is_words() -> None:
    assert words.observed(KAPPA_UNKNOWN) == "not measured"
    assert words.slack(KAPPA_UNKNOWN) == "none"


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_bound_is_written_with_exactly_its_digits(value: float) -> None:
    assert float(words.shortest(value)) == value


def test_bounds_and_intervals_read_as_people_write_them() -> None:
    item = finding("r", "m", "pass", op="<=", bound=250.0, observed=1.0, slack=249.0)
    assert words.bound(item) == "<= 250"
    assert words.bound(item, sign=True) == "≤ 250"
    for bound, text in (
        (0.01 + 1e-12, "<= 0.01 + 1e-12"),
        (0.3 + 1e-12, "<= 0.3 + 1e-12"),
        (0.1 + 0.2, "<= 0.30000000000000004"),
        (0.0123456789, "<= 0.0123456789"),
        (1e-12, "<= 1e-12"),
        (0.0, "<= 0"),
    ):
        item = finding("r", "m", "pass", op="<=", bound=bound, observed=0.0, slack=bound)
        assert words.bound(item) == text
    interval = Interval(0.93, 0.97, 0.95, "Wilson")
    assert words.interval(interval) == "[0.9300, 0.9700]"
    assert words.interval_source(interval) == "95 % Wilson"


def test_the_headline_is_the_first_blocker_or_the_tally() -> None:
    assert words.headline(FAILING) == FAILING.blockers[0]
    assert words.headline(PASSING) == "All 4 rules held."
    assert words.headline(BARE) == "The only rule held."
    assert words.headline(WAIVED) == (
        "1 of 4 rules held; 1 waived; 1 passed softly, unmeasured; 1 broken, only a warning."
    )


def test_unknown_money_is_not_zero_money() -> None:
    assert words.cost(Cost(1)) == "1 call, money not recorded"
    assert words.cost(Cost(2, 0.5, "EUR")) == "2 calls, 0.5 EUR"
    assert words.cost(Cost(2, 0.5)) == "2 calls, 0.5 (currency not recorded)"


def test_cells_are_never_blank() -> None:
    assert [words.cell(value) for value in (None, True, False, 3, 0.5, "", " ", "a")] == [
        "not given",
        "yes",
        "no",
        "3",
        "0.5000",
        "(empty)",
        "(empty)",
        "a",
    ]


def test_moments_are_utc() -> None:
    east = timezone(timedelta(hours=2))
    assert words.moment(datetime(2025, 3, 1, 1, 0, 5, tzinfo=east)) == "2025-02-28 23:00:05Z"


@given(st.text(st.characters()))
def test_clean_text_keeps_its_length_and_one_line_is_one_line(text: str) -> None:
    assert len(words.clean(text)) == len(text)
    assert len(words.one_line(text).splitlines()) <= 1
    words.clean(text).encode()


def test_clean_shows_what_it_took_away() -> None:
    assert words.clean("a\x00b\x1bc\u202ed\ufffee\n") == "a\ufffdb\ufffdc\ufffdd\ufffde\n"
    assert words.shortened("abcdef", 4) == "abc…"
