from __future__ import annotations

import pytest

from gatemark.core.errors import InvalidValueError
from gatemark.statistics.paired.verdict_rates import SuiteDesign, adaptive_rates

FOUR = [SuiteDesign(0.25, 500, 0.04, 0.04)] * 4


def test_the_bar_of_four_suites_of_500_items() -> None:
    """Margin 0.02, 4 % of answers differ: equal candidates pass, worse ones do not."""
    equal = adaptive_rates(FOUR, looks=1, margin=0.02, drop=0.0)
    assert equal.passed >= 0.80
    assert equal.failed <= 0.02
    assert adaptive_rates(FOUR, looks=1, margin=0.02, drop=0.02).passed <= 0.05
    assert adaptive_rates(FOUR, looks=1, margin=0.02, drop=0.01).failed <= 0.02
    assert adaptive_rates(FOUR, looks=1, margin=0.02, drop=0.04).failed >= 0.9


@pytest.mark.parametrize("discordance", [0.0, 0.04, 0.1, 0.2])
@pytest.mark.parametrize("items", [50, 200, 1000])
@pytest.mark.parametrize("margin", [0.02, 0.05])
def test_levels_hold_for_all_sizes_and_unequal_weights(
    items: int, margin: float, discordance: float
) -> None:
    designs = [
        SuiteDesign(0.5, items, 2 * margin, discordance),
        SuiteDesign(0.3, 2 * items, 2 * margin, discordance),
        SuiteDesign(0.2, max(20, items // 4), 2 * margin, discordance),
    ]
    allowed = 0.05 + 2.33 * (0.05 * 0.95 / 2000) ** 0.5
    everywhere = adaptive_rates(designs, looks=1, margin=margin, drop=margin, draws=2000)
    assert everywhere.passed <= allowed
    assert everywhere.failed <= allowed
    guarded = adaptive_rates(
        designs, looks=1, margin=margin, drop=[0.0, 2 * margin, 0.0], draws=2000
    )
    assert guarded.passed <= allowed
    assert adaptive_rates(designs, looks=1, margin=margin, drop=0.0, draws=2000).failed <= 0.02


def test_one_suite_is_judged_at_the_margin() -> None:
    (one,) = [SuiteDesign(1.0, 2000, 0.5, 0.04)]
    assert adaptive_rates([one], looks=1, margin=0.02, drop=0.02).passed <= 0.05
    assert adaptive_rates([one], looks=1, margin=0.02, drop=0.0).passed >= 0.95
    with pytest.raises(InvalidValueError):
        adaptive_rates([one], looks=1, margin=0.02, drop=[0.0, 0.0])
    with pytest.raises(InvalidValueError):
        adaptive_rates([SuiteDesign(1.0, 1, 0.5, 0.04)], looks=1, margin=0.02, drop=0.0)


@pytest.mark.parametrize("looks", [2, 3, 5])
@pytest.mark.parametrize("discordance", [0.02, 0.1])
@pytest.mark.parametrize(("items", "margin"), [(150, 0.05), (500, 0.02), (2000, 0.02)])
def test_many_looks_make_no_more_errors_than_one(
    items: int, margin: float, discordance: float, looks: int
) -> None:
    designs = [SuiteDesign(0.25, items, 2 * margin, discordance)] * 4
    allowed = 0.05 + 2.33 * (0.05 * 0.95 / 2000) ** 0.5
    at_margin = adaptive_rates(designs, looks=looks, margin=margin, drop=margin, draws=2000)
    assert at_margin.passed <= allowed
    assert at_margin.failed <= 0.02 + 2.33 * (0.02 * 0.98 / 2000) ** 0.5
    equal = adaptive_rates(designs, looks=looks, margin=margin, drop=0.0, draws=2000)
    assert equal.failed <= 0.02


def test_looks_save_items_and_keep_the_verdict() -> None:
    large = [SuiteDesign(0.25, 2000, 0.04, 0.04)] * 4
    equal = adaptive_rates(large, looks=3, margin=0.02, drop=0.0)
    assert equal.passed >= 0.99
    assert equal.items <= 0.6 * 8000
    worse = adaptive_rates(large, looks=3, margin=0.02, drop=0.04)
    assert worse.failed >= 0.99
    assert worse.items <= 0.5 * 8000
