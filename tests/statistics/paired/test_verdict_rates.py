from __future__ import annotations

import pytest

from gatemark.core.errors import InvalidValueError
from gatemark.statistics.paired.verdict_rates import SuiteDesign, verdict_rates

FOUR = [SuiteDesign(0.25, 500, 0.04, 0.04)] * 4


def test_the_bar_of_four_suites_of_500_items() -> None:
    """Margin 0.02, 4 % of answers differ: equal candidates pass, worse ones do not."""
    equal = verdict_rates(FOUR, margin=0.02, drop=0.0)
    assert equal.passed >= 0.80
    assert equal.failed <= 0.02
    assert verdict_rates(FOUR, margin=0.02, drop=0.02).passed <= 0.05
    assert verdict_rates(FOUR, margin=0.02, drop=0.01).failed <= 0.02
    assert verdict_rates(FOUR, margin=0.02, drop=0.04).failed >= 0.9


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
    everywhere = verdict_rates(designs, margin=margin, drop=margin, draws=2000)
    assert everywhere.passed <= allowed
    assert everywhere.failed <= allowed
    guarded = verdict_rates(designs, margin=margin, drop=[0.0, 2 * margin, 0.0], draws=2000)
    assert guarded.passed <= allowed
    assert verdict_rates(designs, margin=margin, drop=0.0, draws=2000).failed <= 0.02


def test_one_suite_is_judged_at_the_margin() -> None:
    (one,) = [SuiteDesign(1.0, 2000, 0.5, 0.04)]
    assert verdict_rates([one], margin=0.02, drop=0.02).passed <= 0.05
    assert verdict_rates([one], margin=0.02, drop=0.0).passed >= 0.95
    with pytest.raises(InvalidValueError):
        verdict_rates([one], margin=0.02, drop=[0.0, 0.0])
    with pytest.raises(InvalidValueError):
        verdict_rates([SuiteDesign(1.0, 1, 0.5, 0.04)], margin=0.02, drop=0.0)
